"""What the command line asks an estimator beyond fitting and predicting."""

from typing import Any


def check_settings(model: Any) -> None:
    """ValueError for settings that cannot work, whatever the data."""
    model._check_settings()


def interrupted(model: Any) -> bool:
    """Whether Ctrl-C ended its fit."""
    return bool(model._interrupted)


def parameter_count(model: Any) -> int:
    """How many numbers were learned, of all members."""
    return sum(array.size for name, array in model._to_state()[0].items() if name.startswith("params."))
