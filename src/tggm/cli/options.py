"""Options that several commands have."""

import csv
from collections.abc import Sequence
from typing import Annotated, Any

import typer


def written(what: str) -> Any:
    """The option that names the file a command writes."""
    return typer.Option("--output", "-o", help=what)


Data = Annotated[str, typer.Argument(metavar="DATA", help="CSV, Parquet or Excel file; - reads stdin.")]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A file that tggm fit made; - reads standard input.")
]
Target = Annotated[list[str], typer.Option("--target", "-t", metavar="NAME", help="Column to predict.")]
Task = Annotated[str | None, typer.Option(help="regression or classification; detected by default.")]
Missing = Annotated[
    list[str] | None, typer.Option(metavar="WORD", help="A word that means a gap; may be repeated.")
]
Threshold = Annotated[
    float | None, typer.Option(help="Choose the second of two classes from this probability on.")
]
Delimiter = Annotated[str | None, typer.Option(help="Separator of a CSV file; usually detected.")]
Decimal = Annotated[str, typer.Option(help="Decimal point of the numbers in a CSV file.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file, as latin-1; UTF-8 is detected.")]
Sheet = Annotated[
    str | None, typer.Option(metavar="NAME", help="Sheet of an Excel file; the first by default.")
]
Output = Annotated[str, written("Where to write; - is standard output.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse categories and gaps the model never saw.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON, for programs.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No remarks, no progress.")]


def names_in(texts: Sequence[str], known: Sequence[str]) -> list[str]:
    """Column names: each text is one that is known, or several as a,b or a,"b, in metres"."""
    names: list[str] = []
    for text in texts:
        parts = [text] if text in known else next(csv.reader([text], skipinitialspace=True), [])
        names += [part if part in known else part.strip() for part in parts if part.strip()]
    return names
