"""Load the data of the paper and the development tables from the folder that TGGM_DATA names.

The files are not part of this repository. The SHA-256 of each file is checked before it is used. Values are
neither scaled nor normalised.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

VARIABLE = "TGGM_DATA"

SHA256 = {
    "20news_bow2000.npz": "5a1950550607825e0d486eb82fb7182a4d965886a4f7b1aad0c497aa897c054a",
    "20news_bow2000_vocab.txt": "5ae198d25620bf7efa4e2b09d2946b4332926b44f2d330e196cee7a18664e267",
    "20news_classes.txt": "e639d15e21a5fef5fa90955acc42bbf428a9bd3a379cd3084b9595cb0066831b",
    "mnist.npz": "39b9b1ffaa0ba4d8995a616551f0966941fe02a3fe79ba4a9db7373db16d53ad",
    "poliblog5k_bow.npz": "8c1aff8724b9a750d4238e6f48d37da60d68c8ab12c4e42b3881f56153e6cff1",
    "poliblog5k_vocab.txt": "d031d6d48e32a47c956e047f7bc385212202e1e7458e80ff9c3235a713c4d505",
    "tables/adult.csv": "9ffbc0d317280ccdb4727934024b73076781f655ed5db2a197928cab1d9503a4",
    "tables/ames.csv": "d94505bf5775297a04c6d4b2e1303e61e4074bdeee1d80d6e70031ea1730ba83",
    "tables/autos.npz": "5b78bcd2abce8d15e2f472b6e316665ba6d4586afe0abeb3bc7767deb7ae3295",
    "tables/bike.npz": "165f91a3816e479bf8167772317a5fe6eb102c9817f65bd736df97bad388387e",
    "tables/breastcancer.npz": "93c42277d578b9cad79acb8ee6baee6c7ef04dd756e72ffeeb858b0f0a733d95",
    "tables/concreteslump.npz": "78b3fe9d2206576dc6e46921f25d4b1e6246d043f2eff1bceb946baad57c73e9",
    "tables/gas.npz": "bf16564a3504f20a76a0808489e7464b094c6bc5596b81032fd8fc93d759bc30",
    "tables/kin40k.npz": "515f100a958dd10ad3d48095efa328738b706b9d07b4bb081992ec832ab93155",
    "tables/machine.npz": "6e1a232c0a7d6a0105c418c44ab26d2d71ef462380e5d7b52a7929b95f77fb67",
    "tables/mpg.csv": "c14b8b855ea7ee86cb9736bf8caaf281c4685ca08826f3eb2acaccaaf40f0d5a",
    "tables/pendulum.npz": "259b2289901d76c08023fe698b8b0e21ace4a579401b9fad393d9adec7a6ba40",
    "tables/penguins.csv": "e07636bd8af74260099ea2f8678e2eabbf35def579940cc76f67061ee16c06c1",
    "tables/servo.npz": "fb956b527e47c85895c3cf990e428b581b771ce7ca7322116af0041f7d426d6c",
    "tables/sml.npz": "b1fd8c73f228f81d98527f343583459f28bda9917c177d09d768b42285a526d0",
    "tables/solar.npz": "776de33cdf86a194eee50e6643f9e10e2c83c2799d5f0c8df7a76fb80a5600cf",
    "tables/tamielectric.npz": "ab952cf08652c6f7b8770dcff1285ed97d692ca35914d83bcd8de8ca307e0049",
    "tables/tips.csv": "e54cc4d2ce1bff65d32ca60b3e4b802e06bde1d7e7caf6f796f6bf7370e863b0",
    "tables/titanic.csv": "81787d320d7f7b03df935e91de8bd19e11d45c5bbcab86ef4d4a76dc91b7d4f2",
    "uci_bostonHousing.npz": "ac2c2489aaf203c7abc06146bb4aa94b680a55bfe3e914d03646a5150ffcce6e",
    "uci_concrete.npz": "9d88bf1ab01d4f569da2bef5cf16f8fdfffb6e7efc67e0b67c1351e5c33a0589",
    "uci_energy.npz": "9eef7434665748c5c38944f4f3eef61ca31182a88c927713e08d015b4c81051b",
    "uci_kin8nm.npz": "7d338f65667e0142b7b18f69ec9860797938a96a017f2953634d61354c7ef8a3",
    "uci_naval-propulsion-plant.npz": "d544b30e3216d26af79a73863063c775ab10f04642eee3f3c74095cacd77abe0",
    "uci_power-plant.npz": "0ceca7833a182f110e47bab169ecfafcdeec5de7012931e911994006379abb13",
    "uci_protein-tertiary-structure.npz": "4e5d074ff091390431889c10e7ddf1848d2b1cd710defcb6abb4e0961b01db02",
    "uci_wine-quality-red.npz": "f4b86222e5b94c83c8f0226cba31bf26a3d7c37600009dac6330084a86f6edb9",
    "uci_yacht.npz": "1b4cc8aa753712f1e2cb33569c916e988a42dc220052c32b1ba71dd7615b67e4",
}

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

BLOGS = ("American Thinker", "Digby", "Hot Air", "Michelle Malkin", "Think Progress", "Talking Points Memo")
RATINGS = ("Conservative", "Liberal")


class DatasetError(OSError):
    """Raise when data are missing; the message names the variable or the file, and the remedy."""


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
    """Word counts (sparse, one document per row), class numbers, and names of columns and classes."""

    X_train: sparse.csr_array
    y_train: np.ndarray
    X_test: sparse.csr_array
    y_test: np.ndarray
    vocabulary: list[str]
    classes: list[str]


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
        _lines("20news_bow2000_vocab.txt"),
        _lines("20news_classes.txt"),
    )


def load_poliblog(split: str = "blogs", target: str = "rating") -> Documents:
    """Return 5,000 posts of six political blogs of 2008, from the corpus of Eisenstein and Xing (2010).

    Parameters
    ----------
    split : {"blogs", "random"}
        "blogs" trains on four blogs and tests on the two others, as the paper's document counts imply;
        "random" is an easier task. The larger class of the "blogs" test part has 66.7 %: report
        balanced accuracy.
    target : {"rating", "blog"}
        Political side (two classes), or which blog (six).
    """
    masks = {"blogs": "test_mask_heldout_blogs", "random": "test_mask_random"}
    classes = {"rating": RATINGS, "blog": BLOGS}
    if split not in masks:
        raise ValueError(f"`split` must be 'blogs' or 'random'; got {split!r}.")
    if target not in classes:
        raise ValueError(f"`target` must be 'rating' or 'blog'; got {target!r}.")
    stored = _arrays("poliblog5k_bow.npz")
    X, y, test = _counts(stored), stored[target].astype(np.intp), stored[masks[split]]
    vocabulary = _lines("poliblog5k_vocab.txt")
    return Documents(X[~test], y[~test], X[test], y[test], vocabulary, list(classes[target]))


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


def _lines(file: str) -> list[str]:
    return _content(file).decode("utf-8").splitlines()


def _content(file: str) -> bytes:
    """Return the bytes of a data file after checking their checksum."""
    path = _folder() / file
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise DatasetError(
            f"{path} is missing; put it there, or point {VARIABLE} at the folder that has it."
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[file]:
        raise DatasetError(
            f"{path} is not the expected file (SHA-256 {found[:12]}..., expected {SHA256[file][:12]}...); "
            "fetch a fresh copy."
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
