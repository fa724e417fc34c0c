"""Traced programs kept between processes, so that a later one need not trace them again.

Tracing the default's training program and lowering it takes a second, longer than loading what was compiled
from it. So its StableHLO is stored beside the compiled programs, where those are kept in a folder of ours
(`compilation_cache`). It is found by all that tracing depends on: sources, constants and functions of this
package, versions and settings of JAX, static arguments, shapes. Whatever is not known to be described by
these, such as types of other packages, is traced as ever. A file that cannot be read is written anew.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import jax
import numpy as np

from tggm.blas_lock import factorises
from tggm.products import QUICKLY
from tggm.storage import write_atomically
from tggm.training.compilation_cache import TRACED, folder_in_use

PACKAGE = Path(__file__).parents[1]
TRACED_FROM = ("tggm.models", "tggm.special", "tggm.training", "tggm.predictive.moments")
SETTINGS = ("jax_enable_x64", "jax_default_matmul_precision", "jax_numpy_dtype_promotion")
UNUSUAL = ("jax_default_device", "jax_disable_jit", "jax_debug_nans")
PLAIN = (int, float, str, bytes, tuple, np.number)


class Program(NamedTuple):
    """What is called with the arguments that it was traced for."""

    call: Callable[..., Any]
    factorises: bool


def kept(function: Callable[..., Any], static: tuple[Any, ...], like: Any, arguments: Any) -> Program | None:
    """The program of ``function(*static, *arguments)``; None where none is kept or it cannot be.

    Parameters
    ----------
    function : callable
        What is traced.
    static, arguments : tuple
        What it is called with; the first are hashable, of the second shapes and dtypes count.
    like : pytree
        Something of the structure of its result.
    """
    folder = folder_in_use()
    settings = tuple(getattr(jax.config, name) for name in SETTINGS)
    usual = jax.default_backend() == "cpu" and not any(getattr(jax.config, name) for name in UNUSUAL)
    leaves, tree = jax.tree.flatten(arguments)
    if folder is None or not usual or not all(hasattr(a, "dtype") for a in leaves):
        return None
    traced = Traced(function, static, tree, tuple([(a.shape, a.dtype) for a in leaves]), settings)
    return _found(folder, traced, jax.tree.structure(like))


class Traced(NamedTuple):
    """What is traced, hashable."""

    function: Callable[..., Any]
    static: tuple[Any, ...]
    tree: Any  # of the other arguments
    shapes: tuple[tuple[tuple[int, ...], Any], ...]  # and dtypes
    settings: tuple[Any, ...]

    def flat(self, *leaves: Any) -> tuple[Any, ...]:
        """Arrays to arrays."""
        arguments = jax.tree.unflatten(self.tree, leaves)
        return tuple(jax.tree.leaves(self.function(*self.static, *arguments)))


@cache
def _found(folder: Path, traced: Traced, result: Any) -> Program | None:
    """The program in its file, once in a process, as `jax.jit` does."""
    words = _described(traced)
    if words is None:
        return None
    name = hashlib.sha256(words.encode()).hexdigest()
    path = folder / f"{traced.function.__name__}-{name}{TRACED}"
    with suppress(Exception):  # without a file, or with one that is no program, it is traced as ever
        if not path.exists():
            write_atomically(path, _written(traced))
        return _read(path, result)
    with suppress(OSError):
        path.unlink()
    return None


def _read(path: Path, result: Any) -> Program:
    from jax import export

    content = path.read_bytes()
    digest, flag, body = content[:32], content[32:33], content[33:]
    if hashlib.sha256(flag + body).digest() != digest:
        raise ValueError(f"{path} is damaged")
    os.utime(path)  # it was used
    run = jax.jit(export.deserialize(bytearray(body)).call, compiler_options=QUICKLY)
    return Program(lambda *arguments: result.unflatten(run(*jax.tree.leaves(arguments))), flag == b"\1")


def _written(traced: Traced) -> bytes:
    """What a file holds: a digest, whether the program factorises matrices, and the program."""
    from jax import export

    program = jax.jit(traced.flat)
    arrays = [jax.ShapeDtypeStruct(s, jax.dtypes.canonicalize_dtype(dtype)) for s, dtype in traced.shapes]
    flag = b"\1" if factorises(program.trace(*arrays).jaxpr.jaxpr) else b"\0"
    body = bytes(export.export(program)(*arrays).serialize())
    return hashlib.sha256(flag + body).digest() + flag + body


def _described(traced: Traced) -> str | None:
    """All that tracing depends on in words; None if there may be more."""
    kinds = {*_node_types(traced.tree), *map(type, traced.static), traced.function}
    if not all(kind.__module__.split(".")[0] in ("tggm", "builtins") for kind in kinds):
        return None
    words = [traced.function.__qualname__, *map(repr, traced[1:])]
    words += [f"{name} {version(name)}" for name in ("jax", "jaxlib")]
    text = "\n".join([*words, sys.version, *_sources(), *_contents()])
    return None if " at 0x" in text else text


def _node_types(tree: Any) -> Iterator[type]:
    """Types of all nodes of a tree."""
    data = tree.node_data()
    if data is not None:
        yield data[0]
    for child in tree.children():
        yield from _node_types(child)


def _sources() -> list[str]:
    """The files of this package."""
    found = ((path, path.stat()) for path in PACKAGE.rglob("*.py"))
    return sorted(f"{path} {status.st_size} {status.st_mtime_ns}" for path, status in found)


def _contents() -> Iterator[str]:
    """Constants and functions of what is traced, as they are now: somebody may have replaced them."""
    for name in sorted(name for name in sys.modules if name.startswith(TRACED_FROM)):
        yield from _members(name, vars(sys.modules[name]))


def _members(home: str, names: dict[str, Any]) -> Iterator[str]:
    for name, value in list(names.items()):
        code = getattr(value, "__code__", None)
        if isinstance(value, PLAIN) and not name.startswith("__"):
            yield f"{home}.{name} {value!r}"
        elif isinstance(value, FunctionType) and code is not None:
            digest = hashlib.sha256(code.co_code).hexdigest()
            yield f"{home}.{name} {code.co_filename} {code.co_firstlineno} {digest}"
        elif isinstance(value, type) and value.__module__ == home:
            yield from _members(f"{home}.{name}", dict(vars(value)))
