"""`tggm info`: what is in a model file."""

import json
from typing import TYPE_CHECKING

from tggm.cli import options
from tggm.cli.files import check_output, read_model, write_result

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator

    from tggm.tables import Preparation


def info(
    model: options.Model,
    output: options.Output = "-",
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Show what is in a model file.

    What the model predicts, from which columns, how it was fitted and how good it was.
    """
    check_output(output, force, model)
    fitted, preparation = read_model(model)
    write_result(output, _json(fitted, preparation) if as_json else _text(fitted, preparation))


def _json(model: "BaseEstimator", preparation: "Preparation") -> str:
    from tggm.settings import plain
    from tggm.tables import preparation_to_json

    facts = {"class": type(model).__name__, "parameters": model.n_parameters_, "epochs": model.n_iter_}
    settings = {name: plain(value) for name, value in model.get_params().items() if name != "checkpoint"}
    table = preparation_to_json(preparation)
    del table["baselines"]  # long, and for tggm evaluate only
    return json.dumps({**facts, "settings": settings, "table": table}, indent=1) + "\n"


def _text(model: "BaseEstimator", preparation: "Preparation") -> str:
    from tggm.cli.figures import figures_table

    target, fitted = preparation.target, preparation.fitted
    lines = [
        f"{type(model).__name__}: {target.task} of {target.name!r}",
        f"method {model.method}, hidden {model.layers_}, {model.n_members} members, {model.n_iter_} epochs, "
        f"{model.n_parameters_:,} parameters",
    ]
    if target.is_class:
        lines.append("classes: " + ", ".join(map(str, model.classes_.tolist())))
    lines += ["", "columns:", *(f"  {column.name}: {column.description}" for column in preparation.columns)]
    if preparation.left_out:
        lines += ["", "left out:", *(f"  {name}: {why}" for name, why in preparation.left_out)]
    if fitted is not None:
        lines += [
            "",
            f"fitted to {fitted.rows} rows of {fitted.source} in {fitted.seconds:.1f} s, seed {fitted.seed}",
        ]
        if fitted.figures:
            lines += [f"on {fitted.held_out} held-out rows:", "", figures_table(fitted.figures)]
    return "\n".join(lines) + "\n"
