"""Excel files are read as CSV files are."""

import sys

import numpy as np
import pandas as pd
import pytest

from tests.cli.commands import complaint
from tests.tables.prepared import features, prepare
from tggm.tables import TableError, choose_target, read_table

FRAME = pd.DataFrame(
    {
        "size": [1.5, np.nan, 3.0],
        "kind": ["a", "b", None],
        "day": pd.to_datetime(["2024-01-31", "2024-02-29", None]),
        "count": [5, 6, 7],
    }
)


@pytest.fixture
def book(tmp_path):
    pytest.importorskip("openpyxl")
    path = str(tmp_path / "book.xlsx")
    with pd.ExcelWriter(path) as out:
        FRAME.to_excel(out, sheet_name="first", index=False)
        pd.DataFrame({"x": [1, 2]}).to_excel(out, sheet_name="second")
        pd.DataFrame().to_excel(out, sheet_name="empty", index=False)
        pd.DataFrame({"x": []}).to_excel(out, sheet_name="names", index=False)
    return path


def test_numbers_words_dates_and_gaps(book):
    table = read_table(book)
    assert (table.source, table.names) == (book, list(FRAME))
    assert table.columns["size"].tolist()[::2] == [1.5, 3.0]
    assert [table.known(name).tolist() for name in ("size", "kind", "day")] == [
        [True, False, True],
        [True, True, False],
        [True, True, False],
    ]
    assert table.columns["day"].dtype.kind == "M"
    assert table.words("count").tolist() == ["5", "6", "7"]


def test_the_same_as_a_csv_file(book, tmp_path):
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    tables = [read_table(path) for path in (book, str(tmp_path / "t.csv"))]
    targets = [choose_target(table, "count", "regression")[0] for table in tables]
    found = [features(prepare(table, target), table) for table, target in zip(tables, targets, strict=True)]
    np.testing.assert_array_equal(*found)


def test_a_sheet_by_its_name(book):
    assert read_table(book, sheet="second").names == ["column 1", "x"]
    with pytest.raises(TableError, match="no sheet 'third'; it has 'first', 'second'"):
        read_table(book, sheet="third")
    with pytest.raises(TableError, match="has an empty sheet"):
        read_table(book, sheet="empty")
    with pytest.raises(TableError, match="column names but no rows"):
        read_table(book, sheet="names")


@pytest.mark.parametrize("command", [["fit", "-t", "count"], ["compare", "-t", "count", "--models", "mean"]])
def test_commands_take_the_name_of_a_sheet(book, command, capsys):
    assert "no sheet 'third'" in complaint(capsys, *command[:1], book, *command[1:], "--sheet", "third")
    assert "has 3 rows" in complaint(capsys, *command[:1], book, *command[1:], "--sheet", "first")


def test_a_sheet_of_what_has_none(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="is no Excel file; leave --sheet out"):
        read_table(str(tmp_path / "t.csv"), sheet="first")


def test_damage_and_a_missing_package_are_one_sentence(book, tmp_path, monkeypatch):
    import zipfile

    with zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "nothing")
    with pytest.raises(TableError, match="is a damaged Excel file"):
        read_table(str(tmp_path / "bad.xlsx"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match="needs pandas and openpyxl"):
        read_table(book)
