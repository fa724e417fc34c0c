"""What a user is told of a training that did not go as planned."""

import sys
import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from tggm.training import Training


def report(result: Training, n_members: int, learning_rate: float) -> None:
    """Warn of members that failed or often went back, and say that training was interrupted."""
    steps = int(np.max(result.state.step))
    if result.failed.any():
        warnings.warn(
            f"training failed: the objective of {int(result.failed.sum())} of {n_members} members"
            " was not finite in many steps in a row; their best parameters before that were kept. Lower "
            f"`learning_rate` ({learning_rate:g}), raise `weight_decay`, or use dtype='float64'.",
            ConvergenceWarning,
            stacklevel=5,
        )
    elif result.undone.max(initial=0) > 0.01 * max(steps, 1):
        warnings.warn(
            f"{int(result.undone.max())} times in {steps} steps training led to numbers that are not "
            f"finite or to a collapse, and was taken back; lower `learning_rate` "
            f"({learning_rate:g}).",
            ConvergenceWarning,
            stacklevel=5,
        )
    if result.interrupted:
        sys.stderr.write(
            f"Interrupted after {result.train.shape[1]} epochs; the best parameters so far are kept.\n"
        )
