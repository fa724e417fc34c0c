"""Encode arrays and JSON in one checked safetensors file, and write files atomically.

The metadata of the file have one key, ``tggm``. Its value is JSON: the version of the schema, the model
description, and the SHA-256 of that description and of all arrays with their names, types and shapes. Equal
content gives equal bytes. safetensors checks the layout; only the size of the header is checked before.

Long lists of the description (words of categories, their statistics) are arrays, ``list.0`` and so on, which
are read faster than JSON.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

SCHEMA = 1
METADATA, KEY = "__metadata__", "tggm"
_START = re.compile(r'\s*{\s*"__metadata__"\s*:\s*{\s*"tggm"\s*:\s*(?=")')  # safetensors writes it first
MAX_HEADER = 2**22  # bytes
MOST_MARKS = 2**17  # values of a header, besides one for four bytes of arrays: reading them takes 0.05 s
MOST_OF_ARRAYS = 2**20  # of the latter: more than a header can hold of those that tggm writes
MOST_ARRAYS = 3000  # reading more takes longer
LONG, MOST_ITEMS = 256, 2**21  # items of a list that becomes an array, and of all such lists
REFERENCE = "@list"  # key of the name of such an array
DTYPES = ("float64", "int64", "float32", "int32", "uint32", "uint8", "bool")


class ModelFileError(ValueError):
    """Report a file that this version of tggm cannot read; the message names the file and the reason."""


def encode(arrays: Mapping[str, np.ndarray], model: Mapping[str, Any]) -> bytes:
    """Return the file that holds `arrays` and the JSON-able `model`."""
    ordered: dict[str, np.ndarray] = {}
    for name, given in arrays.items():
        array = np.asarray(given)
        if array.dtype.name not in DTYPES:
            raise TypeError(f"array {name!r} has dtype {array.dtype}; a model file holds {', '.join(DTYPES)}")
        ordered[name] = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
    packed = _pack(dict(model), ordered)
    digest = _digest(ordered, _to_json(packed))
    text = _to_json({"schema": SCHEMA, "sha256": digest, "model": packed})
    content: bytes = save(ordered, {KEY: text})
    try:
        length = _header_length(content)
        _entries(content[8 : 8 + length], len(content) - length)
    except ModelFileError:
        limits = f"{MAX_HEADER} bytes, {MOST_MARKS} values or {MOST_ARRAYS} arrays"
        raise ValueError(f"its header exceeds {limits}; drop columns") from None
    return content


def _pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Move long lists of words, or of (lists of) numbers, to arrays, and return JSON that names them."""
    if isinstance(value, dict):
        return {key: _pack(item, arrays) for key, item in value.items()}
    if not isinstance(value, list | tuple):
        return value
    if len(value) >= LONG:
        rows = {len(item) if isinstance(item, list | tuple) else -1 for item in value}
        items = [x for item in value for x in (item if isinstance(item, list | tuple) else [item])]
        kinds, array = set(map(type, items)), None
        if kinds == {str} and rows == {-1} and not any("\0" in word for word in items):
            array = np.frombuffer("\0".join(items).encode("utf-8", "surrogatepass"), np.uint8)
        elif kinds in ({int}, {float}) and len(rows) == 1:
            array = np.array(value) if max(map(abs, items)) < 2**63 else None  # NaN is refused by JSON
        if array is not None:
            name = f"list.{sum(key.startswith('list.') for key in arrays)}"
            arrays[name] = array
            return {REFERENCE: name}
    return [_pack(item, arrays) for item in value]


def _unpack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Put the lists back; each array is used once."""
    if isinstance(value, list):
        return [_unpack(item, arrays) if isinstance(item, dict | list) else item for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {REFERENCE} or not isinstance(value[REFERENCE], str):
        return {key: _unpack(item, arrays) for key, item in value.items()}
    array = arrays.pop(value[REFERENCE], np.array(np.nan))
    words = array.dtype == np.uint8
    if (np.count_nonzero(array == 0) if words else array.size) > MOST_ITEMS or not np.isfinite(array).all():
        raise ModelFileError("its lists are missing, too long or not finite")
    return array.tobytes().decode("utf-8", "surrogatepass").split("\0") if words else array.tolist()


def decode(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and the model of a file, or raise ModelFileError with the first error found."""
    length = _header_length(content)
    digest, text, model = _metadata(content[8 : 8 + length], len(content) - length)
    try:
        arrays: dict[str, np.ndarray] = load(content)
    except (SafetensorError, ValueError, TypeError, LookupError) as error:
        raise ModelFileError(f"its arrays cannot be read ({error})") from None
    if digest != _digest(arrays, text):
        raise ModelFileError("its checksum does not match; the file was damaged or edited")
    for name, array in arrays.items():
        if array.dtype.name not in DTYPES:
            raise ModelFileError(f"array {name!r} has dtype {array.dtype}, not one of {', '.join(DTYPES)}")
        if array.dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise ModelFileError(f"array {name!r} is boolean, but has bytes other than 0 and 1")
    try:
        return arrays, _unpack(model, arrays)
    except (UnicodeDecodeError, RecursionError):
        raise ModelFileError("its lists cannot be read") from None


