"""The error and the warning of this package."""

import inspect
import warnings

OURS = ("tggm", "sklearn")  # scikit-learn wraps methods of transformers


class TableError(ValueError):
    """A table cannot be used as it is; the message is one sentence that names file, column and remedy."""


class TableWarning(UserWarning):
    """Columns of a table are not used, or look as if they should not be; the message names them."""


def warn(text: str, kind: type[Warning] = TableWarning) -> None:
    """Warn at the line of the user's that called the package, however deep the warning arises."""
    frame, level = inspect.currentframe(), 1
    while frame and str(frame.f_globals.get("__name__")).split(".")[0] in OURS:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, kind, stacklevel=level)
