"""The web application of `tggm serve`: a page, the description of a model, and predictions as JSON.

It listens on the machine itself unless told otherwise, runs no code that comes from a model or a request, and
refuses large bodies, more than 50 predictions a second, and pages of other origins.
"""

import csv
import io
import json
import socket
import time
import warnings
from collections import deque
from collections.abc import Callable
from importlib.resources import files
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tggm.cli.files import CommandError, read_model
from tggm.cli.training import encoding_notes
from tggm.files import ModelFileError, load
from tggm.tables import Table, TableError, TableWarning
from tggm.tables.columns import Category, Column, DateColumn, Number, Ordinal, Statistic
from tggm.tables.reading import parse_csv

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

MOST_BYTES = 1 << 20  # of a body
MOST_REQUESTS = 50  # predictions in a second
MOST_ROWS = 10_000
MOST_DENSITIES = 20  # rows whose density is sent
MOST_WORDS = 200  # categories that are listed
POINTS = 161
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
REACH = 3.0  # standard deviations of a column that a slider covers
LOCAL = ("127.0.0.1", "localhost", "[::1]")
STATIC = {
    "/": "text/html",
    "/page.js": "text/javascript",
    "/plot.js": "text/javascript",
    "/page.css": "text/css",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class ServedModel:
    """A fitted model with the answers that the application gives."""

    def __init__(self, model: "BaseEstimator", stored: Any) -> None:
        self._model, self._stored = model, stored
        self._lock = Lock()  # one prediction at a time

    def description(self) -> dict[str, Any]:
        """Return the target and the columns."""
        target, scales = self._stored.target, self._model.fitted_.scales.x
        columns, begin = [], 0
        for column in self._stored.columns:
            columns.append(_described(column, float(scales.shift[begin]), float(scales.scale[begin])))
            begin += len(column.features)
        return {"target": target.name, "task": target.task, "columns": columns}

    def example(self) -> bytes:
        """Return a request that every model can answer."""
        row = {column["name"]: column.get("value") for column in self.description()["columns"]}
        return json.dumps({"rows": [row]}).encode()

    def predict_json(self, content: bytes) -> dict[str, Any]:
        """Return predictions for ``{"rows": [{column: value, ...}, ...]}``; a value may be null."""
        try:
            rows = json.loads(content)["rows"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise TableError('the body must be JSON, as {"rows": [{"size": 3, "kind": "a"}]}.') from None
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise TableError("`rows` must be a list of objects, one at least.")
        names = [column.name for column in self._stored.columns]
        missing = [name for name in names if name not in rows[0]]
        if missing:
            raise TableError(f"a row has no column {missing[0]!r}; it needs {', '.join(names)}.")
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", *names])
        writer.writerows([k, *(_cell(row.get(name)) for name in names)] for k, row in enumerate(rows))
        return self.predict_csv(text.getvalue().encode(), ",")

    def predict_csv(self, content: bytes, delimiter: str | None = None) -> dict[str, Any]:
        """Return predictions for the rows of a CSV file."""
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise TableError("the body must be UTF-8 text.") from None
        table = parse_csv(text, "the request", delimiter=delimiter, missing=self._stored.gaps)
        if len(table) > MOST_ROWS:
            raise TableError(f"{len(table)} rows at once are too many; send {MOST_ROWS} at most.")
        notes = encoding_notes(self._model, table)
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", TableWarning)
            found = self._classes(table) if self._stored.target.is_class else self._numbers(table)
        return found | {"notes": notes}

    def _classes(self, table: Table) -> dict[str, Any]:
        p = self._model.predict_proba(table)
        labels = [str(label) for label in self._model.classes_.tolist()]
        best = [labels[k] for k in p.argmax(1)]
        return {"labels": labels, "probabilities": p.tolist(), "label": best}

    def _numbers(self, table: Table) -> dict[str, Any]:
        law = self._model.predict_dist(table)
        found = {"mean": _finite(law.mean()), "deviation": _finite(law.std()), "levels": LEVELS}
        found["quantiles"] = _finite(law.ppf(np.array([LEVELS])))
        few = law[np.arange(min(len(table), MOST_DENSITIES))]
        low, high = (few.ppf(q)[:, None] for q in (0.001, 0.999))
        y = low + (high - low) * np.linspace(0, 1, POINTS)[None, :]
        pairs = zip(_finite(y), _finite(few.pdf(y)), strict=True)
        return found | {"densities": [{"y": a, "density": b} for a, b in pairs]}


def _described(column: Column, middle: float, spread: float) -> dict[str, Any]:
    """Return what the page needs to make an input for a column."""
    made: dict[str, Any] = {"name": column.name, "about": column.description[:200], "kind": "text"}
    match column:
        case Number(fill=fill):
            ends = {"low": middle - REACH * spread, "high": middle + REACH * spread}
            made |= {"kind": "number", "value": fill, **ends}
        case Category(levels=levels) | Ordinal(levels=levels) | Statistic(levels=levels):
            words = list(levels[:MOST_WORDS])
            made |= {"kind": "words", "words": words, "value": words[0] if words else ""}
        case DateColumn(origin=origin, fill=fill):
            day = np.datetime64("1970-01-01") + np.timedelta64(int(origin + 365.2425 * fill), "D")
            made |= {"value": str(day)}
    return made


def _cell(value: Any) -> str:
    """Return a JSON value as a field of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return str(value).replace("\0", "")
    raise TableError(f"a value must be a number, a word or null; got a {type(value).__name__}.")


def _finite(values: Any) -> Any:
    """Return nested lists of numbers, with null for those that are not finite, which JSON cannot hold."""
    array = np.asarray(values, dtype=np.float64)
    plain = array.astype(object)
    plain[~np.isfinite(array)] = None
    return plain.tolist()


def read_served_model(path: str) -> ServedModel:
    """Read a model file; the model predicts by NumPy where possible, so that nothing is compiled."""
    model, stored = read_model(path)
    try:
        served = ServedModel(load(path, backend="numpy"), stored)
        served.predict_json(served.example())
    except (ModelFileError, ValueError):  # a model that only JAX can compute
        return ServedModel(model, stored)
    return served


def application(served: ServedModel, host: str = "127.0.0.1", most: int = MOST_REQUESTS) -> Starlette:
    """Return the web application of a model on `host`, which answers `most` predictions in a second."""
    recent: deque[float] = deque(maxlen=most)  # times of the last predictions
    own = f"[{host}]" if ":" in host else host
    hosts = {own, *LOCAL} if own in LOCAL else {own}

    def check(request: Request) -> None:
        """Raise for other names of this host (DNS rebinding) and for pages of other origins."""
        named = request.headers.get("host", "")
        if hosts != {"0.0.0.0"} and (named.rpartition(":")[0] or named) not in hosts:
            raise HTTPException(403, "this server does not answer to that name.")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != named:
            raise HTTPException(403, "pages of other origins are not answered.")

    def page(request: Request) -> Response:
        check(request)
        name = request.url.path.lstrip("/") or "index.html"
        content = files("tggm.cli").joinpath("page", name).read_bytes()
        return Response(content, media_type=STATIC[request.url.path], headers=HEADERS)

    def model(request: Request) -> Response:
        check(request)
        return JSONResponse(served.description(), headers=HEADERS)

    async def predict(request: Request) -> Response:
        check(request)
        content = await read_body(request)
        if len(recent) == most and time.monotonic() - recent[0] < 1.0:
            raise HTTPException(429, "too many requests; wait a second.")
        recent.append(time.monotonic())
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        answers: dict[str, Any] = {"application/json": served.predict_json, "text/csv": served.predict_csv}
        if kind not in answers:
            raise HTTPException(415, "send application/json or text/csv.")
        return JSONResponse(await run_in_threadpool(answers[kind], content), headers=HEADERS)

    def refused(request: Request, error: Exception) -> Response:
        match error:
            case HTTPException(status_code=404 | 405):
                status, text = 404, "there is /, /model and POST /predict."
            case HTTPException(status_code=status, detail=text):
                pass
            case ClientDisconnect():
                status, text = 400, "the client has gone."
            case _:
                status, text = 400 if isinstance(error, TableError) else 422, str(error)
        return JSONResponse({"error": text}, status, HEADERS)

    routes = [*(Route(path, page) for path in STATIC), Route("/model", model)]
    routes.append(Route("/predict", predict, methods=["POST"]))
    handled: Any = dict.fromkeys((HTTPException, ValueError, ClientDisconnect), refused)
    return Starlette(routes=routes, exception_handlers=handled)


async def read_body(request: Request) -> bytes:
    """Return the body; raise if it is too large."""
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > MOST_BYTES:
            raise HTTPException(413, f"a body has {MOST_BYTES:,} bytes at most.")
    return content


def serve_model(served: ServedModel, host: str, port: int, tell: Callable[[str], None]) -> None:
    """Serve until Ctrl-C."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise CommandError(
            f"--host {host} --port {port} cannot be used ({error.strerror}); try another port."
        ) from None
    shown = f"[{host}]" if ":" in host else host
    tell(f"http://{shown}:{listening.getsockname()[1]}/  (Ctrl-C ends it)")
    if host not in ("127.0.0.1", "localhost", "::1"):
        tell("note: anybody who can reach this address can use the model")
    config = uvicorn.Config(application(served, host), log_level="error", access_log=False)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        return
    finally:
        listening.close()
