"""The web server of `tggm serve`: four static files, a description, and predictions.

It listens on the machine itself unless told otherwise, runs no code that comes from a model or a request,
and refuses large bodies, fast senders, and pages of other origins.
"""

import json
import time
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from tggm.cli.answers import Answers
from tggm.tables import TableError

MOST_BYTES = 1 << 20  # of a body
MOST_REQUESTS = 50  # predictions in a second
PATIENCE = 10.0  # seconds that a client may take to send
LOCAL = ("127.0.0.1", "localhost", "[::1]")
STATIC = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/plot.js": ("plot.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Rate:
    """So many calls in a second, and no more."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._times: deque[float] = deque()
        self._lock = Lock()

    def allows(self) -> bool:
        """Whether one more is within the limit; it counts then."""
        with self._lock:
            now = self._clock()
            while self._times and now - self._times[0] >= 1.0:
                self._times.popleft()
            if len(self._times) >= self._most:
                return False
            self._times.append(now)
            return True


class ModelServer(ThreadingHTTPServer):
    """One model on one address."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], answers: Answers, rate: Rate | None = None) -> None:
        super().__init__(address, ModelHandler)
        self.answers, self.rate = answers, rate or Rate(MOST_REQUESTS)
        host = f"[{address[0]}]" if ":" in address[0] else address[0]
        self.hosts = {host, *LOCAL} if host in LOCAL else {host}


class RefusedError(Exception):
    """A request that is not answered: a status and a sentence."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ModelHandler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ModelServer
    timeout = PATIENCE
    server_version, sys_version = "tggm", ""

    def do_GET(self) -> None:
        """The page, or what the model takes."""
        self._answered(self._get)

    def do_POST(self) -> None:
        """Predictions."""
        self._answered(self._post)

    def _answered(self, work: Callable[[], tuple[bytes, str]]) -> None:
        try:
            self._require_local()
            content, kind = work()
            self._send(HTTPStatus.OK, content, kind)
        except RefusedError as error:
            self._send(error.status, _json({"error": str(error)}), "application/json")
        except TableError as error:
            self._send(HTTPStatus.BAD_REQUEST, _json({"error": str(error)}), "application/json")
        except ValueError as error:  # rows that cannot be computed with
            self._send(HTTPStatus.UNPROCESSABLE_ENTITY, _json({"error": str(error)}), "application/json")

    def _require_local(self) -> None:
        """Raise for names that lead here by a trick, and for pages of others."""
        host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
        if self.server.hosts != {"0.0.0.0"} and host not in self.server.hosts:
            raise RefusedError(HTTPStatus.FORBIDDEN, "this server does not answer to that name.")
        origin = self.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != self.headers.get("Host"):
            raise RefusedError(HTTPStatus.FORBIDDEN, "pages of other origins are not answered.")

    def _get(self) -> tuple[bytes, str]:
        path = urlsplit(self.path).path
        if path == "/model":
            return _json(self.server.answers.description()), "application/json"
        if path not in STATIC:
            raise RefusedError(HTTPStatus.NOT_FOUND, "there is /, /model and POST /predict.")
        name, kind = STATIC[path]
        return files("tggm.cli").joinpath("page", name).read_bytes(), f"{kind}; charset=utf-8"

    def _post(self) -> tuple[bytes, str]:
        content = self._body()
        if urlsplit(self.path).path != "/predict":
            raise RefusedError(HTTPStatus.NOT_FOUND, "predictions are at /predict.")
        if not self.server.rate.allows():
            raise RefusedError(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a second.")
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            return _json(self.server.answers.of_json(content)), "application/json"
        if kind == "text/csv":
            return _json(self.server.answers.of_csv(content)), "application/json"
        raise RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json or text/csv.")

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "say how long the body is: Content-Length.")
        if int(length) > MOST_BYTES:
            self.close_connection = True
            raise RefusedError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has {MOST_BYTES:,} bytes at most."
            )
        return self.rfile.read(int(length))

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a person at the terminal does not watch requests."""


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False).encode()
