"""A small table with words and missing values, and commands that succeed or fail."""

import csv

import numpy as np

from tggm.cli import parser, run


def rows(n, seed):
    rng = np.random.default_rng(seed)
    area, garden = rng.uniform(40, 200, n), rng.choice(["yes", "no"], n)
    price = 50 + 2 * area + 30 * (garden == "yes") + 10 * rng.normal(size=n)
    shown = [f"{a:.1f}" if k % 9 else "" for k, a in enumerate(area)]
    heating = rng.choice(["gas", "oil", "NA"], n)
    return list(zip(shown, garden, heating, [f"{p:.2f}" for p in price], strict=True))


def write(file, table, names=("area", "garden", "heating", "price")):
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([names, *table])
    return str(file)


def fit_options(*words):
    """Return the options of a `tggm fit` with the target "y"."""
    return parser().parse_args(["fit", "-", "-t", "y", *words])


def answer(capsys, *words):
    """Return the standard output of a command, which must succeed."""
    capsys.readouterr()
    assert run(list(words)) == 0
    return capsys.readouterr().out


def complaint(capsys, *words, code=2):
    capsys.readouterr()
    assert run(list(words)) == code
    err = capsys.readouterr().err
    assert err.startswith("tggm: ")
    assert err.count("\n") == 1
    return err
