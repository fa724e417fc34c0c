"""The one error of this package."""


class TableError(ValueError):
    """A table cannot be used as it is; the message is one sentence that names file, column and remedy."""
