"""How long, how fast and how firmly to train when the settings say "auto"."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tggm.models.initial import NARROW
from tggm.training.membership import bucket

LEAST_STEPS, MOST_STEPS = 5000.0, 60_000.0


class Rules(NamedTuple):
    """What a task does where it may choose."""

    decay: Callable[[int], float]  # weight decay, by the number of features
    steps: Callable[[int], float]  # gradient steps, by the number of rows
    rate: Callable[[float, float], float]  # the learning rate, by itself and the planned steps


def default_batch_size(n_rows: int) -> int:
    """Rows in a mini-batch when `batch_size="auto"`."""
    return int(np.clip(bucket(max(n_rows // 8, 1)), 128, 512))


def default_epochs(n_rows: int, batch_size: int, steps: float) -> int:
    """Epochs when `max_epochs="auto"`: those that so many gradient steps take, and never fewer than 60."""
    return max(60, round(steps * batch_size / max(n_rows, batch_size)))


def growing_steps(n_rows: int) -> float:
    """Five gradient steps a row: on inner hold-outs of the larger UCI tables more of them went on paying.

    ``experiments/tune.py --steps`` compares numbers of steps and rates; experiments/results/tune_steps.json.
    """
    return float(np.clip(5 * n_rows, LEAST_STEPS, MOST_STEPS))


def growing_decay(n_features: int) -> float:
    """Weight decay of a regression: 0.1, chosen on tables of up to 16 columns, and more for wider ones.

    ``experiments/wide.py`` compares rules; with 0.1 predictions for wide tables may be worse than the mean.
    """
    return max(0.1, 0.3 * (n_features - NARROW))


def falling_rate(rate: float, steps: float) -> float:
    """The rate for a longer plan: divided by √k for k times as many steps as the shortest has."""
    return float(rate * np.sqrt(LEAST_STEPS / max(steps, LEAST_STEPS)))


REGRESSION = Rules(growing_decay, growing_steps, falling_rate)
CLASSIFICATION = Rules(lambda d: d / 40, lambda _: LEAST_STEPS, lambda rate, _: rate)
