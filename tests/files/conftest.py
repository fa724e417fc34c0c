"""A stored toy, which is all that can be loaded here."""

import pytest

from tests.files.toy import ARRAYS, META, Toy
from tggm import save
from tggm.files import models


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(models, "known_classes", lambda: {"Toy": Toy})


@pytest.fixture
def path(tmp_path):
    save(Toy(ARRAYS, META), tmp_path / "model.tggm")
    return tmp_path / "model.tggm"
