"""Training: one compiled loop for every objective and model."""

from tggm.training.loop import OPTIMISERS, SCHEDULES, Objective, Plan, hyper_parameters
from tggm.training.rows import Rows
from tggm.training.train import CheckpointWarning, Milestones, Observer, Program, Trained, train

__all__ = [
    "OPTIMISERS", "SCHEDULES", "CheckpointWarning", "Milestones", "Objective", "Observer",
    "Plan", "Program", "Rows", "Trained", "hyper_parameters", "train",
]  # fmt: skip
