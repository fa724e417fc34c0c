"""Files that once loaded and then misbehaved, or took long to refuse: each must stay right.

An entry is the kind of file, what was changed, and the verdict that is expected now.
"""

import numpy as np
from tools.fuzz.mutations import Contents


def entry(name, value, first=None):
    """An array filled with a value, or the first items of it; or, for a path, an entry of the description."""

    def change(file):
        if name in file.arrays:
            file.arrays[name] = file.arrays[name].copy()
            file.arrays[name].reshape(-1)[:first] = value
            return
        node = file.model
        *path, last = name.split("/")
        for key in path:
            node = node[_key(node, key)]
        node[_key(node, last)] = value

    return change


def _key(node, key):
    return int(key) if isinstance(node, list) else key


STUDENT = [["student", 1.0, 0.5, 0.1]]
PAST = {
    "a logarithm of 1e59": ("log", [entry("y.shift", 1e59)], "loaded"),
    "a logarithm of -1e30": ("log", [entry("y.shift", -1e30)], "loaded"),
    "a logarithm's scale": ("log", [entry("y.scale", 1e150)], "loaded"),
    "little noise under a logarithm": ("log", [entry("model.likelihood.log_noise", -30.0)], "loaded"),
    "heavy tails under a logarithm": ("log", [entry("state/calibration", STUDENT)], "refused"),
    "huge waves of classes": ("classes", [entry("model.features.E", 1e10)], "loaded"),
    "huge linear part of classes": ("classes", [entry("model.likelihood.output.A", 1e10, 6)], "loaded"),
    "1e59 in double precision": ("two deep", [entry("model.likelihood.output.W1", 1e59, 1)], "refused"),
    "1e59 in the first layer": ("two deep", [entry("model.hidden.W0", 1e59, 3)], "refused"),
    "frequencies of 1e59": ("two deep", [entry("model.features.c", -1e59)], "refused"),
    "strong lateral connections": ("lateral", [entry("model.hidden.V", 2e4)], "refused"),
    "strong layers": ("undirected", [entry("model.hidden.W.0", 1e4)], "refused"),
    "far locations of layers": ("undirected classes", [entry("model.features.E", 1e10)], "refused"),
    "no noise of lateral units": ("lateral", [entry("model.likelihood.log_noise", -600.0, 1)], "loaded"),
    "a target far from zero": ("bounded", [entry("y.shift", 1e300)], "loaded"),
    "large weights of a pool": ("bounded", [entry("model.likelihood.output.W1", 1e10, 1)], "loaded"),
    "more rows of a word than floats": ("table", [entry("table/columns/3/counts/0", 10**400)], "refused"),
    "a negative count of rows": ("class table", [entry("table/columns/3/counts/0", -3)], "refused"),
    "infinite scores of rows set aside": ("bounded", [entry("guarantee.scores", np.inf)], "loaded"),
    "large scores of rows set aside": (
        "bounded",
        [entry("guarantee.scores", 1e300), entry("y.scale", 1e150)],
        "loaded",
    ),
    "no noise and no weights": (
        "two undirected",
        [entry("model.likelihood.log_noise", -600.0), entry("model.likelihood.output.W1", 1e-38)],
        "loaded",
    ),
    "a version that is no word": ("one", [entry("version", {})], "refused"),
    "a section that is none": ("one", [entry("more", 1)], "refused"),
}


def past(name, files):
    """The content of such a file and the verdict that is expected."""
    kind, changes, expected = PAST[name]
    file = Contents(files[kind])
    for change in changes:
        change(file)
    return file.sealed(), expected
