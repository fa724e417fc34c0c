"""Model files against an independent reader (the safetensors package) and against damage of every kind."""

import json
import os
import stat
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tggm import ModelFileError, load, save
from tggm.persistence import models
from tggm.storage import container

ARRAYS = {
    "W0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0, 1e-300]),
    "scale": np.array(3.0),
    "steps": np.array([], dtype=np.int64),
    "key": np.array([1, 2**32 - 1], dtype=np.uint32),
    "mask": np.array([True, False, True]),
}
META = {"hidden": [3], "rate": 0.1, "names": ["größe", "x1"], "method": None}


class Toy:
    """The smallest estimator: it is its state."""

    def __init__(self, arrays, meta):
        self.arrays, self.meta = arrays, meta

    def _to_state(self):
        return self.arrays, self.meta

    @classmethod
    def _from_state(cls, arrays, meta):
        if "hidden" not in meta:
            raise KeyError("hidden")
        return cls(arrays, meta)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(models, "known_classes", lambda: {"Toy": Toy})


@pytest.fixture
def path(tmp_path):
    save(Toy(ARRAYS, META), tmp_path / "model.tggm")
    return tmp_path / "model.tggm"


def same(model):
    return (
        model.meta == META
        and set(model.arrays) == set(ARRAYS)
        and all(
            model.arrays[k].dtype == v.dtype
            and model.arrays[k].shape == v.shape
            and model.arrays[k].tobytes() == v.tobytes()
            for k, v in ARRAYS.items()
        )
    )


def test_a_model_comes_back_bit_for_bit(path):
    model = load(path)
    assert same(model)
    assert all(array.flags.writeable for array in model.arrays.values())


def test_another_safetensors_reader_sees_the_same_arrays(path):
    read = safetensors.numpy.load_file(path)
    assert same(Toy(read, META))
    with safetensors.safe_open(path, "numpy") as file:
        assert json.loads(file.metadata()["model"])["state"] == META


def test_arrays_in_any_layout_are_stored_in_order(tmp_path):
    strange = {
        "f": np.asfortranarray(ARRAYS["W0"]),
        "s": np.arange(10.0)[::3],
        "big": np.array([1.0], dtype=">f8"),
    }
    save(Toy(strange, META), tmp_path / "m")
    read = load(tmp_path / "m").arrays
    assert all(np.array_equal(read[name], array) for name, array in strange.items())


