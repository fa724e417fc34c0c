"""What the parts of a model are made of: frozen dataclasses that JAX takes apart and puts together."""

from dataclasses import dataclass, fields
from typing import TypeVar, dataclass_transform

import jax

T = TypeVar("T")


@dataclass_transform(frozen_default=True, eq_default=False)
def part(cls: type[T]) -> type[T]:
    """A frozen dataclass whose fields are its arrays (or parts of its own), in the order they are written."""
    made = dataclass(frozen=True, eq=False)(cls)
    names = [field.name for field in fields(made)]  # type: ignore[arg-type]  # a dataclass since the last line
    jax.tree_util.register_dataclass(made, data_fields=names, meta_fields=[])
    return made


class MissingCapabilityError(TypeError):
    """A part was asked for what it does not offer."""
