"""Files of the development data: pandas and our reader give the same numbers, to the bit."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.tables.prepared import prepare, training_features
from tggm import TableTransformer
from tggm.tables import choose_target, read_table

FOLDER = Path(os.environ.get("TGGM_DATA", "none")) / "tables"
TARGETS = {"titanic": "survived", "penguins": "species", "mpg": "mpg", "tips": "tip", "ames": "SalePrice"}


@pytest.mark.skipif(not FOLDER.exists(), reason="TGGM_DATA does not name the data")
@pytest.mark.filterwarnings("ignore::tggm.tables.errors.TableWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_a_file_and_its_data_frame_become_the_same_numbers(name):
    target, path = TARGETS[name], FOLDER / f"{name}.csv"
    frame, table = pd.read_csv(path), read_table(str(path))
    chosen, _ = choose_target(table, target, None)
    how = prepare(table, chosen)
    ours = TableTransformer(task=chosen.task)
    X = ours.fit_transform(frame.drop(columns=target), frame[target].to_numpy())
    np.testing.assert_array_equal(training_features(how, table), X)
    assert how.columns == ours.columns_
    assert (name == "titanic") == (ours.left_out_.get("alive") == "it repeats the target")
