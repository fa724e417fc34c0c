"""Data files: how they are found, checked and taken apart; with the real ones where TGGM_DATA names them."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import datasets
from datasets import (
    DatasetError,
    load_20newsgroups,
    load_mnist,
    load_poliblog,
    load_uci,
    load_year_msd_sample,
)

real_data = pytest.mark.skipif(
    not os.environ.get("TGGM_DATA"), reason="TGGM_DATA names no folder with the data"
)


def test_an_unset_variable_is_named(monkeypatch):
    monkeypatch.delenv("TGGM_DATA", raising=False)
    with pytest.raises(
        DatasetError, match=r"TGGM_DATA is not set; set it to the folder .* export TGGM_DATA="
    ):
        load_uci("yacht")


def test_a_folder_that_is_none_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TGGM_DATA", str(tmp_path / "none"))
    with pytest.raises(DatasetError, match=r"TGGM_DATA names .*none, which is not a folder"):
        load_mnist()


def test_a_missing_file_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))
    with pytest.raises(DatasetError, match=r"uci_yacht\.npz is missing; put it there, or point TGGM_DATA"):
        load_uci("yacht")


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))
    (tmp_path / "mnist.npz").write_bytes(b"not the digits")
    with pytest.raises(
        DatasetError, match=r"mnist\.npz is not the expected file \(SHA-256 .* fetch a fresh copy"
    ):
        load_mnist()


def test_unknown_names_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of boston, concrete, .*; got 'bostn'"):
        load_uci("bostn")
    with pytest.raises(ValueError, match="`split` must be 'blogs' or 'random'; got 'dates'"):
        load_poliblog(split="dates")
    with pytest.raises(ValueError, match="`target` must be 'rating' or 'blog'; got 'day'"):
        load_poliblog(target="day")


def test_a_table_is_taken_apart(monkeypatch, tmp_path):
    """With a made-up file, so that it runs everywhere."""
    X, y = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    file = tmp_path / "uci_yacht.npz"
    np.savez(
        file,
        X=X,
        y=y,
        n_splits=2,
        test_index_0=np.array([3, 1], np.int32),
        test_index_1=np.array([0], np.int32),
    )
    monkeypatch.setenv("TGGM_DATA", str(tmp_path))
    monkeypatch.setitem(datasets.SHA256, "uci_yacht.npz", sha256(file.read_bytes()).hexdigest())
    table = load_uci("yacht")
    assert np.array_equal(table.X, X)
    assert np.array_equal(table.y, y)
    assert [(train.tolist(), test.tolist()) for train, test in table.splits] == [
        ([0, 2, 4], [3, 1]),
        ([1, 2, 3, 4], [0]),
    ]


# rows, columns, splits, test rows a split: Table 1 of the paper and the splits' published sizes
SIZES = {
    "boston": (506, 13, 20, 51),
    "concrete": (1030, 8, 20, 103),
    "energy": (768, 8, 20, 77),
    "kin8nm": (8192, 8, 20, 819),
    "naval": (11934, 16, 20, 1193),
    "power": (9568, 4, 20, 957),
    "protein": (45730, 9, 5, 4573),
    "wine": (1599, 11, 20, 160),
    "yacht": (308, 6, 20, 31),
}


@real_data
@pytest.mark.parametrize("name", SIZES)
def test_the_nine_tables_have_their_sizes(name):
    X, y, splits = load_uci(name)
    assert (*X.shape, len(splits), len(splits[0][1])) == SIZES[name]
    assert y.shape == (len(X),)
    for train, test in splits:
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(len(X)))


@real_data
def test_the_digits_are_the_original_ones_in_their_order():
    digits = load_mnist()
    assert digits.X_train.shape == (60_000, 784)
    assert digits.X_test.shape == (10_000, 784)
    assert digits.y_train[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.y_test[:5].tolist() == [7, 2, 1, 0, 4]
    assert np.bincount(digits.y_train).tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]


@real_data
def test_the_newsgroups_have_their_words_and_groups():
    news = load_20newsgroups()
    assert news.X_train.shape == (11_314, 2_000)
    assert news.X_test.shape == (7_532, 2_000)
    assert (len(news.vocabulary), len(news.classes)) == (2_000, 20)
    assert news.vocabulary == sorted(news.vocabulary)
    assert set(news.y_train) == set(news.y_test) == set(range(20))
    assert (np.asarray(news.X_train.sum(axis=1)) == 0).sum() == 5  # documents without any word
    assert news.X_train.max() == 11_151


@real_data
def test_the_blogs_split_by_blog_or_at_random():
    by_blog = load_poliblog()
    assert by_blog.X_train.shape == (2_919, 2_632)
    assert np.bincount(by_blog.y_train).tolist() == [1464, 1455]
    assert np.bincount(by_blog.y_test).tolist() == [1389, 692]
    which = load_poliblog(target="blog")
    assert {which.classes[k] for k in set(which.y_test.tolist())} == {"Hot Air", "Talking Points Memo"}
    assert load_poliblog(split="random").X_test.shape == (2_043, 2_632)
    assert len(by_blog.vocabulary) == 2_632


@real_data
def test_the_sample_of_years_is_a_sample():
    X, y, splits = load_year_msd_sample()
    assert X.shape == (1176, 90)
    assert (y.min(), y.max()) == (1930, 2010)
    assert splits == []
