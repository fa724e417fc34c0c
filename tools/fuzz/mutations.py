"""Ways to change a model file: its bytes as they are, or its contents with a right checksum.

Every change of contents draws from the fields that a file has, as `decode` and the JSON of its header give
them: an array or an entry that is added to files is changed as soon as a file of `originals` has it.
"""

import copy
import json

import numpy as np

from tggm import storage
from tggm.storage import KEY, SCHEMA, _digest, decode

DTYPES = dict(zip(("F64", "I64", "F32", "I32", "U32", "U8", "BOOL"), storage.DTYPES, strict=True))

SIZES = (
    0.0,
    5e-324,
    1e-300,
    1e-60,
    1e-38,
    1e-15,
    1e-6,
    1.0,
    30.0,
    1e3,
    1e6,
    1e10,
    1e15,
    1e30,
    1e59,
    1e150,
    1e300,
)
STRANGE = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**200, 1e308, -1e-320, "", "auto", "../../etc/passwd", "/dev/zero",
    "\0", "O", "U9", "M8[s]", "float16", "__import__('os')", [], [[]], {}, {"a": 1}, [2**62, 2**62], [0],
    [-1], ["x"] * 50, "9" * 5000, [1e999], "\ud800", 10**400, "<U999999999", "bool",
]  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Contents:
    """A file taken apart: arrays by name, and its description."""

    def __init__(self, content):
        self.arrays, self.model = decode(content)
        self.header = {}  # of arrays that are described wrongly
        self.cut = None  # bytes of data that are left

    def sealed(self):
        """The file, with a right checksum."""
        entries, data, begin = {}, [], 0
        for name in sorted(self.arrays, key=lambda name: -self.arrays[name].itemsize):
            a = self.arrays[name]
            end = begin + a.nbytes
            entries[name] = {"dtype": _NAMES.get(a.dtype.name, "F16"), "shape": list(a.shape)}
            entries[name]["data_offsets"] = [begin, end]
            data.append(a.tobytes())
            begin = end
        for name, changed in self.header.items():
            entries[name] = entries.get(name, {}) | changed if isinstance(changed, dict) else changed
        try:
            digest = _digest(self.arrays, self.model)
        except ValueError:  # no JSON
            digest = ""
        about = {"schema": SCHEMA, "sha256": digest, "model": self.model}
        metadata = {KEY: json.dumps(about, separators=(",", ":"))}
        raw = json.dumps({"__metadata__": metadata, **entries}).encode()
        raw += b" " * (-len(raw) % 8)
        return len(raw).to_bytes(8, "little") + raw + b"".join(data)[: self.cut]


def damaged_bytes(rng, files):
    """Bytes flipped, cut off, inserted, and spliced with those of another file."""
    content = bytearray(rng.choice(files))
    for _ in range(rng.choice((1, 1, 1, 2, 5, 30))):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 0 | 1:
                if at < len(content):
                    content[at] ^= 1 << rng.randrange(8)
            case 2:
                del content[at:]
            case 3:
                content[at:at] = rng.randbytes(rng.randrange(1, 40))
            case 4:
                content[at : at + 8] = rng.randrange(2**64).to_bytes(8, "little")
            case _:
                other = rng.choice(files)
                content[at:] = other[rng.randrange(len(other)) :]
    return bytes(content)


def changed_contents(rng, files):
    """One to four changes of different kinds."""
    file = Contents(rng.choice(files))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choices(list(CHANGES), list(CHANGES.values()))[0](rng, file, rng.choice(files))
    return file.sealed()


