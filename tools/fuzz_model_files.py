"""Malformed model files by the hundred thousand: each must be refused with a `ModelFileError`, quickly.

    python tools/fuzz_model_files.py --files 120000 --output benchmarks/results/fuzz.json

Files of every kind of estimator are damaged in two ways. *Bytes*: flipped, cut off, inserted, spliced with
another file; no such file may load. *Structure*, with a right checksum, as somebody who means harm would make
it: other shapes, dtypes and offsets, huge counts, missing and repeated arrays, any value of the description
replaced by another, paths included; such a file may load only if all its arrays are consistent, so that what
is left is a setting with another value.

A violation is any other exception, a file that takes more than a second, or an allocation beyond a small
multiple of the file's size (traced in one file of twenty).
"""

import argparse
import copy
import hashlib
import json
import random
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np

from tggm import ModelFileError, TGGMClassifier, TGGMRegressor
from tggm.estimators.fitted import Fitted, Scales
from tggm.estimators.state import HISTORY
from tggm.files import model_file, parse_model
from tggm.streams.columns import Columns
from tggm.tables import choose_target, prepare, read_table

SECONDS = 1.0
STRANGE = [
    None, True, -1, 0, 1, 2**31, 2**63, 2**200, 1e308, -1e-320, "", "auto", "../../etc/passwd", "/dev/zero",
    "\0", "O", "U9", "M8[s]", "float16", "__import__('os')", [], [[]], {}, {"a": 1}, [2**62, 2**62], [0],
    [-1], ["x"] * 50, "9" * 5000, [1e999], "\ud800", 10**400, "<U999999999", "bool",
]  # fmt: skip


def filled(model, width, outputs):
    """An estimator with parameters as if fitted, without the time that takes."""
    rng, recipe = np.random.default_rng(0), model.recipe()
    model.n_features_in_, model.converged_, model.flat_target_ = width, True, outputs == 1
    model.history_ = {name: np.zeros((model.n_members, 2)) for name in HISTORY} | {"epoch": np.array([1, 2])}
    model.best_epoch_ = np.ones(model.n_members, np.int32)
    model.undone_ = np.zeros(model.n_members, np.int32)
    model.feature_names_in_ = np.array([f"x{k}" for k in range(width)], dtype=object)
    if model.task == "classification":
        model.classes_ = np.array(["a", "b", "ü"][:outputs])
    scales = Scales(Columns(rng.normal(size=width), np.ones(width)), Columns.unchanged(outputs))
    model.adopt(Fitted(recipe.draw(recipe.architecture(width, outputs), rng), scales, model.method))
    return model


def originals():
    """The content of a sound file of every kind."""
    models = [
        filled(TGGMRegressor(hidden=3, n_members=2), 2, 1),
        filled(TGGMRegressor(hidden=(3, 2), n_members=1, dtype="float64"), 2, 2),
        filled(TGGMRegressor(hidden=3, n_members=1, lateral=2, method="ep"), 2, 1),
        filled(TGGMClassifier(hidden=3, class_weight={"a": 1.0, "b": 2.0, "ü": 1.0}), 2, 3),
        filled(TGGMClassifier(hidden=(3, 2), deep="undirected", method="ep"), 1, 2),
    ]
    return [model_file(model) for model in models] + [table_file()]


def table_file():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.csv")
        rows = "".join(f"{k % 7},{'uvw'[k % 3]},{k * 0.5}\n" for k in range(20))
        file.write_text("a,b,c\n" + rows)
        table = read_table(str(file))
    preparation = prepare(table, choose_target(table, "c", None)[0])
    return model_file(filled(TGGMRegressor(hidden=2), len(preparation.feature_names), 1), preparation)


def damaged_bytes(rng, files):
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


def damaged_structure(rng, files):
    content = rng.choice(files)
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    for _ in range(rng.choice((1, 1, 2, 4))):
        if rng.random() < 0.6:
            header["__metadata__"]["model"] = described(rng, header["__metadata__"]["model"])
        else:
            data = rearranged(rng, header, data, rng.choice(files))
    return sealed(header, data)


