"""Members that see one table in different ways."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from tests.training.straight_line import as_vector, descend, fit
from tggm.training import Rows
from tggm.training.rows import Scaling


class Lowered(NamedTuple):
    by: np.ndarray

    def __call__(self, rows):
        return rows | {"y": rows["y"] - self.by}


def test_each_member_learns_from_what_it_sees(data):
    got = fit(data, 2, view=Lowered(np.array([0.0, 2.0])))
    for member, by in enumerate((0.0, 2.0)):
        want = descend(data | {"y": data["y"] - by}, 5)
        assert_allclose(as_vector(got.params, member), want, rtol=1e-12)


def test_scaling_undoes_a_change_of_units(rng):
    rows = Rows(jnp.asarray(rng.standard_normal((4, 3))), jnp.asarray(rng.standard_normal((4, 1))))
    scaling = Scaling(*(jnp.asarray(a) for a in ([1.0, 2, 3], [2.0, 3, 4], [0.5], [1.5])))
    raw = Rows(rows.X * scaling.x_scale[None] + scaling.x_shift[None], rows.y * 1.5 + 0.5)
    for got, want in zip(scaling(raw), rows, strict=True):
        assert_allclose(got, want, rtol=1e-12)
