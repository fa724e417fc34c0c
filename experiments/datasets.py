"""Load the data of the paper and the development tables from the folder in TGGM_DATA.

The files are not part of this repository. The SHA-256 of each file is checked before it is used. Values are
neither scaled nor normalised.
"""

import hashlib
import io
import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

VARIABLE = "TGGM_DATA"

SHA256 = json.loads((Path(__file__).parent / "checksums.json").read_text())
UCI = {
    "boston": "bostonHousing",
    "concrete": "concrete",
    "energy": "energy",
    "kin8nm": "kin8nm",
    "naval": "naval-propulsion-plant",
    "power": "power-plant",
    "protein": "protein-tertiary-structure",
    "wine": "wine-quality-red",
    "yacht": "yacht",
}


class DatasetError(OSError):
    """Data are missing; the message names the variable or the file, and the remedy."""


class Regression(NamedTuple):
    """Inputs, targets, and the splits of the benchmark as pairs of row numbers (train, test)."""

    X: np.ndarray
    y: np.ndarray
    splits: list[tuple[np.ndarray, np.ndarray]]


class Images(NamedTuple):
    """Pixels 0..255 with one image per row (784 columns), and digits."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


class Documents(NamedTuple):
    """Word counts (sparse, one document per row) and class numbers."""

    X_train: sparse.csr_array
    y_train: np.ndarray
    X_test: sparse.csr_array
    y_test: np.ndarray


def load_uci(name: str) -> Regression:
    """Return one of nine UCI regression tables with the splits of Hernández-Lobato and Adams (2015).

    Parameters
    ----------
    name : str
        boston, concrete, energy, kin8nm, naval, power, protein, wine or yacht.

    Notes
    -----
    20 splits, 5 for protein. Test rows are in the source's order; the training part is their complement.
    Naval has two constant columns, one of which has a floating standard deviation of 2.5e-13.
    """
    stem = UCI.get(name, name)
    if stem not in UCI.values():
        raise ValueError(f"`name` must be one of {', '.join(UCI)}; got {name!r}.")
    stored = _arrays(f"uci_{stem}.npz")
    rows = np.arange(len(stored["X"]))
    tests = [stored[f"test_index_{i}"].astype(np.intp) for i in range(int(stored["n_splits"]))]
    return Regression(stored["X"], stored["y"], [(np.setdiff1d(rows, test), test) for test in tests])


def load_mnist() -> Images:
    """Return MNIST, 60,000 training and 10,000 test images in the original order."""
    stored = _arrays("mnist.npz")
    return Images(
        stored["train_images"].reshape(60_000, 784),
        stored["train_labels"].astype(np.intp),
        stored["test_images"].reshape(10_000, 784),
        stored["test_labels"].astype(np.intp),
    )


def load_20newsgroups() -> Documents:
    """Return 20 Newsgroups, split by date: counts of the 2,000 most frequent words of the training part.

    Rows are sorted by class: shuffle them before using mini-batches. Ten documents have no words.
    """
    stored = _arrays("20news_bow2000.npz")
    return Documents(
        _counts(stored, "train_"),
        stored["train_labels"].astype(np.intp),
        _counts(stored, "test_"),
        stored["test_labels"].astype(np.intp),
    )


def load_poliblog() -> Documents:
    """Return 5,000 posts of six political blogs of 2008, from the corpus of Eisenstein and Xing (2010).

    The classes are the political sides. Four blogs are for training and two for testing, as the paper's
    document counts imply; the larger class of the test part has 66.7 %: report balanced accuracy.
    """
    stored = _arrays("poliblog5k_bow.npz")
    X, y, test = _counts(stored), stored["rating"].astype(np.intp), stored["test_mask_heldout_blogs"]
    return Documents(X[~test], y[~test], X[test], y[test])


def path_of(file: str) -> Path:
    """Return the path of a data file after checking its checksum."""
    _content(file)
    return _folder() / file


def _counts(stored: dict[str, np.ndarray], prefix: str = "") -> sparse.csr_array:
    # Stored as 16-bit integers, in which sums of counts would overflow.
    data, indices, indptr = (stored[prefix + part].astype(np.int32) for part in ("data", "indices", "indptr"))
    return sparse.csr_array((data, indices, indptr), shape=tuple(stored[prefix + "shape"].tolist()))


def _arrays(file: str) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(_content(file)), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _content(file: str) -> bytes:
    """Return the bytes of a data file after checking their checksum."""
    path = _folder() / file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(
            f"{path} is missing; put it there, or set {VARIABLE} to the folder that contains it."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise DatasetError(
            f"{path} is not the expected file (SHA-256 {found[:12]}..., expected {SHA256[file][:12]}...); "
            "download it again."
        )
    return content


def _folder() -> Path:
    named = os.environ.get(VARIABLE, "")
    if not named:
        raise DatasetError(
            f"the environment variable {VARIABLE} is not set; set it to the folder that holds the data: "
            f"export {VARIABLE}=/path/to/data"
        )
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DatasetError(f"{VARIABLE} names {folder}, which is not a folder; correct it.")
    return folder
