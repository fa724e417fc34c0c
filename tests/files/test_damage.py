"""Model files with damage of every kind, with and without a right checksum."""

import json
from hashlib import sha256

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.files.toy import ARRAYS, META
from tggm import ModelFileError, load
from tggm.storage import container


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
@settings(max_examples=150, deadline=5000)
def test_any_header_with_a_right_checksum_is_an_error_or_consistent_arrays(entries, data):
    try:
        arrays, _ = container.decode(sealed(entries, data))
    except ModelFileError:
        return
    assert sum(array.nbytes for array in arrays.values()) == len(data)


@given(st.data())
@settings(max_examples=150, deadline=5000)
def test_any_edit_of_the_bytes_is_an_error(data):
    content = container.encode(ARRAYS, {"class": "Toy", "state": META})
    start = data.draw(st.integers(0, len(content)))
    stop = data.draw(st.integers(start, min(len(content), start + 40)))
    edited = content[:start] + data.draw(st.binary(max_size=40)) + content[stop:]
    if edited != content:
        with pytest.raises(ModelFileError):
            container.decode(edited)


@given(st.binary(max_size=300))
@settings(max_examples=100, deadline=5000)
def test_noise_is_an_error(noise):
    with pytest.raises(ModelFileError):
        container.decode(noise)
