"""Model files are restored bit for bit, damage is detected, and writes are atomic."""

import json
import os
import stat
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy

from tggm import ModelFileError, estimators, files, load, save, storage

ARRAYS = {
    "W0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.array([1.5, -0.0, 1e-300]),
    "scale": np.array(3.0),
    "steps": np.array([], dtype=np.int64),
    "key": np.array([1, 2**32 - 1], dtype=np.uint32),
    "mask": np.array([True, False, True]),
}
META = {"hidden": [3], "rate": 0.1, "names": ["größe", "x1", "\ud800"], "method": None}
MODEL = {"class": "Toy", "state": META}


class Toy:
    """An estimator that is its state."""

    def __init__(self, arrays, meta):
        self.arrays, self.meta = arrays, meta

    @classmethod
    def from_state(cls, arrays, meta, table=None):
        if "hidden" not in meta:
            raise KeyError("hidden")
        return cls(arrays, meta)


@pytest.fixture(autouse=True)
def known(monkeypatch):
    monkeypatch.setattr(files, "loaders", lambda backend="jax": {"Toy": Toy.from_state})
    monkeypatch.setattr(estimators, "TGGMRegressor", Toy)
    state = estimators.to_state
    own = lambda model: (model.arrays, model.meta) if isinstance(model, Toy) else state(model)  # noqa: E731
    monkeypatch.setattr(estimators, "to_state", own)
    monkeypatch.setattr(estimators, "table_description", lambda model: None)


@pytest.fixture
def path(tmp_path):
    save(Toy(ARRAYS, META), tmp_path / "model.tggm")
    return tmp_path / "model.tggm"


def equal(found, wanted):
    return set(found) == set(wanted) and all(
        found[k].dtype == v.dtype and found[k].shape == v.shape and found[k].tobytes() == v.tobytes()
        for k, v in wanted.items()
    )


def test_a_model_is_restored_bit_for_bit(path):
    model = load(path)
    assert model.meta == META
    assert equal(model.arrays, ARRAYS)
    assert all(array.flags.writeable for array in model.arrays.values())


def test_any_safetensors_reader_can_read_the_arrays_and_the_one_metadata_key(path):
    assert equal(safetensors.numpy.load_file(path), ARRAYS)
    with safetensors.safe_open(path, "numpy") as file:
        (text,) = file.metadata().values()
    assert json.loads(text)["model"]["state"] == META


def test_arrays_of_any_memory_layout_can_be_stored(tmp_path):
    arrays = {
        "fortran": np.asfortranarray(ARRAYS["W0"]),
        "strided": np.arange(10.0)[::3],
        "big endian": np.array([1.0], dtype=">f8"),
    }
    save(Toy(arrays, META), tmp_path / "m")
    read = load(tmp_path / "m").arrays
    assert all(np.array_equal(read[name], array) for name, array in arrays.items())


def test_equal_models_give_equal_bytes(path, tmp_path):
    save(Toy(dict(reversed(ARRAYS.items())), META), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()
    save(load(path), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def assert_refused(content, reason="it is not a usable model file"):
    with pytest.raises(ModelFileError, match=reason):
        files.parse_model(content, "it")


def test_every_changed_byte_and_every_truncation_is_detected(path):
    content = path.read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        assert_refused(bytes(damaged))
        assert_refused(content[:position])
    assert_refused(content + b"\0")


def with_header(header, data=b""):
    """Return a file with any header."""
    raw = json.dumps(header).encode() if isinstance(header, dict) else header
    raw += b" " * (-len(raw) % 8)
    return len(raw).to_bytes(8, "little") + raw + data


def with_metadata(text):
    return with_header({"__metadata__": {"tggm": text}})


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "was not written by tggm"),
        (b"name,age\nann,3\nbob,4\n", "was not written by tggm"),
        ((2**62).to_bytes(8, "little") + b"{}", "was not written by tggm"),
        (with_header(b"[]"), "was not written by tggm"),
        (with_header(b"[" * 100_000), "was not written by tggm"),
        (with_header({"__metadata__": {"format": "pt"}}), "was not written by tggm"),
        (with_metadata("[]"), "not JSON as tggm writes it"),
        (with_metadata('{"schema":2,"model":{}}'), "from a newer version of tggm"),
        (with_metadata('{"schema":0,"sha256":"","model":{}}'), "not JSON as tggm writes it"),
        (with_metadata('{"schema":1,"sha256":"","model":{"a":NaN}}'), "not JSON as tggm writes it"),
        (with_metadata('{"schema":1,"sha256":"","model":{"a":1e999}}'), "not JSON as tggm writes it"),
        (with_metadata('{"schema":1,"sha256":"","model":{"a":1,"a":2}}'), "not JSON as tggm writes it"),
        (with_metadata('{"schema":1,"sha256":"","model":{}}'), "checksum does not match"),
    ],
)
def test_files_with_wrong_headers_are_refused(content, reason):
    assert_refused(content, reason)


