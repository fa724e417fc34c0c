"""Error and warning of this package."""

import inspect
import warnings

OURS = ("tggm", "sklearn")  # scikit-learn wraps methods of transformers


class TableError(ValueError):
    """A table cannot be used; the message names file, column and remedy."""


class TableWarning(UserWarning):
    """Columns of a table are left out or look wrong; the message names them."""


def warn(text: str, kind: type[Warning] = TableWarning) -> None:
    """Warn at the line outside of the package (and scikit-learn) that called it."""
    frame, level = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).split(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)
