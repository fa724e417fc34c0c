"""`tggm report`: from a model file and a table to a page."""

import csv
import re

import numpy as np
import pytest

from tggm.cli import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a table with a category, missing values and a missing target, and a model of it."""
    path, rng = tmp_path_factory.mktemp("houses"), np.random.default_rng(0)
    with (path / "houses.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["size", "rooms", "district", "street", "price"])
        for row in range(96):
            size, district = rng.normal(), rng.choice(["<North>", "Old town"])
            price = 10 + 3 * size + 5 * (district == "Old town") + 0.1 * rng.normal()
            rooms = "" if row % 9 == 0 else round(rng.uniform(1, 6))
            shown = "" if row == 0 else f"{price:.2f}"
            table.writerow([f"{size:.3f}", rooms, district, f"street {row + 1}", shown])
    small = ["--hidden", "6,5", "--members", "2", "--epochs", "40", "--quiet"]
    assert run(["fit", f"{path}/houses.csv", "--target", "price", "-o", f"{path}/m.tggm", *small]) == 0
    return path


def test_the_page_uses_the_names_of_the_table(folder, capsys):
    words = ["report", str(folder / "m.tggm"), str(folder / "houses.csv"), "-o", str(folder / "r.html")]
    assert run([*words, "--title", "Houses & more"]) == 0
    said = capsys.readouterr()
    assert re.fullmatch(rf"95 rows of \S*houses.csv reported in {folder / 'r.html'}\n", said.out)
    assert "1 rows without a target are left out" in said.err
    page = (folder / "r.html").read_text()
    assert "<h1>Houses &amp; more</h1>" in page
    worst = page[page.index('<section id="worst"') : page.index('<section id="effects"')]
    places = re.findall(r'scope="row"[^>]*>(\d+)</th>.*?street (\d+)<', worst)
    assert len(places) == 10
    assert all(row == street for row, street in places)  # rows are numbered as in the file
    effects = page[page.index('<section id="effects"') :]
    assert "&lt;North&gt;" in effects
    assert "district = " not in effects  # a category is one feature
    assert "better than the naive" in page
    origin = page[page.index('<section id="provenance"') :]
    assert re.search(r"fitted to</dt><dd>76 rows of \S*houses.csv, seed 0", origin)
    assert "columns left out</dt><dd>street: " in origin
    assert re.search(r"date of this page</dt><dd>\d{4}-\d\d-\d\d", origin)
    assert "1 rows without a target are left out" in origin
