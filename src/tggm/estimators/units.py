"""Which settings go with hidden units of two limits."""

from collections.abc import Mapping
from typing import Any

from tggm import settings
from tggm.models.hidden import BOXED


def require_boxes(units: str, given: Mapping[str, Any], likelihood: str) -> None:
    """Raise for other settings, `given`, that units with two limits do not go with."""
    several = len(settings.layers(given["hidden"]) or ()) > 1
    wrong = {
        "lateral=0": given.get("lateral", 0) > 0,
        "deep='directed'": several and given["deep"] not in BOXED,
        "method='moments', 'bp' or 'meanfield'": likelihood == "probit" and given["method"] == "ep",
    }
    for remedy, applies in wrong.items():
        if applies:
            raise ValueError(f"`units` = {units!r} needs {remedy}; or pass units='relu'.")
