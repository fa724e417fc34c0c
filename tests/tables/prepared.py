"""Encode a table as the estimators do, with the notes that the command line prints."""

import numpy as np

from tggm.tables import Preparation, TableError
from tggm.tables.columns import encode_training
from tggm.tables.kinds import learn_columns
from tggm.tables.target_encoding import Outcomes


def prepare(table, target, **options):
    """Learn the columns of a table, whose rows all have a target."""
    gaps = tuple(options.pop("gaps", ()))
    inputs = table.without(target.name)
    found = learn_columns(inputs, target.values(table), target.is_class, **options)
    if not found.columns:
        raise TableError("no column")
    names = tuple(inputs.names)
    return Preparation(found.columns, target, found.left_out, gaps, names, notes=found.notes)


def features(prepared, table, notes=None, strict=False):
    """Encode new rows."""
    notes = [] if notes is None else notes
    table.require([column.name for column in prepared.columns])
    return np.concatenate([column.encode(table, notes, strict) for column in prepared.columns], axis=1)


def training_features(prepared, table):
    """Encode the rows that were learned from."""
    outcome = Outcomes.of(prepared.target.values(table), prepared.target.is_class)
    return encode_training(prepared.columns, table, outcome, features(prepared, table))
