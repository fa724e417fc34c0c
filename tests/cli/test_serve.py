"""`tggm serve`: responses equal predictions of the model, and bad requests are rejected."""

import http.client
import json
import socket
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Thread

import numpy as np
import pandas as pd
import pytest
import uvicorn
from numpy.testing import assert_allclose

from tests.deployment.fits import table, table_model
from tggm import load, save
from tggm.cli import server
from tggm.cli.files import CommandError, read_model
from tggm.cli.server import MOST_BYTES, ServedModel, _describe, application, may_be_named, serve_model
from tggm.tables.columns import Number

SECRET = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def model():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about marks
        return table_model()


@pytest.fixture(scope="module")
def address(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("serve") / "m.tggm"
    save(model, path)
    served = ServedModel(load(path, backend="numpy"), read_model(str(path))[1])
    with running(served) as found:
        yield found


@contextmanager
def running(served):
    """Run a real server on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application(served), log_level="error", access_log=False)
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield listening.getsockname()
        server.should_exit = True
        thread.join()


def asked(address, method, path, body=None, **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(http.client.HTTPConnection(*address, timeout=120)) as connection:
        connection.request(method, path, body, named)
        reply = connection.getresponse()
        return reply, reply.read()


def predicted(address, rows):
    body = json.dumps({"rows": rows})
    reply, content = asked(address, "POST", "/predict", body, Content_Type="application/json")
    return reply.status, json.loads(content)


def as_rows(frame):
    frame = frame.astype(object).where(frame.notna(), None)
    frame["day"] = [None if day is None else str(day)[:10] for day in frame["day"]]
    return frame.to_dict("records")


def test_predictions_are_those_of_the_model(address, model):
    status, found = predicted(address, as_rows(table()))
    assert status == 200
    mean, std = model.predict(table(), return_std=True)
    assert_allclose(found["mean"], mean, rtol=1e-7)
    assert_allclose(found["deviation"], std, rtol=1e-7)
    quantiles = model.predict_quantiles(table(), found["levels"])
    assert_allclose(found["quantiles"], quantiles, rtol=1e-7)
    assert_allclose(np.trapezoid(found["density"], found["y"]), 0.998, atol=2e-3)


def test_the_page_loads_nothing_from_elsewhere(address):
    for path in ("/", "/page.js", "/plot.js", "/page.css"):
        reply, content = asked(address, "GET", path)
        assert reply.status == 200
        text = content.decode().replace("http://www.w3.org/2000/svg", "")
        assert not any(word in text for word in ("http://", "https://", "innerHTML"))
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_the_description_has_every_column(address):
    reply, content = asked(address, "GET", "/model")
    found = json.loads(content)
    assert reply.headers["Content-Type"] == "application/json"
    kinds = {"size": "number", "dose": "number", "kind": "words", "grade": "words", "day": "text"}
    assert {column["name"]: column["kind"] for column in found["columns"]} == kinds | {"town": "words"}
    numbers = {column["name"]: column for column in found["columns"] if column["kind"] == "number"}
    size = table(200)["size"]
    assert_allclose([numbers["size"][end] for end in ("low", "high")], [size.min(), size.max()], rtol=1e-5)
    assert numbers["dose"]["low"] >= 0
    assert numbers["dose"]["marks"] == ["<", "n.d."]
    assert not numbers["size"]["whole"]
    (day,) = (column["value"] for column in found["columns"] if column["name"] == "day")
    assert abs(pd.Timestamp(day) - table(200)["day"].median()) <= pd.Timedelta(days=1)
    ages = _describe(Number("age", 40.5, False), np.array([18, 91, 33.00004, 60]))
    assert (ages["whole"], ages["low"], ages["high"], ages["value"]) == (True, 18, 91, 40)
    assert json.loads(asked(address, "GET", "/health")[1])["status"] == "ok"


@pytest.mark.parametrize(
    ("body", "kind", "headers", "status"),
    [
        (b"{", "application/json", {}, 400),
        (b'{"rows": []}', "application/json", {}, 400),
        (b'{"rows": [{"size": 1}]}', "application/json", {}, 400),
        (b"[" * 100_000, "application/json", {}, 400),
        (b"\xff\xfe\x00", "text/csv", {}, 400),
        (b"x" * (MOST_BYTES + 1), "text/csv", {}, 413),
        (b"{}", "application/json", {"Origin": "http://evil.example"}, 403),
        (b"{}", "application/json", {"Host": "evil.example:80"}, 403),
        (b'{"rows": [{"size": ' + b"9" * 5000 + b"}]}", "application/json", {}, 400),
    ],
    ids=["json", "none", "column", "deep", "bytes", "large", "origin", "host", "digits"],
)
def test_bad_requests_get_an_error_message(address, body, kind, headers, status):
    try:
        reply, content = asked(address, "POST", "/predict", body, Content_Type=kind, **headers)
    except (BrokenPipeError, ConnectionResetError):  # the server closed the connection during a large body
        assert status == 413
        return
    assert reply.status == status
    assert json.loads(content)["error"].endswith((".", "?"))


def test_other_paths_are_not_found(address):
    for path in ("/../pyproject.toml", "/page/index.html", "/predict", "//etc/passwd"):
        assert asked(address, "GET", path)[0].status == 404


def test_values_that_are_not_words_are_rejected(address):
    row = as_rows(table())[0]
    assert predicted(address, [{**row, "kind": ["a"]}])[0] == 400
    for word in ("a\rb", "\0", "\x1b[31m", "\ud800"):
        status, found = predicted(address, [{**row, "kind": word}])
        assert (status, found["error"][:43]) == (400, "a value must not have control characters; g")
    status, found = predicted(address, [{**row, "kind": SECRET}])
    assert status == 200
    assert any(SECRET in note for note in found["notes"])  # as JSON; the page inserts it as text


def test_thirty_parallel_clients_get_answers_and_some_may_disconnect(address, model, capsys):
    body = json.dumps({"rows": as_rows(table())})
    expected = model.predict(table())

    def client(number):
        if number % 3 == 0:  # it disconnects before the response
            with socket.create_connection(address) as connection:
                connection.sendall(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
            return None
        return asked(address, "POST", "/predict", body, Content_Type="application/json")

    with ThreadPoolExecutor(30) as pool:
        replies = [reply for reply in pool.map(client, range(45)) if reply is not None]
    assert [reply.status for reply, _ in replies] == [200] * 30
    for _, content in replies:
        assert_allclose(json.loads(content)["mean"], expected, rtol=1e-7)
    out, err = capsys.readouterr()
    assert out + err == ""


@pytest.mark.parametrize("named", ["127.0.0.1:80", "[::1]:8000", "localhost", "box:1", "10.0.0.3"])
def test_addresses_and_own_names_are_answered(named):
    assert may_be_named(named, {"box", "localhost"})
    for wrong in ("evil.example", "127.0.0.1.evil.example", "localhost.evil:8000", "[::1", ""):
        assert not may_be_named(wrong, {"box", "localhost"})


def test_a_slow_body_is_refused(model, monkeypatch, address):
    monkeypatch.setattr(server, "SECONDS", 0.2)
    with socket.create_connection(address) as connection:
        connection.sendall(b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
        assert connection.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    ("host", "said"), [("::1", "http://[::1]:"), ("0.0.0.0", "warning: everybody who can")]
)
def test_hosts(model, monkeypatch, capsys, host, said):
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: None)
    serve_model(None, host, 0, False)
    assert said in capsys.readouterr().err
    with pytest.raises(CommandError, match="--host is empty; name an address"):
        serve_model(None, "", 0, False)
