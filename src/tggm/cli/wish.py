"""What the user asked a fit for, and the estimator that does it."""

import re
from ast import literal_eval
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from tggm.cli.errors import CommandError

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

_OPTION = re.compile(r"`(?:n_|max_)?(\w+?)(?:_budget)?`")  # a setting as messages of estimators name it
_ONE_LAYER = ("ep", "exact")  # methods of models with one hidden layer
QUICK_STEPS = 2000.0  # of the gradient, for a first look


@dataclass(frozen=True)
class Wish:
    """What the user asked for; None leaves the choice to us."""

    target: str
    task: str | None = None
    method: str = "moments"
    hidden: tuple[int, ...] | None = None
    members: int | None = None
    epochs: int | None = None
    seed: int = 0
    test_size: float = 0.2
    ignore: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    quick: bool = False
    class_weight: str | None = None
    settings: tuple[str, ...] = ()  # as name=value
    guarantee: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.test_size < 1:
            raise CommandError(
                f"--test-size must be at least 0 and less than 1, as 0.2; got {self.test_size:g}."
            )


def setting(text: str, model: "BaseEstimator") -> tuple[str, Any]:
    """A setting of an estimator as --set has it: a number, True, None, a tuple, or a word."""
    name, mark, word = text.partition("=")
    known = sorted(set(model.get_params()) - {"checkpoint", "random_state", "verbose", "warm_start"})
    if not mark or name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"settings are {', '.join(known)}."
        raise CommandError(f"--set takes name=value, with the name of a setting; got {text!r}; {hint}")
    try:
        return name, literal_eval(word)
    except (ValueError, SyntaxError):
        return name, word


def as_options(text: str) -> str:
    """A message of an estimator with options of the command line for its settings."""
    return _OPTION.sub(r"--\1", text)


def estimator(wish: Wish, is_class: bool, n_rows: int) -> Any:
    """An unfitted estimator with the settings asked for, or those that suit so many rows."""
    from tggm.estimators import TGGMClassifier, TGGMRegressor
    from tggm.estimators.recipe import default_batch_size, default_epochs

    if len(wish.hidden or ()) > 1 and wish.method in _ONE_LAYER:
        raise CommandError(
            f"--hidden with several layers needs --method bp, meanfield, moments; got {wish.method!r}."
        )
    members = 3 if wish.quick else 10 if n_rows < 50_000 and not is_class else 5
    epochs = default_epochs(n_rows, default_batch_size(n_rows), QUICK_STEPS) if wish.quick else "auto"
    kind: Any = TGGMClassifier if is_class else TGGMRegressor
    if is_class and wish.guarantee is not None:
        raise CommandError("--guarantee is for intervals of a regression; leave it out for classes.")
    more = {} if wish.guarantee is None else {"guarantee": wish.guarantee}
    model = kind(
        hidden=wish.hidden or "auto",
        method=wish.method,
        n_members=members if wish.members is None else wish.members,
        max_epochs=epochs if wish.epochs is None else wish.epochs,
        patience="auto",
        random_state=wish.seed,
        **more,
    )
    if wish.class_weight is not None and not is_class:
        raise CommandError("--class-weight is for classes, but the target is a number; leave it out.")
    given = dict(setting(text, model) for text in wish.settings)
    if wish.class_weight is not None:
        given["class_weight"] = wish.class_weight
    try:
        model.set_params(**given).check_settings()
    except ValueError as error:
        raise CommandError(as_options(str(error))) from None
    return model