def test_saving_twice_gives_the_same_bytes(path, tmp_path):
    save(Toy(dict(reversed(ARRAYS.items())), META), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


# ---- damage ----------------------------------------------------------------------------------------------


def reload(content, tmp_path):
    """The model, or None after a ModelFileError that names the file."""
    file = tmp_path / "damaged.tggm"
    file.write_bytes(content)
    try:
        return load(file)
    except ModelFileError as error:
        message = str(error)
    assert str(file) in message
    return None


def test_every_flipped_byte_is_noticed(path, tmp_path):
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        assert reload(bytes(damaged), tmp_path) is None, f"byte {position} was changed without notice"


def test_every_truncation_is_noticed(path, tmp_path):
    content = path.read_bytes()
    assert all(reload(content[:length], tmp_path) is None for length in range(len(content)))
    assert reload(content + b"\0", tmp_path) is None


def sealed(entries, data, model=None):
    """A file with any header and a right checksum: what only the structural tests can refuse."""
    blank = "0" * 64
    text = json.dumps({"class": "Toy", "state": META} if model is None else model)
    metadata = {"sha256": blank, "format": "tggm", "schema": "1", "model": text}
    header = entries if isinstance(entries, str) else json.dumps({"__metadata__": metadata, **entries})
    raw = header.encode()
    raw += b" " * (-len(raw) % 8)
    content = len(raw).to_bytes(8, "little") + raw + data
    return content.replace(blank.encode(), sha256(content).hexdigest().encode(), 1)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_a_sealed_file_is_read(tmp_path):
    assert reload(sealed({"a": entry()}, bytes(8)), tmp_path).arrays["a"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("entries", "data", "reason"),
    [
        ({"a": entry(shape=(2**62, 4))}, bytes(8), "does not fill 8 bytes"),
        ({"a": entry(shape=(0, 2**62, 2**62), offsets=(0, 0))}, b"", "does not fill 0 bytes"),
        ({"a": entry(shape=(2**80,))}, bytes(8), "not a list of at most 32 counts"),
        ({"a": entry(shape=(-2,))}, bytes(8), "not a list of at most 32 counts"),
        ({"a": entry(shape=(True, 2))}, bytes(8), "not a list of at most 32 counts"),
        ({"a": entry(shape=(2.0,))}, bytes(8), "not a list of at most 32 counts"),
        ({"a": entry(shape=[1] * 33 + [2])}, bytes(8), "not a list of at most 32 counts"),
        ({"a": entry(offsets=(0, 8, 8))}, bytes(8), "not two positions in order"),
        ({"a": entry(offsets=(8, 0))}, bytes(8), "not two positions in order"),
        ({"a": entry(offsets=(0, 2**64))}, bytes(8), "not two positions in order"),
        ({"a": entry(shape=(2**40,), offsets=(0, 2**42))}, bytes(8), "there are 8 bytes of data"),
        ({"a": entry(offsets=(4, 12))}, bytes(12), "begins at byte 4 of the data, not at 0"),
        ({"a": entry(offsets=(2, 10))}, bytes(10), "not a multiple of 4"),
        (
            {"a": entry(), "b": entry(offsets=(4, 12))},
            bytes(12),
            "'b' begins at byte 4 of the data, not at 8",
        ),
        ({"a": entry()}, bytes(16), "take 8 bytes of data, but there are 16"),
        ({}, bytes(8), "take 0 bytes of data, but there are 8"),
        ({"a": entry(dtype="F16")}, bytes(8), "has dtype 'F16'"),
        ({"a": entry(dtype=["F32"])}, bytes(8), "has dtype"),
        ({"a": entry(dtype="BOOL", offsets=(0, 2))}, b"\x01\x02", "bytes other than 0 and 1"),
        ({"a": {**entry(), "more": 1}}, bytes(8), "dtype, shape and data_offsets alone"),
        ({"a": None}, bytes(8), "dtype, shape and data_offsets alone"),
    ],
)
def test_an_inconsistent_layout_is_refused(entries, data, reason, tmp_path):
    file = tmp_path / "m"
    file.write_bytes(sealed(entries, data))
    with pytest.raises(ModelFileError, match=reason):
        load(file)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("[]", "its header is not a JSON object"),
        ('{"a": 1, "a": 2}', "a key occurs twice"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "not a finite number"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ("{}", "not written by tggm.save"),
        ('{"__metadata__": {"format": "pt"}}', "not written by tggm.save"),
        ('{"__metadata__": {"format": "tggm"}}', "schema version None is not a number"),
        ('{"__metadata__": {"format": "tggm", "schema": "²"}}', "schema version '²' is not a number"),
        ('{"__metadata__": {"format": "tggm", "schema": "2"}}', "from a newer version of tggm"),
        ('{"__metadata__": {"format": "tggm", "schema": "0"}}', "never in use"),
        ('{"__metadata__": {"format": "tggm", "schema": "1"}}', "checksum is missing"),
    ],
)
def test_a_bad_header_is_refused(header, reason, tmp_path):
    file = tmp_path / "m"
    file.write_bytes(sealed(header, b""))
    with pytest.raises(ModelFileError, match=reason):
        load(file)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"class": "os.system", "state": {}}, "'os.system', which this version does not know"),
        ({"class": ["Toy"], "state": {}}, "which this version does not know"),
        ({"class": "Toy"}, "describes no state"),
        ({"class": "Toy", "state": {}}, "do not make a Toy .KeyError: 'hidden'"),
    ],
)
def test_a_bad_description_is_refused(model, reason, tmp_path):
    file = tmp_path / "m"
    file.write_bytes(sealed({}, b"", model))
    with pytest.raises(ModelFileError, match=reason):
        load(file)


