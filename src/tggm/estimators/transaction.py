"""Methods that leave an estimator as it was where they fail."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def intact(method: Callable[P, R]) -> Callable[P, R]:
    """Where this method fails, its estimator stays what it was: no old model with the names of a new one."""

    @wraps(method)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        state = vars(args[0])
        before = dict(state)
        try:
            return method(*args, **kwargs)
        except Exception:
            state.clear()
            state.update(before)
            raise

    return guarded
