"""Run the code of a documentation page, in order, in one namespace and one folder.

    ```python   is executed
    ```sh       `tggm …`, `cat …` and `head …` lines are run; lines that begin with one of `INERT` are not
    ```text     directly after one of them is its output: words exactly, numbers roughly

`python -m tests.docs.blocks PAGE ...` runs pages and writes their outputs into them.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-−]?\d+(?:\.\d*)?(?:e[-+]?\d+)?")
INERT = ("pip install", "make ", "git clone", "cd ", "mkdocs ", "python ", "python3 ", "source ", "#")


class Block(NamedTuple):
    """A fenced block."""

    kind: str
    text: str
    line: int
    span: tuple[int, int]  # of the text in the page


def blocks(page: str) -> list[Block]:
    """Return all fenced blocks of a page."""
    fences = FENCE.finditer(page)
    return [Block(f[1], f[2], page.count("\n", 0, f.start()) + 1, f.span(2)) for f in fences]


def run_page(name: str, page: str) -> list[tuple[Block, str, Block | None]]:
    """Run a page in the current folder; return each block, its output, and the block of expected output."""
    found, namespace = blocks(page), {"__name__": "__main__"}
    results = []
    for k, block in enumerate(found):
        if block.kind not in ("python", "sh"):
            continue
        try:
            printed = _python(block, name, namespace) if block.kind == "python" else _shell(block)
        except Exception as error:
            raise AssertionError(f"{name}, line {block.line}: {type(error).__name__}: {error}") from error
        after = found[k + 1] if k + 1 < len(found) else None
        between = page[block.span[1] : after.span[0]] if after else ""
        follows = after is not None and after.kind == "text" and not re.sub(r"```\w*|\s", "", between)
        results.append((block, printed, after if follows else None))
    return results


def _python(block: Block, name: str, namespace: dict[str, object]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * block.line + block.text, name, "exec"), namespace)
    return printed.getvalue()


def _shell(block: Block) -> str:
    lines = [re.sub(r"\s{2,}#.*", "", line).strip() for line in block.text.replace("\\\n", " ").splitlines()]
    commands = [line for line in lines if line and not line.startswith(INERT)]
    unknown = [command for command in commands if not command.startswith(("tggm ", "cat ", "head "))]
    assert not unknown, f"unknown command: {unknown[0]}"
    return "".join(map(_command, commands))


def _command(line: str) -> str:
    """Run `[… |] tggm … [> FILE]`, tggm in this process, or a plain command; return what it prints."""
    source, piped, command = line.rpartition("|")
    command, redirected, target = (part.strip() for part in command.partition(">"))
    if not command.startswith("tggm "):
        return subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
    given = subprocess.run(source, shell=True, capture_output=True, check=True).stdout if piped else b""
    printed = _tggm(shlex.split(command)[1:], given)
    if not redirected:
        return printed
    Path(target).write_text(printed)
    return ""


def _tggm(words: list[str], given: bytes) -> str:
    from tggm.cli import run

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as messages:
            code = run(words)
    finally:
        sys.stdin = before
    assert code == 0, f"tggm {shlex.join(words)}: {messages.getvalue()}"
    return out.buffer.getvalue().decode()


def differences(printed: str, expected: str) -> list[str]:
    """Return lines that differ in words, or by more than a quarter in a number; "…" matches any lines."""
    shown = [line.rstrip() for line in expected.strip().splitlines()]
    got = [line.rstrip() for line in printed.strip().splitlines()]
    if "…" in shown:
        cut = shown.index("…")
        tail = shown[cut + 1 :]
        shown, got = shown[:cut] + tail, got[:cut] + got[len(got) - len(tail) :]
    if len(shown) != len(got):
        return [f"{len(got)} lines instead of {len(shown)}: {got}"]
    return [f"{b!r} instead of {a!r}" for a, b in zip(shown, got, strict=True) if not _similar(a, b)]


def _similar(a: str, b: str) -> bool:
    words = [" ".join(NUMBER.sub("0", line).split()) for line in (a, b)]
    numbers = [[float(n.replace("−", "-")) for n in NUMBER.findall(line)] for line in (a, b)]
    if words[0] != words[1]:
        return False
    return all(abs(x - y) <= 0.25 * max(abs(x), abs(y)) + 0.15 for x, y in zip(*numbers, strict=True))


def refreshed(name: str, page: str) -> str:
    """Return the page with the present outputs of its blocks."""
    for block, printed, after in reversed(run_page(name, page)):
        if after is not None and "…" not in after.text and printed.strip() != after.text.strip():
            page = page[: after.span[0]] + printed.strip("\n") + "\n" + page[after.span[1] :]
            sys.stderr.write(f"{name}: new output after line {block.line}\n")
    return page


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        path = Path(argument).resolve()
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            path.write_text(refreshed(path.name, path.read_text()))
