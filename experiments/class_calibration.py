"""Class probabilities with and without a temperature.

    TGGM_DATA=... python experiments/class_calibration.py [--tables titanic,penguins,digits] [--splits 2]

The default `TGGMClassifier` on development tables and on tables that come with scikit-learn, cut 70 : 30 at
random. For each split: log-probability of the labels (NLL), calibration error (ECE) and accuracy on test
rows, of the mixture as it is and with the temperature that held-out training rows chose.
Writes experiments/results/class_calibration.json.
"""

from typing import Any

import numpy as np
from runs import RESULTS, begin, complete, options, origin
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split

from tables import TABLES
from tggm import TGGMClassifier
from tggm.report.scores import class_scores

RESULT = RESULTS / "class_calibration.json"
LOADED = {"digits": load_digits, "cancer": load_breast_cancer, "wines": load_wine}
KEYS = ("log_loss", "ece", "accuracy")


def rows(table: str, split: int) -> tuple[Any, Any, Any, Any]:
    if table in LOADED:
        X, y = LOADED[table](return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=split)
        return X_train, y_train, X_test, y_test
    return tuple(TABLES[table].split(split))


def run(table: str, split: int) -> dict[str, Any]:
    X, y, X_test, y_test = rows(table, split)
    model = TGGMClassifier(random_state=split).fit(X, y)
    found: dict[str, Any] = {}
    calibrated = model.fitted_
    for name, fitted in (("", calibrated), ("raw_", calibrated._replace(calibration=()))):
        model.fitted_ = fitted
        log_p = model.predict_log_proba(X_test)
        scores = {s.key: s.value for s in class_scores(log_p, np.searchsorted(model.classes_, y_test))}
        found |= {name + key: scores[key] for key in KEYS}
    return found | {"numbers": [x for pool in calibrated.calibration for x in pool.numbers], "rows": len(y)}


if __name__ == "__main__":
    begin()
    parser = options(__doc__)
    parser.add_argument("--tables", default="titanic,penguins,digits,cancer,wines")
    parser.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    tasks = [(table, split) for table in given.tables.split(",") for split in range(given.splits)]
    complete(RESULT, origin(settings={}), run, tasks, given.jobs, force=given.force)
