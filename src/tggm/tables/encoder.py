"""Convert tables to the numbers of a model, with the columns that a `TableTransformer` learned.

This module needs no scikit-learn: importing it takes longer than a prediction of one row.
"""

from typing import Any, Self

import numpy as np

from tggm.arrays import Floats
from tggm.tables.columns import Column, Note
from tggm.tables.inputs import as_table
from tggm.tables.schema import Preparation
from tggm.tables.table import Table, warn
from tggm.tables.target_encoding import Outcomes


class Encoder:
    """Encode tables; `TableTransformer` also learns the columns."""

    columns_: tuple[Column, ...]
    _missing: tuple[str, ...]  # words that mark missing values

    @classmethod
    def of(cls, preparation: Preparation) -> Self:
        """Return the encoder of a model file."""
        made = cls()
        made._missing, made.columns_ = preparation.gaps, preparation.columns
        made._set_names(preparation.names, preparation.named)
        return made

    def transform(self, X: Any) -> Any:
        """Return the numbers of a table; named columns may be in any order."""
        table = self._table(X)
        table.require([column.name for column in self.columns_])
        return self._encode(table)

    def encode_known(self, X: Any) -> Any:
        """Return the numbers of a table, NaN in the columns of values that the training rows did not have.

        These are new words, first missing values of a column, and, with a warning, absent columns.
        """
        table = self._table(X)
        return self._encode(table.completed([column.name for column in self.columns_]), unknown=True)

    def replacement_notes(self, table: Table) -> list[str]:
        """Return notes on values of a table that are filled or pooled."""
        table.require([column.name for column in self.columns_])
        notes: list[Note] = []
        for column in self.columns_:
            column.encode(table, notes)
        return [note.text for note in notes]

    def _encode(self, table: Table, outcome: Outcomes | None = None, unknown: bool = False) -> Floats:
        """Encode all columns and warn about those that look wrong; `outcome` are targets of training rows.

        With `unknown`, the features of values that the training rows did not have are NaN.
        """
        notes: list[Note] = []
        parts = []
        for column in self.columns_:
            some: list[Note] = []
            part = column.encode(table, some, outcome)
            for note in some if unknown else ():
                part[slice(0) if note.unknown is None else note.unknown] = np.nan
            parts.append(part)
            notes += [note for note in some if column.name not in table.absent]
        if doubts := [note.text for note in notes if note.doubtful and not table.numeric]:
            warn("; ".join(doubts))
        return np.concatenate(parts, axis=1)

    def _set_names(self, names: tuple[str, ...], named: bool) -> None:
        self._names, self._named = names, named
        self.n_features_in_ = len(names)
        self.__dict__.pop("feature_names_in_", None)
        if named:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _table(self, X: Any) -> Table:
        """Return new rows as a table with the names of the training columns."""
        table = as_table(X, self._missing)
        if table.named and (self._named or set(self._names) <= set(table.names)):
            return table
        if len(table.names) != len(self._names):
            raise ValueError(
                f"X has {len(table.names)} features, but TableTransformer is expecting {len(self._names)} "
                "features as input"
            )
        if table.numeric and self._named:  # in the words of scikit-learn
            kind = "TableTransformer was fitted with feature names"
            warn(f"X does not have valid feature names, but {kind}", UserWarning)
        new = dict(zip(table.names, self._names, strict=True))
        columns = {new[name]: column for name, column in table.columns.items()}
        categories = {new[name]: levels for name, levels in table.categories.items()}
        return Table(table.source, columns, categories=categories)
