"""The error and the warning of this package."""


class TableError(ValueError):
    """A table cannot be used as it is; the message is one sentence that names file, column and remedy."""


class TableWarning(UserWarning):
    """Columns of a table are not used, or look as if they should not be; the message names them."""
