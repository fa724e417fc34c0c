"""What the share of logistic regression is worth to a classifier.

    TGGM_DATA=... python experiments/class_fallback.py [--tables iris,autos] [--splits 2]

The default `TGGMClassifier` on tables that come with scikit-learn, on development tables of classes, and on
those of numbers with targets cut into three parts of equal size; rows are cut 70 : 30 at random. One fit
gives log-loss and share of wrong labels of test rows with the fallback and without it.
Writes experiments/results/class_fallback.json.
"""

from typing import Any

import numpy as np
from class_calibration import LOADED
from runs import RESULTS, begin, complete, options, origin
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split

from tables import TABLES
from tggm import TGGMClassifier
from tggm.estimators.fitted import Fitted

RESULT = RESULTS / "class_fallback.json"
LOADERS = {**LOADED, "iris": load_iris}
NAMES = (
    "iris,wines,cancer,penguins,titanic,autos,machine,servo,breastcancer,concreteslump,pendulum,mpg,tips,"
    "diabetes,friedman1,heavy,noise,digits"
)


class Compared(TGGMClassifier):
    """Keeps what it would be without the fallback, too."""

    plain: Fitted

    def refined(self, fitted: Fitted, begun: Any, block: Any) -> Fitted:
        """Both ways."""
        linear, begun.recipe.linear = begun.recipe.linear, False
        self.plain = super().refined(fitted, begun, block)
        begun.recipe.linear = linear
        return super().refined(fitted, begun, block)


def rows(table: str) -> tuple[Any, np.ndarray]:
    """Inputs and the numbers of classes."""
    if table in LOADERS:
        X, y = LOADERS[table](return_X_y=True)
        return X, y
    split, task = TABLES[table].split(0), TABLES[table].task
    y = np.asarray(split.y_train)
    parts = y if task == "classification" else np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    return split.X_train, np.unique(parts, return_inverse=True)[1]


def run(table: str, split: int) -> dict[str, Any]:
    X, y = rows(table)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, random_state=split, stratify=y)
    model = Compared(random_state=split).fit(X, y)
    found: dict[str, Any] = {"rows": len(y)}
    for name, fitted in (("", model.fitted_), ("plain_", model.plain)):
        model.fitted_ = fitted
        log_p = model.predict_log_proba(X_test)
        found[name + "log_loss"] = -float(log_p[np.arange(len(y_test)), y_test].mean())
        found[name + "error"] = float((log_p.argmax(1) != y_test).mean())
    return found


if __name__ == "__main__":
    begin()
    parser = options(__doc__)
    parser.add_argument("--tables", default=NAMES)
    parser.add_argument("--splits", type=int, default=2)
    given = parser.parse_args()
    tasks = [(table, split) for split in range(given.splits) for table in given.tables.split(",")]
    complete(
        RESULT, origin(settings={"seed": "number of the split"}), run, tasks, given.jobs, force=given.force
    )
