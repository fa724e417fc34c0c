"""`tggm serve`: a local page on which a model answers as sliders move, and predictions as JSON."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tggm.cli import options
from tggm.cli.errors import CommandError
from tggm.cli.files import say

if TYPE_CHECKING:
    from tggm.cli.answers import Answers


def serve(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file that tggm fit made.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 for any that is free.")] = 8000,
    host: Annotated[str, typer.Option(help="Address to listen on; others see it if it is not local.")] = (
        "127.0.0.1"
    ),
    quiet: options.Quiet = False,
) -> None:
    """Show a model on a local page, and answer POST /predict with JSON.

    Move sliders or type values, and the predictive distribution follows. Upload a CSV file. Ctrl-C ends it.
    """
    from tggm.cli.server import ModelServer

    if not os.path.exists(model):
        raise CommandError(
            f"there is no model file {model}; make one: tggm fit data.csv --target NAME -o {model}"
        )
    answers = answers_of(model)
    try:
        server = ModelServer((host, port), answers)
    except OSError as error:
        raise CommandError(
            f"--host {host} --port {port} cannot be listened on ({error.strerror}); try another port."
        ) from None
    with server:
        if not quiet:
            say(f"http://{host}:{server.server_address[1]}/  (Ctrl-C ends it)")
            if host not in ("127.0.0.1", "localhost", "::1"):
                say("note: anybody who can reach this address can ask the model")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def answers_of(path: str) -> "Answers":
    """The model of a file, by NumPy where that can say all that is asked: nothing is compiled then."""
    from tggm.cli.answers import Answers
    from tggm.cli.files import read_model
    from tggm.files import ModelFileError, numpy_classes, parse_model
    from tggm.storage import read_regular

    try:
        model, preparation = parse_model(read_regular(Path(path)), path, numpy_classes())
        if preparation is not None:
            answers = Answers(model, preparation)
            answers.of_json(answers.example())
            return answers
    except (ModelFileError, ValueError):
        pass  # a kind that only JAX computes, or a damaged file, of which the next line tells
    return Answers(*read_model(path))
