"""Any bytes are a table or one sentence; any table is a preparation that works on itself, or one sentence."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables.prepared import features, prepare
from tggm.tables import (
    TableError,
    choose_target,
    preparation_from_json,
    preparation_to_json,
    read_table,
)

STARTS = (b"", b"PAR1", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"a,b\n")
CELLS = st.sampled_from(
    [
        "",
        "NA",
        "1",
        "2",
        "-3.5",
        "1e300",
        "1e-300",
        "inf",
        "1_0",
        "1,5",
        "x",
        "y y",
        "2024-01-01",
        '"',
        "é",
        "0",
    ]
)
TABLES = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=14)
)


@given(
    st.builds(bytes.__add__, st.sampled_from(STARTS), st.binary(max_size=100))
    | st.text(',;\t|"\n\r ax1.\0\ufeff', max_size=80).map(str.encode)
)
@settings(max_examples=200, deadline=5000)
def test_any_file_is_a_table_or_a_sentence(tmp_path_factory, content):
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
def test_any_table_is_prepared_or_a_sentence(tmp_path_factory, rows):
    import csv

    file = tmp_path_factory.getbasetemp() / "any_table.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([[f"c{k}" for k in range(len(rows[0]))], *rows])
    try:
        table = read_table(str(file))
        target, _ = choose_target(table, "c0", None)
        table = table.take(target.known(table))
        preparation = prepare(table, target)
    except TableError:
        return
    X, y = features(preparation, table), preparation.target.values(table)
    assert X.shape == (len(table), len(preparation.feature_names))
    assert np.isfinite(X).all()
    assert len(y) == len(table)
    assert preparation_from_json(preparation_to_json(preparation)) == preparation
