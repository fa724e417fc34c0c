"""What is said of settings that do not go together, and how to mend them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tggm import settings
from tggm.models.hidden import BOXED, DEEP, HIDDEN
from tggm.training import METHODS

if TYPE_CHECKING:
    from tggm.estimators.recipe import Recipe


def mismatch(recipe: "Recipe") -> ValueError:
    """The error for a model that lacks what its method needs, with the settings that would work."""
    offers = recipe.architecture(1, 1).offers
    remedy = _remedy(recipe, [n for n in recipe.known_methods if METHODS[n].needs in offers])
    method = recipe.given["method"]
    return ValueError(f"{_described(recipe)} cannot be trained with method={method!r}; {remedy}.")


def _described(recipe: "Recipe") -> str:
    given = recipe.given
    if recipe.lateral:
        return f"a model with lateral={given['lateral']!r}"
    alone = recipe.linear and recipe.method.needs in recipe.architecture(1, 1).hidden.offers
    linear = " and linear=True" if alone else ""
    units = "" if recipe.units == "relu" else f" and units={recipe.units!r}"
    return f"a model with hidden={given['hidden']!r} and deep={given['deep']!r}{units}{linear}"


def _remedy(recipe: "Recipe", allowed: list[str]) -> str:
    need, built = recipe.method.needs, recipe.architecture(1, 1)
    *most, last = [f"method={name!r}" for name in sorted(allowed)]
    if recipe.lateral:
        other = "lateral=0"
    elif need in built.hidden.offers:
        other = "linear=False"
    elif need in replace(built, units="relu").offers:
        other = "units='relu'"
    else:
        forms = (f"deep={form!r}" for form in DEEP if need in HIDDEN[form].offers)
        other = next(forms, "one hidden layer")
    return f"pass {', '.join(most)} or {last}, or {other}"


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
