"""Bytes of a model file: safetensors, written in one canonical way and read with suspicion.

    8 bytes   length N of the header, little-endian
    N bytes   JSON: {"__metadata__": {"sha256": ..., "format": "tggm", "schema": "1", "model": ...},
               name: {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}, ...}, and blanks
    rest      the arrays, little-endian and C-contiguous, widest items first, without gaps

The checksum is the SHA-256 of the whole file with the checksum's own digits replaced by zeros, so that a
change of any byte is noticed. `schema` is the version of what `model` (itself JSON) may contain. Any
safetensors reader can open the file; we accept only files that are consistent in every respect.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, BinaryIO, NoReturn

import numpy as np

SCHEMA = 1
FORMAT = "tggm"
DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_ALIGNMENT = 8
_MAX_AXES = 32
_MAX_HEADER = 2**24  # bytes of a header that `glance` reads
_BLANK_DIGEST = "0" * 64


class ModelFileError(ValueError):
    """A file is not a model that this version of tggm can read; the message says which file and why."""


def encode(arrays: Mapping[str, np.ndarray], model: Mapping[str, Any]) -> bytes:
    """The file that holds `arrays` and the JSON-able `model`."""
    blobs = {name: _storable(name, array) for name, array in arrays.items()}
    order = sorted(blobs, key=lambda name: (-blobs[name].itemsize, name))
    entries: dict[str, Any] = {"__metadata__": _metadata(model)}
    end = 0
    for name in order:
        blob = blobs[name]
        begin, end = end, end + blob.nbytes
        entries[name] = {"dtype": _NAMES[blob.dtype], "shape": list(blob.shape), "data_offsets": [begin, end]}
    header = json.dumps(entries, allow_nan=False, separators=(",", ":")).encode()
    header += b" " * (-len(header) % _ALIGNMENT)
    content = len(header).to_bytes(8, "little") + header + b"".join(blobs[name].tobytes() for name in order)
    return content.replace(_BLANK_DIGEST.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def decode(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and model of a file, or ModelFileError with the first thing found wrong."""
    header, data = _split(content)
    entries = _parse("its header", header)
    metadata = _checked_metadata(entries.pop("__metadata__", None))
    digest = metadata["sha256"]
    blanked = content.replace(digest.encode(), _BLANK_DIGEST.encode(), 1)
    if hashlib.sha256(blanked).hexdigest() != digest:
        raise ModelFileError("its checksum does not match; the file was damaged or edited")
    arrays = _arrays(entries, data)
    return arrays, _parse("its model description", metadata["model"])


def glance(file: BinaryIO) -> dict[str, Any]:
    """The model that a file says it holds, by its first bytes alone: quick, and no proof that it is whole."""
    length = int.from_bytes(file.read(8), "little")
    if length > _MAX_HEADER:
        raise ModelFileError("it was not written by tggm")
    entries = _parse("its header", file.read(length))
    return _parse("its model description", _checked_metadata(entries.get("__metadata__"))["model"])


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """The array in C order and little-endian, or TypeError if its dtype has no place in a model file."""
    if name == "__metadata__":
        raise ValueError(
            "an array of a model must not be called '__metadata__'; that name is the header's own"
        )
    blob = np.asarray(array, order="C")
    blob = blob.astype(blob.dtype.newbyteorder("<"), copy=False)
    if blob.dtype not in _NAMES:
        raise TypeError(
            f"array {name!r} has dtype {blob.dtype}; a model file holds {', '.join(map(str, _NAMES))}"
        )
    return blob


def _metadata(model: Mapping[str, Any]) -> dict[str, str]:
    # The digest comes first: the first run of 64 zeros in the file is then its place.
    text = json.dumps(model, allow_nan=False, separators=(",", ":"))
    return {"sha256": _BLANK_DIGEST, "format": FORMAT, "schema": str(SCHEMA), "model": text}


def _split(content: bytes) -> tuple[bytes, memoryview]:
    if len(content) < 8:
        raise ModelFileError(f"it has {len(content)} bytes, too few for a header")
    length = int.from_bytes(content[:8], "little")
    if length > len(content) - 8 and content[8:9] != b"{":
        raise ModelFileError("it was not written by tggm.save or tggm fit")
    if length > len(content) - 8:
        raise ModelFileError(f"its header claims {length} bytes, but only {len(content) - 8} follow")
    if length % _ALIGNMENT:
        raise ModelFileError(f"its header has {length} bytes, not a multiple of {_ALIGNMENT}")
    return content[8 : 8 + length], memoryview(content)[8 + length :]


