"""Control a browser through its debugging pipe: JSON messages that end in a zero byte.

It needs only the standard library and a Chromium on the PATH (or at CHROMIUM).
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def found():
    """Return the path of a browser, or None."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """One tab; use as a context manager."""

    def __init__(self, width=1200, height=900, deadline=60.0):
        self._until = time.monotonic() + deadline
        self._id, self._buffer, self.events = 0, b"", []
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = self._pipe()
        self._read, to_write = self._pipe()
        flags = f"""--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run
            --hide-scrollbars --disable-background-networking --remote-debugging-pipe
            --user-data-dir={self._profile.name} about:blank""".split()
        # the browser reads commands from descriptor 3 and writes answers to descriptor 4
        launcher = f"import os; os.dup2({to_read}, 3); os.dup2({to_write}, 4)"
        launcher += "; import sys; os.execv(sys.argv[1], sys.argv[1:])"
        command = [sys.executable, "-IS", "-c", launcher, found(), *flags]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, pass_fds=(to_read, to_write), **quiet)
        os.close(to_read)
        os.close(to_write)
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(width, height)

    @staticmethod
    def _pipe():
        """Return a pipe whose descriptors do not collide with the browser's."""
        low = os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
        for end in low:
            os.close(end)
        return high

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError, RuntimeError):
            self._session = None
            self.send("Browser.close")
        self._process.terminate()
        self._process.wait(10)
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def send(self, method, **params):
        """Send one command and return its result; keep events that arrive meanwhile."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], max(0.0, self._until - time.monotonic()))[0]:
                raise RuntimeError("the browser did not answer in time")
            part = os.read(self._read, 1 << 16)
            if not part:
                raise RuntimeError("the browser closed the pipe")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def resize(self, width, height):
        """Set the size of the window in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def open(self, url):
        """Load a page and wait for its load event."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def ask(self, expression):
        """Return the value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"]["description"])
        return answer["result"].get("value")

    def messages(self):
        """Return console messages, uncaught errors and log entries such as violations of the policy."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def requests(self):
        """Return requested addresses."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def printed(self):
        """Return the page as PDF."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])
