"""A linear model y = w·x + b with squared errors, trained by the loop: small enough to compute by hand."""

from dataclasses import dataclass

import numpy as np

from tggm.training import Plan, Program, hyper_parameters, train
from tggm.training.loop import Layout
from tggm.training.rows import Blocks, RowBlock, membership

ROWS = 20
RUN = ("seed", "checkpoint", "settings", "milestones", "deadline")  # fields of `Program`


@dataclass(frozen=True)
class Squares:
    def __call__(self, params, rows, progress):
        return -0.5 * (rows["y"] - rows["x"] @ params["w"] - params["b"]) ** 2

    def score(self, params, rows):
        return self(params, rows, None)

    def penalty(self, params):
        return 0.5 * (params["w"] ** 2).sum()


def zeros(members):
    return {"w": np.zeros((members, 3)), "b": np.zeros(members)}


def all_rows(members, held=0):
    rows = np.arange(ROWS, dtype=np.int32)
    return membership([(rows[held:], rows[:held])] * members)


def fit(data, members=1, *, objective=None, held=0, batch=ROWS, optimizer="sgd", schedule="constant",
        epochs=5, rows=None, weight=None, capacity=4, averaged=False, blocks=None, observer=None, state=None,
        rates=None, **options):  # fmt: skip
    plan = Plan(Layout.of(zeros(1), axes=1), batch, capacity, optimizer, schedule, averaged)
    run = {name: options.pop(name) for name in RUN if name in options}
    numbers = {"learning_rate": 0.1, "clip": 1e9, **options}
    hyper = hyper_parameters(members, np.ones(4) if rates is None else rates, np.float64, **numbers)
    rows = all_rows(members, held) if rows is None else rows
    blocks = blocks or Blocks.of(RowBlock(rows, data, np.ones(ROWS) if weight is None else weight))
    program = Program(plan, hyper, epochs, objective=objective or Squares(), **run)
    return train(zeros(members), blocks, program, observer, state)


def descend(data, steps, rate=0.1, decay=0.0, weight=None, clip=np.inf, fixed=()):
    """Run full-batch gradient descent in NumPy; `rate` may be a function of the step."""
    X = np.column_stack([np.ones(ROWS), data["x"]])
    weight = np.ones(ROWS) if weight is None else weight
    theta = np.zeros(4)
    for t in range(steps):
        error = X @ theta - data["y"]
        grad = X.T @ (weight * error) / ROWS + decay / ROWS * np.r_[0, theta[1:]]
        grad *= min(1, clip / np.linalg.norm(grad))
        grad[list(fixed)] = 0
        theta = theta - (rate(t) if callable(rate) else rate) * grad
    return theta


def as_vector(params, member=0):
    return np.r_[params["b"][member], params["w"][member]]