def test_a_header_longer_than_the_file_is_refused_before_anything_is_allocated(tmp_path):
    file = tmp_path / "m"
    file.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ModelFileError, match="claims 4611686018427387904 bytes, but only 2 follow"):
        load(file)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*container.DTYPES, "F16", ""]) | JSON,
        "shape": st.lists(st.integers(-1, 2**70) | st.integers(0, 4), max_size=4) | JSON,
        "data_offsets": st.lists(st.integers(0, 64) | st.integers(-1, 2**70), min_size=2, max_size=2) | JSON,
    }
)


@given(st.dictionaries(st.text(max_size=4), ENTRIES | JSON, max_size=3), st.binary(max_size=64))
@settings(max_examples=300, deadline=5000)
def test_any_header_with_a_right_checksum_is_an_error_or_consistent_arrays(entries, data):
    try:
        arrays, _ = container.decode(sealed(entries, data))
    except ModelFileError:
        return
    assert sum(array.nbytes for array in arrays.values()) == len(data)


@given(st.data())
@settings(max_examples=300, deadline=5000)
def test_any_edit_of_the_bytes_is_an_error(data):
    content = container.encode(ARRAYS, {"class": "Toy", "state": META})
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 40)))
    edited = content[:start] + data.draw(st.binary(max_size=40)) + content[stop:]
    if edited != content:
        with pytest.raises(ModelFileError):
            container.decode(edited)


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=5000)
def test_noise_is_an_error(noise):
    with pytest.raises(ModelFileError):
        container.decode(noise)


# ---- writing ---------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="No space left"):
        save(Toy(ARRAYS, {**META, "rate": 0.2}), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_permissions_are_the_usual_ones_and_are_kept(tmp_path):
    file = tmp_path / "m"
    # in a process of its own: the umask belongs to the whole process
    code = (
        "import os, pathlib, sys; os.umask(0o027); from tggm.storage.files import write_atomically as w; "
        "w(pathlib.Path(sys.argv[1]), b'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o600)
    save(Toy(ARRAYS, META), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_still_points_to_the_file_that_was_replaced(path, tmp_path):
    link = tmp_path / "latest.tggm"
    link.symlink_to(path)
    save(Toy(ARRAYS, {**META, "rate": 0.2}), link)
    assert link.is_symlink()
    assert load(path).meta["rate"] == 0.2


def test_what_cannot_be_stored_is_named(tmp_path):
    with pytest.raises(TypeError, match="`model` must be one of Toy; got dict"):
        save({}, tmp_path / "m")
    with pytest.raises(TypeError, match="array 'c' has dtype complex128"):
        save(Toy({"c": np.array([1j])}, META), tmp_path / "m")
    with pytest.raises(TypeError, match="cannot be stored: Object of type function"):
        save(Toy({}, {"hidden": same}), tmp_path / "m")
    with pytest.raises(TypeError, match="cannot be stored: Out of range float"):
        save(Toy({}, {"hidden": float("nan")}), tmp_path / "m")
    with pytest.raises(TypeError, match="must not be called '__metadata__'"):
        save(Toy({"__metadata__": np.zeros(1)}, META), tmp_path / "m")
    with pytest.raises(FileNotFoundError, match=r"There is no such folder; make it first: '.*/none'"):
        save(Toy({}, META), tmp_path / "none" / "m")
    with pytest.raises(IsADirectoryError, match="This is a folder; name a file in it"):
        save(Toy({}, META), tmp_path)
    assert not os.listdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in (("pipe", "not a regular file"), ("link", "not a regular"), ("loop", "Too many")):
        with pytest.raises(OSError, match=reason):
            save(Toy({}, META), tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "loop", "pipe"]


def test_a_missing_file_a_folder_and_a_pipe_are_errors_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
    with pytest.raises(OSError, match="Not a regular file"):
        load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Not a regular file"):
        load(tmp_path / "pipe")
