"""Damage model files; each must be rejected, or load and give finite predictions.

    python -m tools.fuzz_model_files [--files 100000] [--seed 0]

Files of a regressor, a classifier and a model of a data frame are damaged in two ways. *Bytes*: flipped, cut,
inserted or spliced; no such file may load. *Contents*: values, shapes, names and settings are changed under a
correct checksum; such a file is rejected with `ModelFileError`, or its predictions are finite or end with a
ValueError about the rows. Anything else is a violation.
"""

import argparse
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tggm
from tggm import ModelFileError, TGGMClassifier, TGGMRegressor
from tggm.storage import decode, encode

SIZES = (0.0, 5e-324, 1e-300, 1e-38, 1e-6, 1.0, 30.0, 1e6, 1e15, 1e59, 1e300, np.nan, np.inf)
STRANGE = [
    None, True, -1, 0, 2**31, 2**63, 1e308, -1e-320, "", "auto", "../../etc/passwd", "\0", "float16", [],
    [[]], {}, {"a": 1}, [2**62, 2**62], [-1], "9" * 5000, 10**400,
]  # fmt: skip
FRAME = pd.DataFrame({"a": [1.5, None, -2.0, 3.0] * 10, "b": ["u", "v", "w", None] * 10})


def originals() -> dict[str, tuple[bytes, Any]]:
    """Return undamaged files and rows to predict, by name."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 2)), rng.normal(size=40)
    small = {"hidden": (3, 2), "n_members": 2, "max_epochs": 2, "random_state": 0}
    models = {
        "regressor": (TGGMRegressor(**small).fit(X, y), X[:3]),
        "classifier": (TGGMClassifier(**small).fit(X, y > 0), X[:3]),
        "frame": (TGGMRegressor(**small).fit(FRAME, y), FRAME[:3]),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.tggm")
        found = {}
        for name, (model, rows) in models.items():
            tggm.save(model, path)
            found[name] = path.read_bytes(), rows
    return found


def damaged_bytes(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """Flip, cut, insert or splice bytes."""
    found = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 30))):
        at = rng.randrange(len(found)) if found else 0
        match rng.randrange(4):
            case 0:
                found[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del found[at:]
            case 2:
                found[at:at] = rng.randbytes(rng.randrange(1, 40))
            case _:
                found[at:] = other[rng.randrange(len(other)) :]
    return bytes(found)


def changed_contents(rng: random.Random, content: bytes, other: bytes) -> bytes:
    """Change arrays and settings, and encode them with a correct checksum."""
    arrays, model = decode(content)
    arrays = {name: np.array(a) for name, a in arrays.items()}
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice(sorted(arrays))
        match rng.randrange(6):
            case 0 | 1 if arrays[name].size:
                flat = arrays[name].reshape(-1)
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    value = np.array(rng.choice((-1, 1)) * rng.choice(SIZES)).astype(flat.dtype)
                flat[rng.choice((slice(None), slice(rng.randrange(flat.size), None), 0))] = value
            case 2:
                arrays[name] = arrays[name].reshape(-1)[: rng.randrange(arrays[name].size + 1)]
            case 3:
                theirs = decode(other)[0]
                arrays[name] = theirs[rng.choice(sorted(theirs))]
            case 4 if len(arrays) > 1:
                del arrays[name]
            case _:
                change_setting(rng, model)
    return encode(arrays, model)


def change_setting(rng: random.Random, node: Any) -> None:
    """Replace a random leaf of nested dictionaries and lists by a strange value."""
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if not isinstance(node[key], dict | list) or not node[key] or rng.random() < 0.1:
            node[key] = rng.choice(STRANGE)
            return
        node = node[key]


def verdict(content: bytes, rows: Any) -> str:
    """Return "refused", "loaded", or a description of the violation."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        path = Path(folder, "m.tggm")
        path.write_bytes(content)
        try:
            model = tggm.load(path)
        except ModelFileError:
            return "refused"
        except Exception as error:
            return f"{type(error).__name__} while loading: {error}"
        try:
            found = model.predict_proba(rows) if hasattr(model, "predict_proba") else model.predict(rows)
        except ValueError:
            return "loaded"
        except Exception as error:
            return f"{type(error).__name__} while predicting: {error}"
    return "loaded" if np.isfinite(np.asarray(found)).all() else "a prediction is not finite"


def run(files: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """Damage this many files; return the counts of verdicts and the violations."""
    known, counts, violations = originals(), Counter[str](), []
    for number in range(files):
        rng = random.Random(f"{seed} {number}")
        kind, damage = (("bytes", damaged_bytes), ("contents", changed_contents))[number % 2]
        (content, rows), (other, _) = (known[name] for name in rng.choices(sorted(known), k=2))
        try:
            changed = damage(rng, content, other)
        except (ValueError, TypeError, OverflowError):  # cannot be encoded
            continue
        if changed == content:
            continue
        found = verdict(changed, rows)
        counts[f"{kind} {found}" if found in ("refused", "loaded") else f"{kind} violations"] += 1
        if found not in ("refused", "loaded") or (kind, found) == ("bytes", "loaded"):
            violations.append(f"file {number} of seed {seed}, {kind}: {found}")
            print(violations[-1], flush=True)
    return counts, violations


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts, violations = run(options.files, options.seed)
    print(dict(counts))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
