"""A process forked from one that has used JAX has none of its threads: nothing it computes would ever end."""

import os
from functools import cache


@cache
def _forks() -> list[int]:
    """Empty in this process, and not in those forked from it from now on."""
    found: list[int] = []
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: found.append(os.getppid()))
    return found


def require_unforked() -> None:
    """Raise where a fit or prediction would wait for ever; called before every one."""
    if _forks():
        raise RuntimeError(
            f"this process was forked from one ({_forks()[-1]}) that had used tggm already, and JAX cannot "
            "go on in it. Spawn processes, by multiprocessing.get_context('spawn') or joblib, or fork "
            "before the first fit or prediction."
        )