def _parse(what: str, text: str | bytes) -> dict[str, Any]:
    """A JSON object, strictly: no repeated keys, no NaN or infinity, UTF-8."""

    def refuse_constant(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    def finite(digits: str) -> float:
        if not math.isfinite(number := float(digits)):
            raise ValueError(f"{digits} is not a finite number")
        return number

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise ValueError("a key occurs twice")
        return found

    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(
            decoded, object_pairs_hook=unique, parse_constant=refuse_constant, parse_float=finite
        )
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{what} is not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{what} is not a JSON object")
    return value


def _checked_metadata(metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ModelFileError("it was not written by tggm.save")
    schema = metadata.get("schema")
    if not isinstance(schema, str) or not (schema.isascii() and schema.isdigit()) or len(schema) > 9:
        raise ModelFileError(f"its schema version {schema!r} is not a number")
    if int(schema) > SCHEMA:
        raise ModelFileError(
            f"it is from a newer version of tggm (schema {schema}; this one reads {SCHEMA}); upgrade"
        )
    if int(schema) != SCHEMA:
        raise ModelFileError(f"its schema version {schema} was never in use")
    digest = metadata.get("sha256")
    if not isinstance(digest, str) or len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
        raise ModelFileError("its checksum is missing or not 64 hexadecimal digits")
    if set(metadata) != {"sha256", "format", "schema", "model"} or not isinstance(metadata["model"], str):
        raise ModelFileError("its metadata do not have exactly the entries sha256, format, schema and model")
    return metadata


def _arrays(entries: dict[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """Every array, after checking that together they cover the data exactly."""
    layout = sorted(
        (_checked_entry(name, entry) for name, entry in entries.items()), key=lambda item: item[3:]
    )
    arrays: dict[str, np.ndarray] = {}
    position = 0
    for name, dtype, shape, begin, end in layout:
        if begin != position:
            raise ModelFileError(f"array {name!r} begins at byte {begin} of the data, not at {position}")
        if end > len(data):
            raise ModelFileError(
                f"array {name!r} ends at byte {end}, but there are {len(data)} bytes of data"
            )
        arrays[name] = _array(name, data[begin:end], dtype, shape)
        position = end
    if position != len(data):
        raise ModelFileError(f"its arrays take {position} bytes of data, but there are {len(data)}")
    return arrays


def _checked_entry(name: str, entry: Any) -> tuple[str, np.dtype[Any], tuple[int, ...], int, int]:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(f"array {name!r} must be described by dtype, shape and data_offsets alone")
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise ModelFileError(f"array {name!r} has dtype {entry['dtype']!r}, not one of {', '.join(DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not _are_counts(shape) or len(shape) > _MAX_AXES:
        raise ModelFileError(f"array {name!r} has shape {shape!r}, not a list of at most {_MAX_AXES} counts")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ModelFileError(f"array {name!r} has data_offsets {offsets!r}, not two positions in order")
    begin, end = offsets
    if begin % dtype.itemsize:
        raise ModelFileError(f"array {name!r} begins at byte {begin}, not a multiple of {dtype.itemsize}")
    # Python's integers do not overflow, and the test comes before anything is allocated.
    if math.prod(shape) * dtype.itemsize != end - begin or math.prod(filter(None, shape)) >= 2**48:
        raise ModelFileError(
            f"array {name!r} of shape {shape} and dtype {dtype} does not fill {end - begin} bytes"
        )
    return name, dtype, tuple(shape), begin, end


def _are_counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 2**63 for item in value)


def _array(name: str, raw: memoryview, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """A writable copy in the machine's own byte order."""
    if dtype.kind == "b" and not set(bytes(raw)) <= {0, 1}:
        raise ModelFileError(f"array {name!r} is boolean, but has bytes other than 0 and 1")
    return np.frombuffer(raw, dtype).reshape(shape).astype(dtype.newbyteorder("="))
