"""Files to tables: what is read, and the one sentence for what is not."""

import bz2
import gzip
import io
import lzma
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

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


def test_quotes_blank_lines_byte_order_mark_and_spaces(tmp_path):
    text = '\ufeff name , x\r\n\r\n"Doe, Jane", 1\r\n"say ""hi""",2\r\n"two\nlines",3\r\n'
    table = read_table(write(tmp_path, text))
    assert table.names == ["name", "x"]
    assert table.words("name").tolist() == ["Doe, Jane", 'say "hi"', "two\nlines"]
    assert table.numbers("x").tolist() == [1, 2, 3]


def test_utf_16_is_read(tmp_path):
    assert read_table(write(tmp_path, "größe\ty\n1\t2\n".encode("utf-16"))).names == ["größe", "y"]


def test_decimal_commas_when_asked_for(tmp_path):
    table = read_table(write(tmp_path, "a;b\n1,5;2\n-0,25;3\n"), decimal=",")
    assert table.numbers("a").tolist() == [1.5, -0.25]


def test_columns_without_a_name_and_tables_of_one_column(tmp_path):
    assert read_table(write(tmp_path, ",b,\n1,2,3\n")).names == ["column 1", "b", "column 3"]
    assert read_table(write(tmp_path, "floor area\n1\n2\n")).numbers("floor area").tolist() == [1, 2]


def test_words_for_gaps(tmp_path):
    file = write(tmp_path, "a,b\n1,-\nn.d.,2\n?,3\n")
    table = read_table(file, missing=("n.d.", "-"))
    np.testing.assert_array_equal(table.numbers("a"), [1, np.nan, np.nan])
    np.testing.assert_array_equal(table.numbers("b"), [np.nan, 2, 3])
    with pytest.raises(TableError, match=r"'n\.d\.' in row 2 of column 'a'.*--missing 'n\.d\.'"):
        read_table(file).numbers("a")


def test_numbers_that_python_reads_but_people_do_not_mean(tmp_path):
    table = read_table(write(tmp_path, "a,b\n1_000,inf\n2,3\n"))
    for name in "ab":
        with pytest.raises(TableError, match="in row 1 of column"):
            table.numbers(name)


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
    np.testing.assert_array_equal(table.numbers("n"), [1, np.nan, 3])
    np.testing.assert_array_equal(table.numbers("f"), [0.5, 1.5, np.nan])
    assert table.words("n").tolist() == ["1", None, "3"]
    assert table.words("s").tolist() == ["u", None, "v"]
    assert table.words("c").tolist() == ["p", "q", "p"]
    assert table.words("t").tolist() == ["True", "False", None]
    assert table.columns["d"].dtype == "datetime64[us]"
    assert table.words("d").tolist() == ["1970-01-01", "1970-01-02", "1970-01-03"]
    assert table.categories == {"c": ()}


def parquet(columns):
    stream = io.BytesIO()
    pq.write_table(pa.table(columns), stream)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "column names but no rows"),
        (b"a b c\n1 2 3\n", "has one column only, 'a b c'.*--delimiter"),
        (b"a,b\n1,2\n1,2,3\n", "3 fields in row 2, but 2 column names"),
        (b"a,b\n1,2\n1\n", "1 fields in row 2"),
        (b"a,a\n1,2\n", "more than one column 'a'"),
        (b",column 1\n1,2\n", "more than one column 'column 1'"),
        (b'a,b\n"1,2\n', "not valid CSV at line"),
        (b"a,b\n\x00\x01\x02,3\n", "is a binary file"),
        (b"PK\x03\x04rest", "is a spreadsheet or a zip archive"),
        (b"\x1f\x8brest", "is compressed, but damaged"),
        (b"a,b\n\xe9,1\n", "not UTF-8 text.*--encoding latin-1"),
        (b"\xff\xfea", "not UTF-8 text"),
        (b"PAR1 and nothing else", "damaged Parquet file"),
        (parquet({"a": pa.array([], pa.int64())}), "has no rows"),
        (parquet({"a": [1.0, float("inf")]}), "contains infinity .inf. in row 2 of column 'a'"),
        (parquet({"a": [[1], [2]]}), "has a list in column 'a'"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(tmp_path, content, sentence):
    file = write(tmp_path, content)
    with pytest.raises(TableError, match=sentence) as error:
        read_table(file)
    assert str(error.value).startswith(file)


def test_a_wrong_delimiter_is_told_the_right_one(tmp_path):
    with pytest.raises(TableError, match=r"has one column only, 'a;b'; .* separated by ';'"):
        read_table(write(tmp_path, "a;b\n1;2\n"), delimiter=",")


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(TableError, match="there is no file"):
        read_table(str(tmp_path / "none.csv"))
    with pytest.raises(TableError, match="is a folder"):
        read_table(str(tmp_path))


def test_a_missing_column_is_told_its_neighbour(tmp_path):
    table = read_table(write(tmp_path, "price,size\n1,2\n"))
    with pytest.raises(TableError, match="no column 'prise'; did you mean 'price'"):
        table.require(["prise"])
    with pytest.raises(TableError, match="no column 'q'; it has 'price', 'size'"):
        table.require(["q"])


def test_compressed_files_and_encodings(tmp_path):
    text = "größe,b\n1,ü\n2,ö\n"
    for module in (bz2, gzip, lzma):
        table = read_table(write(tmp_path, module.compress(text.encode()), f"t.csv.{module.__name__}"))
        assert table.names == ["größe", "b"]
    latin = write(tmp_path, text.encode("latin-1"))
    assert read_table(latin, encoding="latin-1").words("b").tolist() == ["ü", "ö"]
    with pytest.raises(TableError, match="--encoding 'nonsense' is not known"):
        read_table(latin, encoding="nonsense")


@pytest.mark.parametrize("word", ["NA", "n/a", "None", "-", "?", "null", "#N/A", ""])
def test_usual_words_for_gaps(tmp_path, word):
    table = read_table(write(tmp_path, f"a,b\n1,x\n{word},{word}\n"))
    assert table.known("a").tolist() == table.known("b").tolist() == [True, False]


def test_codes_and_long_numbers_stay_words(tmp_path):
    table = read_table(write(tmp_path, "zip,id,x\n01234,12345678901234567,1.50\n99999,2,2\n"))
    assert table.words("zip").tolist() == ["01234", "99999"]
    assert table.words("id").tolist() == ["12345678901234567", "2"]
    assert table.words("x").tolist() == ["1.5", "2"]
    assert table.numbers("zip").tolist() == [1234, 99999]


def test_row_numbers_are_those_of_the_file(tmp_path):
    table = read_table(write(tmp_path, "a,b\n1,1\n2,2\nx,3\n")).take(np.array([2]))
    with pytest.raises(TableError, match="in row 3 of column 'a'"):
        table.numbers("a")
