"""Parts of a model: frozen dataclasses that are JAX pytrees."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")
PARTS: dict[str, type[Any]] = {}  # by class name: a model file names the parts of its model


@dataclass_transform(frozen_default=True, eq_default=False)
def part(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are arrays or parts, in this order, and register its name."""
    made = dataclass(frozen=True, eq=False)(cls)
    names = [field.name for field in fields(made)]  # type: ignore[arg-type]  # a dataclass since the last line
    jax.tree_util.register_dataclass(made, data_fields=names, meta_fields=[])
    PARTS[cls.__name__] = made
    return made
