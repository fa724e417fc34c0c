"""What a source gives, made into arrays or refused with a sentence.

Sources are the work of others, and may change between two passes, so that every piece of every pass is looked
at: its type and shape, which cost nothing. Values are looked at where they are measured and where they are
trained on.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_GAPS = ("None", "nan", "<NA>", "NaT")  # what NumPy and pandas call a label that is missing


class Piece(NamedTuple):
    """Consecutive rows of a source."""

    start: int  # number of the first among all rows
    X: NDArray[Any]
    y: NDArray[Any]


class Form(NamedTuple):
    """What all pieces of a source have in common."""

    columns: int  # of X
    outputs: tuple[int, ...]  # shape of one row of y
    kind: str  # of y: numbers, text or bytes

    @classmethod
    def of(cls, piece: Piece) -> "Form":
        """That of a piece whose arrays were checked."""
        return cls(piece.X.shape[1], piece.y.shape[1:], _kind(piece.y))


def alike(pieces: Iterable[Piece], is_class: bool, form: Form | None = None) -> Iterator[Piece]:
    """The same pieces as arrays of numbers or labels, empty ones left out; all of one form, or an error."""
    for raw in pieces:
        X, y = table(raw.X, raw.y)
        if not len(X):
            continue
        X = numbers("X", X, raw.start)
        piece = Piece(raw.start, X, labels(y, raw.start) if is_class else numbers("y", y, raw.start))
        found = Form.of(piece)
        form = found if form is None else form
        if found != form:
            raise ValueError(_difference(found, form, raw.start))
        yield piece


def table(X: Any, y: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """A table and its targets as arrays, row for row."""
    X, y = plain("X", X), plain("y", y)
    require_table(X, y)
    return X, y


def require_table(X: Any, y: Any) -> None:
    """Raise unless these are arrays of the shapes of a table and its targets."""
    shapes = f"got shapes {tuple(X.shape)} and {tuple(y.shape)}."
    if X.ndim != 2 or y.ndim not in (1, 2) or len(X) != len(y):
        raise ValueError(f"`X` and `y` must be a table and its targets, row for row; {shapes}")
    if 0 in (*X.shape[1:], *y.shape[1:]):
        raise ValueError(f"`X` and `y` must have a column at least; {shapes}")


def plain(name: str, values: Any) -> NDArray[Any]:
    """What NumPy makes an array of without losing anything."""
    if np.ma.isMaskedArray(values):
        raise ValueError(
            f"`{name}` is a masked array, whose mask would be lost; leave the masked rows out, or fill them: "
            f"{name}.filled(0)."
        )
    if hasattr(values, "tocsr"):
        raise ValueError(f"`{name}` is sparse, which a stream cannot be; pass {name}.toarray().")
    try:
        return np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"`{name}` must be an array ({error}); give all its rows the same length.") from None


def numbers(name: str, array: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """An array of real numbers as it is, one of objects or text as float64."""
    if array.dtype.kind in "biuf":
        return array
    if array.dtype.kind == "c":
        raise ValueError(
            f"`{name}` must be real numbers; it is {array.dtype}. Pass {name}.real, or its real and "
            "imaginary parts as columns of their own."
        )
    if array.dtype.kind in "OUST":
        try:
            return np.asarray(array, np.float64)
        except (TypeError, ValueError):
            place, value = _no_number(array)
            where = f"row {start + place[0]}" + "".join(f", column {k}" for k in place[1:])
            raise ValueError(
                f"`{name}` must be numbers; {where} is {value!r}. Replace it by a number, and words by a "
                "column of zeros and ones for each."
            ) from None
    raise ValueError(
        f"`{name}` must be numbers; it is {array.dtype}. Replace dates by numbers that matter, and "
        "records by columns."
    )


def labels(y: NDArray[Any], start: int = 0) -> NDArray[Any]:
    """One label a row, all of them there and of a kind that can be sorted."""
    if y.size != len(y):
        raise ValueError(f"`y` must be one label a row; got shape {y.shape}.")
    y = y.reshape(-1)
    if y.dtype == object:
        kinds = {type(label) for label in y.tolist()}
        if kinds == {str}:
            return y
        gap = np.array([not isinstance(label, str) and str(label) in _GAPS for label in y.tolist()])
    else:
        kinds, gap = {float}, ~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(1, np.bool_)
    if gap.any():
        row = int(gap.argmax())
        raise ValueError(f"`y` has {y[row]} in row {start + row}, which is no label; leave such rows out.")
    if len({_group(kind) for kind in kinds}) > 1:
        raise ValueError(f"`y` has text and numbers from row {start} on; make all labels one or the other.")
    return y


def _group(kind: type) -> str:
    return "text" if issubclass(kind, str) else "bytes" if issubclass(kind, bytes) else "numbers"


def _kind(y: NDArray[Any]) -> str:
    if y.dtype == object and y.size:
        return _group(type(y.flat[0]))
    return {"U": "text", "T": "text", "S": "bytes"}.get(y.dtype.kind, "numbers")


def _no_number(array: NDArray[Any]) -> tuple[tuple[int, ...], Any]:
    """Place and value of the first entry that is no number."""
    for place, value in np.ndenumerate(array):
        try:
            float(value)
        except (TypeError, ValueError):
            return place, value.item() if isinstance(value, np.generic) else value
    return (0,), array[0]


def _difference(found: Form, form: Form, start: int) -> str:
    if found.columns != form.columns:
        return (
            f"`X` must have the same columns in every batch and pass; it has {found.columns} from row "
            f"{start} on, and had {form.columns} before."
        )
    if found.outputs != form.outputs:
        return (
            f"`y` must have one shape in every batch and pass; a row has shape {found.outputs} from row "
            f"{start} on, and had {form.outputs} before."
        )
    return (
        f"`y` must have labels of one kind in every batch and pass; they are {found.kind} from row {start} "
        f"on, and were {form.kind} before. Make all of them text, or numbers."
    )
