"""The web application of `tggm serve`: a page, the description of a model, and predictions as JSON.

By default it listens on the local machine only. It runs no code from a model or a request, and rejects large
bodies and pages of other origins.
"""

import asyncio
import contextlib
import csv
import io
import json
import re
import socket
import warnings
from importlib.resources import files
from ipaddress import ip_address
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import uvicorn
from numpy.typing import NDArray
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import tggm
from tggm.cli.files import CommandError, interruption, say
from tggm.tables import TableError, TableWarning
from tggm.tables.columns import YEAR, Column, DateColumn, Number
from tggm.tables.reading import parse_csv

MOST_BYTES = 1 << 20  # of a body
MOST_WORDS = 200  # categories that are listed
POINTS = 161  # of a density
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
REACH = 3.0  # standard deviations that a slider covers if the model stores no range
WHOLE = 1e-3  # distance from integers up to which values are integers
SECONDS = 30  # in which a body must arrive
MOST_CLIENTS = 100  # at a time; others get status 503
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")  # but tab and newline
LOCAL = ("127.0.0.1", "localhost", "::1")
STATIC = {
    "/": "text/html", "/page.js": "text/javascript", "/plot.js": "text/javascript", "/page.css": "text/css",
}  # fmt: skip
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}  # fmt: skip