def described(rng, text):
    """A description with one value somewhere replaced, removed or added."""
    model = json.loads(text)
    node = model
    while node:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.85:
            node = node[key]
            continue
        break
    else:
        return text
    match rng.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node[rng.choice(["checkpoint", "__class__", "x", key + "_"])] = copy.deepcopy(rng.choice(STRANGE))
        case _:
            node[key] = copy.deepcopy(rng.choice(STRANGE))
    return json.dumps(model) if model else "{}"


def array_names(content):
    """Names of the arrays of a file, as its estimator gave them."""
    size = int.from_bytes(content[:8], "little")
    return [name for name in json.loads(content[8 : 8 + size]) if name != "__metadata__"]


def rearranged(rng, header, data, other):
    """Another description of the arrays, or other data; the checksum will be right."""
    name = rng.choice([key for key in header if key != "__metadata__"] or ["x"])
    if not isinstance(header.get(name), dict):
        header[name] = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    entry = header[name]
    match rng.randrange(8):
        case 0:
            entry["shape"] = rng.choice(
                [[2**40], [2**62, 4], [0, 2**62], [1] * 40, [-1], list(entry.get("shape", [1]))[::-1]]
            )
        case 1:
            entry["dtype"] = rng.choice(
                ["F64", "F32", "I64", "I32", "U32", "U8", "BOOL", "F16", "O", 3, None]
            )
        case 2:
            entry["data_offsets"] = [rng.randrange(2 ** rng.randrange(1, 70)) for _ in range(2)]
        case 3:
            del header[name]
        case 4:
            names = [*array_names(other), f"{name}.9", "../x", "a" * 1000, "\0"]
            header[rng.choice(names)] = header.pop(name)
        case 5:
            header[name] = copy.deepcopy(rng.choice(STRANGE))
        case 6:
            return data[: rng.randrange(len(data) + 1)]
        case _:
            k = rng.randrange(max(len(data) - 8, 1))
            return data[:k] + np.array(rng.choice([np.nan, np.inf, -1e308])).tobytes() + data[k + 8 :]
    return data


def sealed(header, data):
    header["__metadata__"]["sha256"] = "0" * 64
    raw = json.dumps(header).encode()
    raw += b" " * (-len(raw) % 8)
    content = len(raw).to_bytes(8, "little") + raw + data
    return content.replace(b"0" * 64, hashlib.sha256(content).hexdigest().encode(), 1)


def verdict(content, traced):
    """What became of a file: "refused", "loaded", or the violation."""
    begin = time.perf_counter()
    if traced:
        tracemalloc.start()
    try:
        parse_model(content, "file")
        found = "loaded"
    except ModelFileError:
        found = "refused"
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    peak = tracemalloc.get_traced_memory()[1] if traced else 0
    if traced:
        tracemalloc.stop()
    if time.perf_counter() - begin > SECONDS * (5 if traced else 1):
        return "too slow"
    return "too large" if peak > 2**21 + 50 * len(content) else found


def run(files, seed=0, show=lambda text: None):
    rng, sound = random.Random(seed), originals()
    assert all(verdict(content, True) == "loaded" for content in sound)
    counts, violations = Counter(), []
    for k in range(files):
        kind, make = (("bytes", damaged_bytes), ("structure", damaged_structure))[k % 2]
        content = make(rng, sound)
        if content in sound:
            continue
        found = verdict(content, traced=k % 20 < 2)
        counts[f"{kind} {found}"] += 1
        if found not in ("refused", "loaded") or (kind, found) == ("bytes", "loaded"):
            violations.append(f"file {k} of seed {seed}, {kind}: {found}")
            show(violations[-1])
        if k % 10_000 == 9_999:
            show(f"{k + 1} files, {len(violations)} violations")
    return {
        "seed": seed,
        "files": sum(counts.values()),
        **dict(sorted(counts.items())),
        "violations": len(violations),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=120_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    begin = time.perf_counter()
    figures = run(options.files, options.seed, lambda text: print(text, flush=True))
    figures["seconds"] = round(time.perf_counter() - begin, 1)
    text = json.dumps({"model_files": figures}, indent=1) + "\n"
    print(text, end="")
    if options.output is not None:
        options.output.write_text(text)
    return 1 if figures["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