def _many_values(text: str, most: int) -> bool:
    """Return whether a JSON text has more values than this; containers count four times.

    The time to read it is proportional to them. A column of a table has arrays of 60 bytes or more.
    """
    return text.count(",") + 4 * (text.count("[") + text.count("{")) > most


def _header_length(content: bytes) -> int:
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > MAX_HEADER:
        raise ModelFileError("it was not written by tggm.save or tggm fit")
    return length


def _entries(header: bytes, size: int) -> tuple[dict[str, Any], str]:
    """Return the descriptions of arrays and the JSON of the model, both short enough to be read at once."""
    try:
        words = header.decode()
        if not (found := _START.match(words)):
            raise ValueError
        text, end = json.JSONDecoder().raw_decode(words, found.end())  # a string: its values are not read
        few = not _many_values(words[end:], MOST_MARKS)
        entries = json.loads(words[: found.end()] + '""' + words[end:]) if few else {}
    except (ValueError, RecursionError):
        raise ModelFileError("it was not written by tggm.save or tggm fit, or is damaged") from None
    many = _many_values(text, MOST_MARKS + min(size // 4, MOST_OF_ARRAYS))
    if METADATA not in entries or many or len(entries) > MOST_ARRAYS + 1:
        raise ModelFileError("it was not written by tggm.save or tggm fit")
    return entries, text


def _metadata(header: bytes, size: int) -> tuple[Any, str, dict[str, Any]]:
    """Return checksum, JSON of the model, and model; the JSON must be as `encode` writes it."""
    text = _entries(header, size)[1]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ModelFileError("it was not written by tggm.save or tggm fit, or is damaged") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if type(schema) is int and schema > SCHEMA:
        raise ModelFileError(f"it is from a newer version of tggm (schema {schema}; this one reads {SCHEMA})")
    try:
        strict = type(schema) is int and schema == SCHEMA and _to_json(found) == text
    except (ValueError, RecursionError):
        strict = False
    if not strict or list(found) != ["schema", "sha256", "model"] or not isinstance(found["model"], dict):
        raise ModelFileError("its metadata are not JSON as tggm writes it")
    return found["sha256"], text.partition(',"model":')[2][:-1], found["model"]


def _to_json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _digest(arrays: Mapping[str, np.ndarray], model: str) -> str:
    layout = [[name, arrays[name].dtype.name, list(arrays[name].shape)] for name in sorted(arrays)]
    digest = hashlib.sha256((model + _to_json(layout)).encode())
    for name in sorted(arrays):
        digest.update(arrays[name].data if arrays[name].size else b"")
    return digest.hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file at `path` by `content`, entirely or not at all.

    The bytes are written to a temporary file in the same folder, synchronised, and renamed. An existing file
    keeps its permissions; a symbolic link is followed.
    """
    target = Path(os.path.realpath(path))
    require_replaceable(target)
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "There is no such folder; make it first", str(target.parent))
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_replaceable(path: Path) -> None:
    """Raise unless `path` is a regular file or does not exist: a rename would delete a pipe or a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "This is a folder; name a file in it", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "This is a pipe or a device, not a regular file; name another", str(path))


def read_file(path: Path) -> bytes:
    """Return the content of a model file; raise OSError for a folder, pipe or device.

    The length of the header and then that of the arrays are checked before they are read: a file of another
    kind, of any size, takes no time and no memory.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    with open(path, "rb") as file:
        start = file.read(8)
        header = file.read(_header_length(start))
        size = os.fstat(file.fileno()).st_size
        entries = _entries(header, size - len(header))[0]
        try:
            ends = [int(entries[name]["data_offsets"][1]) for name in entries if name != METADATA]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError):
            raise ModelFileError("it was not written by tggm.save or tggm fit, or is damaged") from None
        if size != 8 + len(header) + max(ends, default=0):
            raise ModelFileError("its length is not what its header says; the file was damaged or edited")
        return start + header + file.read()
