"""Files to tables: CSV, Parquet and Excel, and the message for files that cannot be read."""

import csv
import io
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tggm import TableTransformer
from tggm.tables import TableError, read_table


def write(folder, content, name="t.csv"):
    file = folder / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(file)


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, mark):
    text = "a,b,c\n1,x,2.5\n,y,NA\n".replace(",", mark)
    table = read_table(write(tmp_path, text))
    assert table.names == ["a", "b", "c"]
    assert table.words("b").tolist() == ["x", "y"]
    np.testing.assert_array_equal(table.numbers("a"), [1, np.nan])
    np.testing.assert_array_equal(table.numbers("c"), [2.5, np.nan])


def test_quotes_empty_lines_byte_order_mark_and_spaces(tmp_path):
    text = '\ufeff name , x\r\n\r\n"Doe, Jane", 1\r\n"say ""hi""",2\r\n"two\nlines",3\r\n'
    table = read_table(write(tmp_path, text))
    assert table.names == ["name", "x"]
    assert table.words("name").tolist() == ["Doe, Jane", 'say "hi"', "two\nlines"]
    assert table.numbers("x").tolist() == [1, 2, 3]


def test_decimal_commas_columns_without_a_name_and_tables_of_one_column(tmp_path):
    assert read_table(write(tmp_path, "a;b\n1,234;2\n"), decimal=",").numbers("a").tolist() == [1.234]
    assert read_table(write(tmp_path, ",b,\n1,2,3\n")).names == ["column 1", "b", "column 3"]
    assert read_table(write(tmp_path, "floor area\n1\n2\n")).numbers("floor area").tolist() == [1, 2]


def test_words_for_gaps(tmp_path):
    file = write(tmp_path, "a\n1\nn.d.\n" + "\n".join(["NA", "n/a", "None", "-", "?", "null", "#N/A", '""']))
    assert read_table(file, missing=("n.d.", "-")).known("a").tolist() == [True] + [False] * 9


def test_standard_input(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(b"a,b\n1,2\n"))
    monkeypatch.setattr(sys, "stdin", stream)
    table = read_table("-")
    assert (table.source, len(table)) == ("standard input", 1)


def test_parquet_keeps_types(tmp_path):
    columns = {
        "n": pa.array([1, None, 3]),
        "f": pa.array([0.5, 1.5, None]),
        "s": pa.array(["u", None, "v"]),
        "c": pa.array(["p", "q", "p"]).dictionary_encode(),
        "t": pa.array([True, False, None]),
        "d": pa.array([0, 1, 2], pa.date32()),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.any")
    table = read_table(str(tmp_path / "t.any"))
    np.testing.assert_array_equal(table.numbers("f"), [0.5, 1.5, np.nan])
    assert {name: table.words(name).tolist() for name in "nsctd"} == {
        "n": ["1", None, "3"], "s": ["u", None, "v"], "c": ["p", "q", "p"], "t": ["True", "False", None],
        "d": ["1970-01-01", "1970-01-02", "1970-01-03"],
    }  # fmt: skip
    assert table.categories == {"c": ()}


def parquet(columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"a,b\n", "column names but no rows"),
        (b"a b c\n1 2 3\n", "has one column only, 'a b c'.*--delimiter"),
        (b"a,b\n1,2\n1,2,3\n", "3 fields in row 2, but 2 column names"),
        (b"a,a\n1,2\n", "more than one column 'a'"),
        (b'a,b\n"1,2\n', "not valid CSV at line"),
        (b"a,b\n\x00\x01\x02,3\n", "is a binary file"),
        (b"PK\x03\x04rest", "is a spreadsheet or a zip archive"),
        (b"\x1f\x8brest", "is compressed; unpack it with gunzip"),
        (b"a,b\n\xe9,1\n", "not UTF-8 text.*--encoding latin-1"),
        (b"PAR1 and nothing else", "damaged Parquet file"),
        (parquet({"a": pa.array([], pa.int64())}), "has no rows"),
        (parquet({"a": [1.0, float("inf")]}), "contains infinity .inf. in row 2 of column 'a'"),
        (parquet({"a": [[1], [2]]}), "has a list in column 'a'"),
    ],
)
def test_unreadable_files_are_rejected(tmp_path, content, sentence):
    file = write(tmp_path, content)
    with pytest.raises(TableError, match=sentence) as error:
        read_table(file)
    assert str(error.value).startswith(file)