def values(rng, file, other):
    """Other numbers in an array: one, a row or all; of any size, scaled, permuted or negated."""
    name = rng.choice(sorted(file.arrays))
    a = file.arrays[name].copy()
    if not a.size:
        return
    flat = a.reshape(-1)
    at = rng.choice((rng.randrange(flat.size), slice(None), slice(0, max(1, flat.size // 2))))
    with np.errstate(all="ignore"):
        match rng.randrange(6):
            case 0 | 1 | 2:
                _put(flat, at, rng.choice((-1, 1)) * rng.choice(SIZES))
            case 3:
                _put(flat, at, flat[at].astype(np.float64) * rng.choice((-1.0, *SIZES)))
            case 4:
                _put(flat, at, rng.choice((np.nan, np.inf, -np.inf, -600.0, 80.0)))
            case _:
                flat[:] = flat[rng.sample(range(flat.size), flat.size)]
    file.arrays[name] = a


def _put(flat, at, value):
    if flat.dtype.kind in "iub":
        value = np.clip(np.nan_to_num(value), -(2**31), 2**31 - 1)
    flat[at] = np.asarray(value).astype(flat.dtype)


def resized(rng, file, other):
    """An array of another shape or type, described as it is."""
    name = rng.choice(sorted(file.arrays))
    a = file.arrays[name]
    axis = rng.randrange(max(a.ndim, 1))
    made = [
        lambda: np.repeat(a, 2, axis if a.ndim else None),
        lambda: np.take(a, range(max(a.shape[axis] - 1, 0)), axis) if a.ndim else a[None],
        lambda: a[None], lambda: a.T, lambda: a.reshape(-1), lambda: a[..., :0] if a.ndim else a,
        lambda: a.astype(rng.choice([np.float64, np.float32, np.int64, np.int32, np.uint8, bool])),
        lambda: np.repeat(a, 40, 0 if a.ndim else None),
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        file.arrays[name] = np.ascontiguousarray(rng.choice(made)())


def swapped(rng, file, other):
    """Two arrays in each other's place."""
    one, two = (rng.choice(sorted(file.arrays)) for _ in range(2))
    file.arrays[one], file.arrays[two] = file.arrays[two], file.arrays[one]


def spliced(rng, file, other):
    """A part of another file: its arrays, one of them, its description, or a section of that."""
    that = Contents(other)
    match rng.randrange(5):
        case 0:
            file.arrays = that.arrays
        case 1 | 2:
            name = rng.choice(sorted(that.arrays))
            file.arrays[name] = that.arrays[name]
        case 3:
            key = rng.choice(sorted(that.model))
            file.model[key] = that.model[key]
        case _:
            if isinstance(that.model.get("state"), dict) and isinstance(file.model.get("state"), dict):
                key = rng.choice(sorted(that.model["state"]) or ["x"])
                file.model["state"][key] = that.model["state"].get(key)


def described(rng, file, other):
    """An array described by other words, missing, renamed, or cut off."""
    name = rng.choice(sorted(file.arrays) or ["x"])
    shape = list(np.shape(file.arrays.get(name, 0)))
    match rng.randrange(7):
        case 0:
            shapes = [[2**40], [2**62, 4], [0, 2**62], [1] * 40, [-1], shape[::-1], [*shape, 1]]
            file.header[name] = {"shape": rng.choice(shapes)}
        case 1:
            file.header[name] = {"dtype": rng.choice([*DTYPES, "F16", "O", 3, None])}
        case 2:
            ends = [rng.randrange(2 ** rng.randrange(1, 70)) for _ in range(2)]
            file.header[name] = {"data_offsets": ends}
        case 3:
            file.arrays.pop(name, None)
        case 4:
            names = [*Contents(other).arrays, f"{name}.9", "../x", "a" * 1000, "\0"]
            file.arrays[rng.choice(names)] = file.arrays.pop(name, np.zeros(1))
        case 5:
            file.header[name] = copy.deepcopy(rng.choice(STRANGE))
        case _:
            file.cut = rng.randrange(2000)


def settings(rng, file, other):
    """An entry of the description replaced, removed or added, anywhere in it."""
    node, key = rng.choice(places(file.model) or [({"x": 0}, "x")])
    match rng.randrange(8):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[rng.choice(["checkpoint", "__class__", "x", key + "_"])] = copy.deepcopy(rng.choice(STRANGE))
        case 2 | 3 | 4 if type(node[key]) in (int, float):
            node[key] = rng.choice((-1, 1)) * rng.choice((*SIZES, 2 * node[key], node[key] + 1))
        case 5 if isinstance(node, list):
            node.append(copy.deepcopy(node[key]))
        case _:
            node[key] = copy.deepcopy(rng.choice(STRANGE))


def places(node):
    """Every entry of a description, as what holds it and its key there."""
    if not isinstance(node, dict | list):
        return []
    keys = list(node) if isinstance(node, dict) else range(len(node))
    return [(node, key) for key in keys] + [place for key in keys for place in places(node[key])]


CHANGES = {values: 5, resized: 1, swapped: 1, spliced: 1, described: 1, settings: 4}  # how often
