"""Two small models with names that must be escaped, and the pages made of them."""

import numpy as np
import pytest

from tggm import TGGMClassifier, TGGMRegressor
from tggm.report import render_report

NASTY = ("<script>alert(1)</script>", "$x_1$ & co", '"quoted"', "groß \N{SNOWMAN}")


@pytest.fixture(scope="session")
def regression():
    """Model, test rows, training rows; the first feature matters most, the last takes two values."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 4))
    X[:, 3] = X[:, 3] > 0
    y = 3 * X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=160)
    model = TGGMRegressor(hidden=(6, 5), n_members=2, max_epochs=40, random_state=0).fit(X[:96], y[:96])
    return model, (X[96:], y[96:]), (X[:96], y[:96])


@pytest.fixture(scope="session")
def classes():
    """The same for three classes, whose labels are nasty too."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(160, 4))
    label = np.array(["<b>a</b>", "b & c", "$d$"])[np.digitize(X[:, 0] + 0.2 * X[:, 2], (-0.4, 0.4))]
    model = TGGMClassifier(hidden=8, n_members=2, max_epochs=40, random_state=0).fit(X[:96], label[:96])
    return model, (X[96:], label[96:]), (X[:96], label[:96])


@pytest.fixture(scope="session")
def pages(regression, classes):
    """The two reports, by kind."""
    found = {}
    for kind, (model, (X, y), train) in {"regression": regression, "classes": classes}.items():
        words = {"feature_names": NASTY, "target_name": "<i>price</i> & $", "title": "A </title> & more"}
        found[kind] = render_report(model, X, y, train=train, **words)
    return found
