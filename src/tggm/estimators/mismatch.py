"""What is said of a model that lacks what its method needs, and how to mend it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from tggm.models.hidden import DEEP, HIDDEN
from tggm.training import METHODS

if TYPE_CHECKING:
    from tggm.estimators.recipe import Recipe


def mismatch(recipe: "Recipe") -> ValueError:
    """The error, with the settings that would work."""
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