def test_long_lists_are_arrays_and_are_put_back():
    lists = {"words": [f"wörd {k}\n\ud800" for k in range(300)], "numbers": [0.1 * k for k in range(300)]}
    lists |= {
        "rows": [[0.5, -0.0]] * 300,
        "counts": [*range(300)],
        "empty": [""] * 300,
        "nulls": ["\0"] * 300,
    }
    lists |= {
        "mixed": [1, 2.5] * 200,
        "large": [2**70] * 300,
        "truth": [1 > 0] * 300,
        "ragged": [[1], []] * 200,
    }
    content = storage.encode(ARRAYS, {"class": "Toy", "state": lists})
    assert b"rd 298" not in content[: 8 + int.from_bytes(content[:8], "little")]
    arrays, model = storage.decode(content)
    assert json.dumps(model["state"]) == json.dumps(lists)  # types, too
    assert equal(arrays, ARRAYS)
    two = {"list.0": np.ones(3)}, {"state": [{"@list": "list.0"}] * 2}
    for found, description in (two, ({"a": np.full(3, np.nan)}, {"state": {"@list": "a"}})):
        assert_refused(storage.encode(found, description), "lists are missing, too long or not finite")
    wide = {"state": [{"name": f"x{k}", "fill": 0.5, "marks": [], "encoding": None} for k in range(20_000)]}
    assert storage.decode(storage.encode({"W0": np.zeros((5, 20_000))}, wide))[1] == wide  # a wide table
    zeros = {"a": np.zeros(2**21 + 1, np.uint8)}
    assert_refused(storage.encode(zeros, {"state": {"@list": "a"}}), "too long")
    assert_refused(
        storage.encode({"a": np.full(3, 255, np.uint8)}, {"state": {"@list": "a"}}), "cannot be read"
    )


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": [2**62, 4]},
        {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]},
        {"shape": [-2]},
        {"shape": [1] * 100 + [2]},
        {"data_offsets": [8, 0]},
        {"data_offsets": [0, 2**62]},
        {"data_offsets": [1, 9]},
        {"dtype": "BF16", "shape": [4]},
        {"dtype": None},
    ],
    ids=str,
)
def test_layouts_that_do_not_fit_the_data_are_refused(changed):
    content = storage.encode({"a": np.zeros(1)}, MODEL)
    text = json.loads(content[8:-8])["__metadata__"]
    entry = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
    files.parse_model(with_header({"__metadata__": text, "a": entry}, bytes(8)), "it")
    assert_refused(with_header({"__metadata__": text, "a": entry | changed}, bytes(8)))


