"""The table section of a model file: carried, ignored by plain readers, and refused when it does not fit."""

import numpy as np
import pytest

from tests.tables.prepared import prepare
from tggm import ModelFileError, files, load, save
from tggm.files import load_table_model
from tggm.storage import encode
from tggm.tables import Table, Target, preparation_to_json


class Toy:
    """The smallest estimator that a table can be for."""

    n_features_in_ = 3
    task = "regression"

    def to_state(self):
        return {"w": np.arange(3.0)}, {}

    @classmethod
    def from_state(cls, arrays, meta):
        return cls()

    table = None

    def table_preparation(self):
        return self.table

    def adopt_table(self, preparation):
        self.table = preparation


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(files, "known_classes", lambda: {"Toy": Toy})


@pytest.fixture
def preparation():
    words = np.array(["u", "v"] * 4, dtype=object)
    table = Table("t.csv", {"a": np.arange(8.0) ** 2, "c": words, "y": np.arange(8.0)})
    return prepare(table, Target("y", "regression"))


def test_a_table_travels_with_its_model(preparation, tmp_path):
    model = Toy()
    model.adopt_table(preparation)
    save(model, tmp_path / "m.tggm")
    model, again = load_table_model(tmp_path / "m.tggm")
    assert isinstance(model, Toy)
    assert again == preparation
    assert load(tmp_path / "m.tggm").table == preparation
    save(Toy(), tmp_path / "bare.tggm")
    assert load_table_model(tmp_path / "bare.tggm").preparation is None


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"columns": []}, "its table section is not valid .its table must have columns"),
        ({"more": 1}, "its table section is not valid .table must have exactly"),
        (
            {"target": {"name": "y", "task": "classification", "integer": False}},
            "makes 3 inputs for classification",
        ),
        (
            {
                "columns": [
                    {
                        "kind": "number",
                        "name": "a",
                        "fill": 0.0,
                        "indicator": True,
                        "decimal": ".",
                        "unit": "",
                        "marks": [],
                        "knots": [],
                        "encoding": None,
                    }
                ]
            },
            "makes 2 inputs",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_every_reader(preparation, tmp_path, changed, sentence):
    table = preparation_to_json(preparation) | changed
    content = encode({"w": np.arange(3.0)}, {"class": "Toy", "state": {}, "table": table})
    (tmp_path / "m.tggm").write_bytes(content)
    for read in (load, load_table_model):
        with pytest.raises(ModelFileError, match=sentence):
            read(tmp_path / "m.tggm")
