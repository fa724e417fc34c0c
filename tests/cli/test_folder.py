"""`tggm fit` with a folder of Parquet files."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tggm
from tests.cli.commands import complaint
from tggm.cli import run
from tggm.tables.reading import Folder

SMALL = ["--hidden", "4,3", "--members", "1", "--epochs", "6"]  # less to compile than one layer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write three files of 400 rows whose price depends on all columns; one row without a price.

    Most shops have so few rows that they have no indicator.
    """
    place = tmp_path_factory.mktemp("data")
    rng = np.random.default_rng(0)
    effect = 300 * rng.normal(size=200)
    for k in range(3):
        size, town = rng.uniform(20, 200, 400), rng.choice(["north", "south"], 400)
        shop = rng.integers(200, size=400)
        price = 3 * size + 100 * (town == "north") + effect[shop] + rng.normal(0, 10, 400)
        columns = {"size": size, "town": town, "shop": [f"shop {number}" for number in shop]}
        columns["price"] = pa.array([None, *price[1:]] if k == 0 else price)
        pq.write_table(pa.table(columns), place / f"{k}.parquet", row_group_size=150)
    return place


def test_a_folder_becomes_a_model(folder, tmp_path, capsys):
    file, held = tmp_path / "m.tggm", tmp_path / "held.csv"
    words = ["fit", str(folder), "-t", "price", "-o", str(file), "--test-output", str(held), *SMALL, "--json"]
    assert run(words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] + facts["held_out"] == 1199
    assert 180 < facts["held_out"] < 300  # a fifth, five standard errors
    assert facts["columns"] == ["size", "town", "shop"]
    assert facts["figures"]["model"]["rmse"] < 0.65 * facts["figures"]["naive"]["rmse"]
    assert len(held.read_text().splitlines()) == facts["held_out"] + 1
    assert run(["predict", str(file), str(held), "-o", str(tmp_path / "p.csv"), "--quiet"]) == 0
    assert np.isfinite(tggm.load(file).W0_).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["held.csv", "m.tggm", "p.csv"]


def test_folders_that_cannot_be_fitted(folder, tmp_path, capsys):
    words = ["-t", "price", "-o", str(tmp_path / "m.tggm")]
    assert "contains no file *.parquet" in complaint(capsys, "fit", str(tmp_path), *words)
    assert "has no column 'prize'" in complaint(capsys, "fit", str(folder), "-t", "prize", *words[2:])
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no more")
    assert "is a damaged Parquet file" in complaint(capsys, "fit", str(tmp_path), *words)


def test_a_column_may_have_only_gaps_or_another_type_in_a_file(tmp_path):
    x = np.arange(60.0)
    files = ({"size": x, "other": x, "price": x}, {"size": pa.nulls(60), "other": ["a"] * 60, "price": x})
    for k, columns in enumerate(files):
        pq.write_table(pa.table(columns), tmp_path / f"{k}.parquet")
    sample = Folder(str(tmp_path)).sample()
    assert np.isnan(sample.columns["size"]).sum() == 60
    assert sample.columns["other"][[0, -1]].tolist() == ["0", "a"]
