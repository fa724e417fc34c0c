"""One self-contained HTML page about a fitted model and its performance on labelled rows.

`write_report(model, X, y, "report.html")` needs matplotlib and jinja2 (``pip install tggm[report]``); the
page needs only a browser, and no network.
"""

from tggm.report.writer import render_report, write_report

__all__ = ["render_report", "write_report"]
