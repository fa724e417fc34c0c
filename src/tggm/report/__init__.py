"""One self-contained HTML page about a fitted model and its performance on labelled rows.

`write_report(model, X, y, "report.html")` needs matplotlib and jinja2 (``pip install matplotlib jinja2``).
The page needs only a browser, and no network. `tggm.report.scores` needs neither of them, nor JAX.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tggm.report.writer import render_report, write_report

__all__ = ["render_report", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'tggm.report' has no attribute {name!r}")
    from tggm.report import writer

    return getattr(writer, name)