def test_missing_files_folders_and_wrong_options_are_rejected(tmp_path):
    file = write(tmp_path, "a;b\n1;2\n")
    for path, options, message in (
        (tmp_path / "none.csv", {}, "there is no file"),
        (tmp_path, {}, "is a folder"),
        (file, {"delimiter": ","}, r"has one column only, 'a;b'; .* separated by ';'"),
        (file, {"sheet": "first"}, "is not an Excel file; leave --sheet out"),
        (file, {"encoding": "nonsense"}, "--encoding 'nonsense' is not known"),
    ):
        with pytest.raises(TableError, match=message):
            read_table(str(path), **options)


def test_encodings(tmp_path):
    text = "größe,b\n1,ü\n2,ö\n"
    assert read_table(write(tmp_path, text.encode("utf-16"))).names == ["größe", "b"]
    latin = write(tmp_path, text.encode("latin-1"))
    assert read_table(latin, encoding="latin-1").words("b").tolist() == ["ü", "ö"]


def test_codes_and_long_numbers_stay_words(tmp_path):
    table = read_table(write(tmp_path, "zip,id,x\n01234,12345678901234567,1.50\n99999,2,2\n"))
    assert table.words("zip").tolist() == ["01234", "99999"]
    assert table.words("id").tolist() == ["12345678901234567", "2"]
    assert table.words("x").tolist() == ["1.5", "2"]
    assert table.numbers("zip").tolist() == [1234, 99999]


DAYS = pd.to_datetime(["2024-01-31", "2024-02-29", None])
FRAME = pd.DataFrame({"size": [1.5, np.nan, 3.0], "kind": ["a", "b", None], "day": DAYS, "count": [5, 6, 7]})


@pytest.fixture
def book(tmp_path):
    path = str(tmp_path / "book.xlsx")
    with pd.ExcelWriter(path) as out:
        FRAME.to_excel(out, sheet_name="first", index=False)
        pd.DataFrame({"x": [1, 2]}).to_excel(out, sheet_name="second")
        pd.DataFrame({"x": []}).to_excel(out, sheet_name="names", index=False)
    return path


def test_excel_numbers_words_dates_and_gaps(book):
    table = read_table(book)
    assert (table.source, table.names) == (book, list(FRAME))
    assert table.columns["size"].tolist()[::2] == [1.5, 3.0]
    for name in FRAME:
        assert table.known(name).tolist() == FRAME[name].notna().tolist()
    assert table.columns["day"].dtype.kind == "M"
    assert table.words("count").tolist() == ["5", "6", "7"]


def test_a_sheet_by_its_name(book):
    assert read_table(book, sheet="second").names == ["column 1", "x"]
    for sheet, message in (("third", "no sheet 'third'; it has 'first', 'second'"), ("names", "has no rows")):
        with pytest.raises(TableError, match=message):
            read_table(book, sheet=sheet)


def test_damaged_files_and_missing_packages_are_reported(book, tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "bad.xlsx", "w") as archive:
        archive.writestr("xl/workbook.xml", "nothing")
    with pytest.raises(TableError, match="is a damaged Excel file"):
        read_table(str(tmp_path / "bad.xlsx"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match="needs openpyxl to be read: pip install"):
        read_table(book)


STARTS = (b"", b"PAR1", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"a,b\n")
WORDS = ("", "NA", "1", "2", "-3.5", "1e300", "1e-300", "inf", "1_0", "1,5", "x", "y y", "2024-01-01")
CELLS = st.sampled_from([*WORDS, '"', "é", "0"])
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=14)
)


@given(
    st.builds(bytes.__add__, st.sampled_from(STARTS), st.binary(max_size=100))
    | st.text(',;\t|"\n\r ax1.\0\ufeff', max_size=80).map(str.encode)
)
@settings(max_examples=200, deadline=5000)
def test_any_bytes_are_read_or_rejected(tmp_path_factory, content):
    file = tmp_path_factory.getbasetemp() / "any.csv"
    file.write_bytes(content)
    try:
        table = read_table(str(file))
    except TableError:
        return
    assert len(table) > 0
    assert len({len(column) for column in table.columns.values()}) == 1


@given(TABLES)
@settings(max_examples=200, deadline=5000)
@pytest.mark.filterwarnings("ignore::tggm.TableWarning")
def test_any_table_is_encoded_or_rejected(tmp_path_factory, rows):
    file = tmp_path_factory.getbasetemp() / "any_table.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([[f"c{k}" for k in range(len(rows[0]))], *rows])
    try:
        table = read_table(str(file))
        how = TableTransformer().fit(table, np.arange(float(len(table))))
    except TableError:
        return
    X = how.transform(table)
    assert X.shape == (len(table), len(how.get_feature_names_out()))
    assert np.isfinite(X).all()