def test_wrong_contents_with_a_right_checksum_are_refused(monkeypatch):
    monkeypatch.setattr(storage, "_digest", lambda *_: "")
    content = storage.encode({"a": np.array([True])}, MODEL)
    assert_refused(content[:-1] + b"\2", "bytes other than 0 and 1")
    monkeypatch.setattr(storage, "DTYPES", ())
    assert_refused(content, "array 'a' has dtype bool, not one of")


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"class": "os.system", "state": {}}, "'os.system', which is not an estimator"),
        ({"class": ["Toy"], "state": {}}, "which is not an estimator"),
        ({"class": "Toy"}, "has no state"),
        ({"class": "Toy", "state": {}}, "not a valid Toy .KeyError: 'hidden'"),
        ({**MODEL, "code": ""}, "entries other than"),
    ],
)
def test_wrong_descriptions_are_refused(model, reason):
    assert_refused(storage.encode({}, model), reason)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(path, monkeypatch):
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        save(Toy(ARRAYS, {**META, "rate": 0.2}), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_two_writers_of_a_file_use_different_temporary_files(tmp_path, monkeypatch):
    used, replace = [], os.replace
    monkeypatch.setattr(os, "replace", lambda old, new: (used.append(old), replace(old, new)))
    for content in (b"1", b"2"):
        storage.write_atomically(tmp_path / "m", content)
    assert len(set(used)) == 2
    assert {path.parent for path in used} == {tmp_path}


def test_headers_and_lengths_are_checked_before_the_arrays_are_read(tmp_path):
    file = tmp_path / "m"
    whole = storage.encode({"a": np.zeros(4)}, MODEL)
    length = 8 + int.from_bytes(whole[:8], "little")
    lists = with_header(b'{"__metadata__": {"tggm": "", "b": [' + b"[]," * 10**6 + b"0]}}")
    bombs = [(2**25).to_bytes(8, "little") + b" " * 2**25, b"", whole, whole[:-1], whole[:length], lists]
    bombs += [
        with_header(text)
        for text in (b"[" * 2**22, b'{"a": 1}', b'{"a": {"data_offsets": [0, 1e999]}}', b"[" + b"[]," * 10**6)
    ]
    for content in bombs:
        file.write_bytes(content)
        if content in (b"", whole, lists):
            os.truncate(file, 3 * 2**30)  # sparse
        tracemalloc.start()
        with pytest.raises(ModelFileError, match=r"was not written by tggm|its length is not what"):
            storage.read_file(file)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
        tracemalloc.stop()


def test_a_new_file_gets_the_permissions_of_the_umask_and_an_old_one_keeps_its_own(tmp_path):
    file = tmp_path / "m"
    code = (  # in a process: the umask belongs to the whole process
        "import os, pathlib, sys; os.umask(0o027); from tggm.storage import write_atomically as w; "
        "w(pathlib.Path(sys.argv[1]), b'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    file.chmod(0o600)
    save(Toy(ARRAYS, META), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_saving_to_a_link_replaces_its_target(path, tmp_path):
    link = tmp_path / "latest.tggm"
    link.symlink_to(path)
    save(Toy(ARRAYS, {**META, "rate": 0.2}), link)
    assert link.is_symlink()
    assert load(path).meta["rate"] == 0.2


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({}, "`model` must be a TGGMRegressor or TGGMClassifier; got dict"),
        (Toy({"c": np.array([1j])}, META), "array 'c' has dtype complex128"),
        (Toy({}, {"hidden": lambda: 3}), "cannot be stored: Object of type function"),
        (Toy({}, {"hidden": float("nan")}), "cannot be stored: Out of range float"),
        (Toy({}, {"hidden": "x" * 2**22}), "header exceeds 4194304 bytes"),
        (Toy({}, {"hidden": [[]] * 2**16}), "header exceeds .* 131072 values"),
        (Toy({f"{k}": np.ones(1) for k in range(3001)}, {}), "header exceeds .* 3000 arrays"),
    ],
)
def test_a_model_that_cannot_be_stored_is_refused(model, reason, tmp_path):
    with pytest.raises(TypeError, match=reason):
        save(model, tmp_path / "m")
    assert not os.listdir(tmp_path)


def test_only_regular_files_are_replaced_or_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, reason in {
        "none/m": r"There is no such folder; make it first: '.*/none'",
        "": "This is a folder; name a file in it",
        "pipe": "not a regular file",
        "link": "not a regular file",
        "loop": "Too many",
    }.items():
        with pytest.raises(OSError, match=reason):
            save(Toy({}, META), tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["link", "loop", "pipe"]
    assert (tmp_path / "pipe").is_fifo()
    for name in ("", "pipe"):
        with pytest.raises(OSError, match="Not a regular file"):
            load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none")
