"""Measure what parts of the default regression pipeline gain on the development tables.

    TGGM_DATA=... PYTHONPATH=src python experiments/ablation.py [--splits 5] [--one-layer]
    python experiments/ablation.py --show

This script runs on commit 3ff6eb3, the last one that has all of these parts. One fit yields several variants,
because the parts act after training; `no-yeo-johnson` needs a second fit where that transform is chosen.

- no-fallback: no blend with a ridge regression after training;
- no-shaped: the error distribution stays a Student-t;
- no-scales: a Gaussian instead of the pool `scales` (only under Yeo-Johnson);
- no-yeo-johnson: the target is modelled as it is, or as its logarithm;
- no-temperature (classifiers): probabilities of the mixture as they are.

`--one-layer` compares, for ``hidden=(50,)``, the pools of exact densities (`linear`, `beta`) with the
Student-t pool that all other models have. The number of a split is also the seed. Runs go to
experiments/results/ablation_raw.json after each fit, and are not made again; ablation.json has one line for
each variant of a run.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from defaults import judged
from opponents import class_figures
from runs import RESULTS, begin, complete, key, origin, read
from tggm.predictive.moment import MomentPredictive
from tggm.predictive.moments import member_moments

from tables import LARGE, SMALL, SPLITS, TABLES
from tggm import TGGMClassifier, TGGMRegressor
from tggm.estimators import linear_part, logistic
from tggm.predictive import calibration, choice, transform_choice
from tggm.predictive.transforms import IdentityTransform

RAW, OUT = RESULTS / "ablation_raw.json", RESULTS / "ablation.json"
BY_ROWS = (
    "ames",
    "gas",
    "sml",
    "bike",
    "tamielectric",
    "kin40k",
)  # large regression tables, smallest fits first
VARIANTS = ("no-fallback", "no-shaped", "no-scales", "no-yeo-johnson", "student-pool", "no-temperature")
METRICS = ("ll", "crps", "rmse")


@contextmanager
def replaced(module: Any, **new: Any) -> Iterator[None]:
    """Replace module attributes for the duration of a block."""
    old = {name: getattr(module, name) for name in new}
    try:
        for name, value in new.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in old.items():
            setattr(module, name, value)


def light_student(model: Any, transform: Any, held: list[Any]) -> tuple[Any, ...]:
    """Calibrate with Gaussians."""
    return tuple(calibration.fitted(each, kinds=("student",), light_tails=True) for each in held)


def student(model: Any, transform: Any, held: list[Any]) -> tuple[Any, ...]:
    """Calibrate a one-layer model as models with several layers are."""
    light = transform is not None
    return tuple(calibration.fitted(each, kinds=("student",), light_tails=light) for each in held)


class Ablated(TGGMRegressor):
    """Keep the fits of all variants that share the training, in `variants_`."""

    def refined(self, fitted: Any, begun: Any, block: Any) -> Any:
        """Blend and calibrate in each way."""
        usual = super().refined
        self.variants_ = {}
        with replaced(linear_part, LEAST_SHARE=2.0):
            self.variants_["no-fallback"] = usual(fitted, begun, block)
        if "sum" in fitted.model.hidden.offers:
            with replaced(calibration, calibrations=student):
                self.variants_["student-pool"] = usual(fitted, begun, block)
            return usual(fitted, begun, block)
        with replaced(calibration, _bent=lambda pool, rows: pool):
            self.variants_["no-shaped"] = usual(fitted, begun, block)
        if fitted.transform is not None and not fitted.transform.exponential:
            with replaced(calibration, calibrations=light_student):
                self.variants_["no-scales"] = usual(fitted, begun, block)
        return usual(fitted, begun, block)


class AblatedClassifier(TGGMClassifier):
    """Keep the fit without a temperature, in `variants_`."""

    def refined(self, fitted: Any, begun: Any, block: Any) -> Any:
        """Blend and calibrate in each way."""
        with replaced(logistic, fitted_temperature=lambda *_: ()):
            plain = super().refined(fitted, begun, block)._replace(calibration=())
        self.variants_ = {"no-temperature": plain}
        return super().refined(fitted, begun, block)


def moments_only(members: Any, X: Any, j: int, engine: Any, shift: Any, scale: Any) -> MomentPredictive:
    """Describe each member by its mean and variance."""
    mean, var = member_moments(members, X, engine, members.likelihood.output.b1.dtype)
    return MomentPredictive(mean[:, :, j], var[:, :, j], loc=float(shift[j]), scale=float(scale[j]))


def figures(model: Any, split: Any) -> dict[str, float]:
    """Score one model on the test part."""
    if isinstance(model, TGGMClassifier):
        return class_figures(split.y_test, model.classes_, model.predict_proba(split.X_test))
    scores = judged(model.predict_dist(split.X_test), split.y_test)
    return {name: scores[name] for name in METRICS}


def work(table: str, design: str, k: int) -> dict[str, Any]:
    """Fit one split of one table and score all variants; differences are to the default."""
    warnings.simplefilter("ignore")
    split, clock = TABLES[table].split(k), time.perf_counter()
    if TABLES[table].task == "classification":
        classifier = AblatedClassifier(random_state=k).fit(split.X_train, split.y_train)
        run = {"fit_s": time.perf_counter() - clock, "default": figures(classifier, split)}
        run["temperature"] = [x for each in classifier.fitted_.calibration for x in each.numbers]
        classifier.fitted_ = classifier.variants_["no-temperature"]
        return run | {"no-temperature": figures(classifier, split)}
    settings = {"random_state": k} | ({"hidden": (50,)} if design == "one-layer" else {})
    model = Ablated(**settings).fit(split.X_train, split.y_train)
    default, run = model.fitted_, {"fit_s": time.perf_counter() - clock}
    run["transform"] = "identity" if default.transform is None else default.transform.kind
    run["pool"] = [each.kind for each in default.calibration]
    run["default"] = figures(model, split)
    run["share"] = bool(not _same(default.model, model.variants_["no-fallback"].model))
    for name, fitted in model.variants_.items():
        model.fitted_ = fitted
        with replaced(choice, marginal=moments_only if name == "student-pool" else choice.marginal):
            run[name] = figures(model, split)
    if run["transform"] == "yeo-johnson" and design == "default":
        with replaced(transform_choice, _best_power=lambda *_: IdentityTransform()):
            other = Ablated(**settings).fit(split.X_train, split.y_train)
        run["no-yeo-johnson"] = figures(other, split)
    return run


def _same(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(a, b) for a, b in zip(one.arrays().values(), other.arrays().values(), strict=True)
    )


def plan(splits: int, one_layer: bool) -> list[tuple[str, str, int]]:
    """List runs: small tables first, then large ones split by split."""
    small = [name for name in SMALL if TABLES[name].task == "regression"]
    assert set(BY_ROWS) == {name for name in LARGE if TABLES[name].task == "regression"}
    if one_layer:
        return [(table, "one-layer", k) for k in range(splits) for table in small]
    classes = [name for name in TABLES if TABLES[name].task == "classification"]
    groups = small, BY_ROWS[:1], classes[:2], BY_ROWS[1:], classes[2:]
    return [(table, "default", k) for group in groups for k in range(splits) for table in group]


def store(record: dict[str, Any]) -> None:
    """Write one line for each variant of each run."""
    lines = []
    for name, run in record["runs"].items():
        table, design, k = name.split()
        facts = {"commit": run["commit"], "machine": run["device"]}
        for variant in ("default", *VARIANTS):
            if variant in run:
                known = {"table": table, "design": design, "split": int(k), "variant": variant}
                lines.append(json.dumps({**known, **run[variant], **facts}))
    head = {key: record[key] for key in ("command", "settings")}
    text = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    OUT.write_text("{\n" + text + ',\n "runs": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n")


def show(record: dict[str, Any]) -> None:
    """Print default minus variant, mean over splits, for each table, and the mean over tables."""
    runs = record.get("runs", {})
    for variant in VARIANTS:
        design = "one-layer" if variant == "student-pool" else "default"
        print(f"\n{variant}: default minus variant (log-likelihood, nats), then variant / default − 1 (%)")
        print("of CRPS and RMSE, or of the classification error")
        rows = []
        for table, known in TABLES.items():
            if (known.task == "classification") != (variant == "no-temperature"):
                continue
            made = [runs[key((table, design, k))] for k in range(SPLITS) if key((table, design, k)) in runs]
            if not made:
                continue
            metrics = METRICS if known.task == "regression" else ("ll", "error", "error")
            pairs = [(run["default"], run.get(variant, run["default"])) for run in made]
            row = (
                np.mean([a["ll"] - b["ll"] for a, b in pairs]),
                *(
                    100 * (sum(b[m] for _, b in pairs) / max(sum(a[m] for a, _ in pairs), 1e-300) - 1)
                    for m in metrics[1:]
                ),
            )
            rows.append(row)
            if any(abs(x) > 5e-4 for x in row):
                print(f"{table:16s}{len(made):2d} splits {row[0]:9.4f} {row[1]:8.2f} {row[2]:8.2f}")
        if rows:
            ll, crps, rmse = np.mean(rows, axis=0)
            print(f"{'mean':16s}{len(rows):2d} tables {ll:9.4f} {crps:8.2f} {rmse:8.2f}")


def main() -> None:
    """Run what is missing, then print the differences."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--splits", type=int, default=SPLITS)
    p.add_argument("--one-layer", action="store_true")
    p.add_argument("--show", action="store_true", help="only print what is stored")
    args = p.parse_args()
    begin()
    if not args.show:
        made_by = origin(settings={"seed": "number of the split"})
        complete(RAW, made_by, work, plan(args.splits, args.one_layer), jobs=1)
        store(read(RAW))
    show(read(RAW))


if __name__ == "__main__":
    main()
