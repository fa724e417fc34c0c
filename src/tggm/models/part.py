"""What the parts of a model are made of: frozen dataclasses that JAX takes apart and puts together.

A template is a part whose arrays have a shape and take no memory: what a model of given sizes consists of.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, TypeVar, dataclass_transform

import jax
import numpy as np

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


Zeros = Callable[..., Any]  # sizes of the axes in, an array out


def shapes_only(members: int) -> Zeros:
    """A maker of arrays of one repeated zero, with a leading axis of members."""
    zero = np.zeros((), np.float32)
    return lambda *shape: np.broadcast_to(zero, (members, *shape))
