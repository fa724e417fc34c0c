"""Two small models with names that need escaping, their pages, and a parser for pages."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from tggm import TGGMClassifier, TGGMRegressor
from tggm.report import render_report

SPECIAL_NAMES = ("<script>alert(1)</script>", "$x_1$ & co", '"quoted"', "groß \N{SNOWMAN}")
VOID = {"meta", "br", "hr", "img", "link", "input"}


class Tree(HTMLParser):
    """Collect elements as [tag, attributes, text, parents]; raise if tags are not nested properly."""

    def __init__(self, page):
        super().__init__()
        self.elements, self._open = [], []
        self.feed(page)
        assert not self._open, f"not closed: {[e[0] for e in self._open]}"

    def handle_starttag(self, tag, attributes):
        element = [tag, dict(attributes), "", [e[0] for e in self._open]]
        assert len(attributes) == len(element[1]), f"duplicate attribute: {attributes}"
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag

    def handle_data(self, data):
        for element in self._open:
            element[2] += data

    def all(self, tag):
        return [element for element in self.elements if element[0] == tag]


@pytest.fixture(scope="session")
def regression():
    """Return model, test rows and training rows; the first feature has the largest effect."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 4))
    X[:, 3] = X[:, 3] > 0
    y = 3 * X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=160)
    X = pd.DataFrame(X, columns=SPECIAL_NAMES)
    model = TGGMRegressor(hidden=(6, 5), n_members=2, max_epochs=40, random_state=0).fit(X[:96], y[:96])
    return model, (X[96:], y[96:]), (X[:96], y[:96])


@pytest.fixture(scope="session")
def classes():
    """Return the same for three classes with labels that need escaping."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(160, 4))
    label = np.array(["<b>a</b>", "b & c", "$d$"])[np.digitize(X[:, 0] + 0.2 * X[:, 2], (-0.4, 0.4))]
    X = pd.DataFrame(X, columns=SPECIAL_NAMES)
    model = TGGMClassifier(hidden=8, n_members=2, max_epochs=40, random_state=0).fit(X[:96], label[:96])
    return model, (X[96:], label[96:]), (X[:96], label[:96])


@pytest.fixture(scope="session")
def pages(regression, classes):
    """Return the two reports by kind."""
    found = {}
    for kind, (model, (X, y), train) in {"regression": regression, "classes": classes}.items():
        names = {"target_name": "<i>price</i> & $", "title": "A </title> & more"}
        found[kind] = render_report(model, X, y, train=train, **names)
    return found