class ServedModel:
    """A fitted model with the responses of the application."""

    def __init__(self, model: Any, stored: Any) -> None:
        self._model, self._stored = model, stored
        self._lock = Lock()  # one prediction at a time

    def description(self) -> dict[str, Any]:
        """Return the target and the columns."""
        target, (shift, scale) = self._stored.target, self._model.fitted_.scales.x
        train, columns, begin = self._model.fitted_.train, [], 0
        for column in self._stored.columns:
            some = np.array([-REACH, REACH])
            if train is not None:  # the range of the training rows, and some of these rows
                some = np.array([train.low[begin], train.high[begin], *train.rows[:, begin]])
            columns.append(_describe(column, shift[begin] + scale[begin] * some))
            begin += len(column.features)
        return {"target": target.name, "task": target.task, "columns": columns}

    def predict(self, content: bytes) -> dict[str, Any]:
        """Return predictions for ``{"rows": [{column: value, ...}, ...]}``; a value may be null."""
        try:
            rows = json.loads(content)["rows"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TableError('the body must be JSON such as {"rows": [{"size": 3, "kind": "a"}]}.') from None
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise TableError("`rows` must be a list of at least one object.")
        names = [column.name for column in self._stored.columns]
        if missing := [name for name in names if name not in rows[0]]:
            raise TableError(f"a row has no column {missing[0]!r}; it needs {', '.join(names)}.")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", *names])
        writer.writerows([k, *(_cell(row.get(name)) for name in names)] for k, row in enumerate(rows))
        table = parse_csv(text.getvalue(), "the request", delimiter=",", missing=self._stored.gaps)
        notes = self._model.table_.replacement_notes(table)
        with self._lock, warnings.catch_warnings(action="ignore", category=TableWarning):
            if self._stored.target.is_class:
                labels, p = self._model.classes_.astype(str), self._model.predict_proba(table)
                found = {"labels": labels.tolist(), "label": labels[p.argmax(1)].tolist()}
                return found | {"probabilities": p.tolist(), "notes": notes}
            dist = self._model.predict_dist(table)
            low, high = (float(dist.ppf(q)[0]) for q in (0.001, 0.999))
            y = np.linspace(low, high, POINTS)
            for support in self._model.fitted_.supports:
                y = y if support.step is None else np.unique(support.observe(y))
            answers = {"mean": dist.mean(), "deviation": dist.std()}
            answers |= {"quantiles": dist.ppf(np.array([LEVELS])), "y": y}
            answers["density"] = dist[np.zeros(1, int)].pdf(y[None, :])[0]  # of the first row
        return {name: _finite(a) for name, a in answers.items()} | {"levels": LEVELS, "notes": notes}


def _describe(column: Column, values: NDArray[Any]) -> dict[str, Any]:
    """Return what the page needs to make an input for a column with these values."""
    made: dict[str, Any] = {"name": column.name, "about": column.description[:200], "kind": "text"}
    if isinstance(column, Number):
        whole = bool(np.abs(values - values.round()).max() < WHOLE)  # the rows are in single precision
        low, high, value = values.min(), values.max(), np.clip(column.fill, values.min(), values.max())
        ends = [float(x.round()) + 0.0 if whole else float(f"{x:.6g}") for x in (low, high, value)]  # no -0
        made |= {"kind": "number", "whole": whole, "marks": column.marks}
        return made | dict(zip(("low", "high", "value"), ends, strict=True))
    if isinstance(column, DateColumn):
        return made | {"value": str(np.datetime64(round(column.origin + YEAR * column.fill), "D"))}
    words = list(getattr(column, "levels", ()))[:MOST_WORDS]
    return made | ({"kind": "words", "words": words, "value": words[0]} if words else {})


def _cell(value: Any) -> str:
    """Return a JSON value as a field of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str) and CONTROL.search(value):
        raise TableError(f"a value must not have control characters; got {value[:60]!r}.")
    if isinstance(value, str | int | float):
        return str(value)
    raise TableError(f"a value must be a number, a string or null; got a {type(value).__name__}.")


def _finite(values: Any) -> Any:
    """Return nested lists of numbers, with null for those that are not finite, which JSON cannot hold."""
    array = np.asarray(values, dtype=np.float64)
    return np.where(np.isfinite(array), array, np.array(None)).tolist()


def may_be_named(named: str, names: set[str]) -> bool:
    """Return whether a header ``Host`` has an address or one of these names.

    Other names are refused, because an attacker can map them to this machine (DNS rebinding).
    """
    with contextlib.suppress(ValueError):
        name = urlsplit(f"//{named}").hostname or ""
        return name in names or bool(ip_address(name))
    return False


def application(served: ServedModel, host: str = "127.0.0.1") -> Starlette:
    """Return the web application of a model on `host`."""
    names = {host, "localhost", socket.gethostname()}

    def check(request: Request) -> None:
        """Raise for unknown names of this host and for pages of other origins."""
        named = request.headers.get("host", "")
        if not may_be_named(named, names):
            raise HTTPException(403, "this name of the server is not allowed; use its address.")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != named:
            raise HTTPException(403, "pages of other origins are not allowed.")

    def page(request: Request) -> Response:
        check(request)
        if request.url.path == "/model":
            return JSONResponse(served.description(), headers=HEADERS)
        name = request.url.path.lstrip("/") or "index.html"
        content = files("tggm.cli").joinpath("page", name).read_bytes()
        return Response(content, media_type=STATIC[request.url.path], headers=HEADERS)

    async def health(request: Request) -> Response:
        check(request)
        return JSONResponse({"status": "ok", "version": tggm.__version__}, headers=HEADERS)

    async def predict(request: Request) -> Response:
        check(request)
        content = b""
        try:
            async with asyncio.timeout(SECONDS):
                async for part in request.stream():
                    content += part
                    if len(content) > MOST_BYTES:
                        raise HTTPException(413, f"a body has at most {MOST_BYTES:,} bytes.")
        except TimeoutError:
            raise HTTPException(408, f"a body must arrive in {SECONDS} seconds.") from None
        return JSONResponse(await run_in_threadpool(served.predict, content), headers=HEADERS)

    def error_response(request: Request, error: Exception) -> Response:
        match error:
            case HTTPException(status_code=404 | 405):
                status, text = 404, "the paths are /, /model, /health and POST /predict."
            case HTTPException(status_code=status, detail=text):
                pass
            case ClientDisconnect():
                status, text = 400, "the client disconnected."
            case _:
                status, text = 400 if isinstance(error, TableError) else 422, str(error)
        return JSONResponse({"error": text}, status, HEADERS)

    routes = [Route(path, page) for path in (*STATIC, "/model")]
    routes += [Route("/health", health), Route("/predict", predict, methods=["POST"])]
    handled: Any = dict.fromkeys((HTTPException, ValueError, ClientDisconnect), error_response)
    return Starlette(routes=routes, exception_handlers=handled)


def serve_model(served: ServedModel, host: str, port: int, quiet: bool) -> None:
    """Serve until Ctrl-C."""
    if not host:
        raise CommandError("--host is empty; name an address, such as 127.0.0.1 or, for all, 0.0.0.0.")
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        reason = f"cannot be used ({error.strerror}); try another port."
        raise CommandError(f"--host {host} --port {port} {reason}") from None
    shown = f"[{host}]" if ":" in host else host
    if not quiet:
        say(f"http://{shown}:{listening.getsockname()[1]}/  (Ctrl-C ends it)")
    if host not in LOCAL:
        say("warning: everybody who can reach this address can use the model; there is no password")
    interruption.outcome = "the server has ended"
    app = application(served, host)
    config = uvicorn.Config(app, log_level="error", access_log=False, limit_concurrency=MOST_CLIENTS)
    with listening:
        uvicorn.Server(config).run(sockets=[listening])
