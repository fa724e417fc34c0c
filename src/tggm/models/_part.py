"""Parts of a model: frozen dataclasses that are JAX pytrees."""

from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import jax

T = TypeVar("T")
PARTS: dict[str, type[Any]] = {}  # by class name: a model file names the parts of its model


def register_fields(kind: type[Any], names: list[str]) -> None:
    """Register a class as a pytree of these fields.

    The class is part of the tree structure. Structures of `jax.tree_util.register_dataclass` are equal if the
    field names are, and one class would run the compiled program of another.
    """
    key = jax.tree_util.GetAttrKey

    def flatten(value: Any) -> tuple[list[Any], type[Any]]:
        return [(key(name), getattr(value, name)) for name in names], kind

    jax.tree_util.register_pytree_with_keys(kind, flatten, lambda _, leaves: kind(*leaves))


@dataclass_transform(frozen_default=True, eq_default=False)
def part(cls: type[T]) -> type[T]:
    """Make a frozen dataclass whose fields are arrays or parts, in this order, and register its name."""
    made = dataclass(frozen=True, eq=False)(cls)
    names = [field.name for field in fields(made)]  # type: ignore[arg-type]  # a dataclass since the last line
    register_fields(made, names)
    PARTS[cls.__name__] = made
    return made
