"""The page of `tggm serve` in a browser: pictures follow sliders, tables are listed, nothing overflows."""

import time
import warnings
from contextlib import contextmanager

import numpy as np
import pytest

from tests.cli.test_serve import running
from tests.deployment.fits import SETTINGS, table, table_model
from tests.report import chromium
from tggm import TGGMClassifier, save
from tggm.cli.server import read_served_model

pytestmark = pytest.mark.skipif(
    chromium.found() is None, reason="no Chromium here (on Debian: apt install chromium)"
)
WIDTHS = pytest.mark.parametrize("width", [390, 1400])
LONG = "a_class_with_a_name_that_has_no_place_where_a_line_could_end"
TEXT = "document.getElementById('%s').textContent"
PATH = "document.querySelector('#plot .curve').getAttribute('d')"
SLIDE = """
(() => {
  const slider = document.querySelector("input[type=range]");
  slider.value = %s;
  slider.dispatchEvent(new Event("input"));
  return document.getElementById("c0").value;
})()
"""
UNNAMED = """
Array.from(document.querySelectorAll("input, select"))
  .filter(e => !e.labels.length && !e.getAttribute("aria-label")).map(e => e.outerHTML)
"""


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    yield from served(tmp_path_factory, table_model)


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    frame = table(60)[["size", "kind"]]
    label = np.array([LONG, "b", "<i>c</i>"])[np.arange(60) % 3]
    yield from served(tmp_path_factory, lambda: TGGMClassifier(**SETTINGS).fit(frame, label))


def served(tmp_path_factory, make):
    path = tmp_path_factory.mktemp("page") / "m.tggm"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about marks
        save(make(), path)
    with running(read_served_model(str(path))) as found:
        yield found


@pytest.fixture(scope="module")
def tab():
    with chromium.Page() as page:
        yield page


def until(tab, expression, wrong):
    """The value of an expression once it is no longer `wrong`."""
    for _ in range(400):
        found = tab.ask(expression)
        if found != wrong:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{expression} stayed {wrong!r}")


def opened(tab, address, width):
    tab.resize(width, 800)
    tab.open("http://{}:{}/".format(*address))
    until(tab, TEXT % "legend", "")
    return tab


def upload(tab, path):
    root = tab.send("DOM.getDocument")["root"]["nodeId"]
    box = tab.send("DOM.querySelector", nodeId=root, selector="#file")["nodeId"]
    tab.send("DOM.setFileInputFiles", nodeId=box, files=[str(path)])


@contextmanager
def quiet(tab):
    """Nothing is complained of, and nothing is asked of others."""
    yield
    assert tab.complaints() == []
    assert all(url.startswith(("http://127.0.0.1:", "data:,")) for url in tab.requests())


@WIDTHS
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_the_page_fits_and_everything_has_a_name(tab, request, kind, width):
    page = opened(tab, request.getfixturevalue(kind), width)
    with quiet(page):
        assert page.ask("document.documentElement.scrollWidth") <= width
        assert page.ask(UNNAMED) == []


@WIDTHS
def test_the_curve_moves_with_a_slider_on_an_axis_that_stays(tab, numbers, width):
    page = opened(tab, numbers, width)
    before, summary = page.ask(PATH), page.ask(TEXT % "summary")
    ticks = "Array.from(document.querySelectorAll('#plot text'), t => t.textContent)"
    labels = page.ask(ticks)
    with quiet(page):
        assert float(page.ask(SLIDE % "1.5")) == 1.5
        assert until(page, PATH, before) != before
        assert page.ask(TEXT % "summary") != summary
        assert page.ask(ticks) == labels


def test_a_table_is_listed_and_what_is_wrong_with_it_said(tab, numbers, tmp_path):
    page = opened(tab, numbers, 390)
    table().to_csv(tmp_path / "rows.csv", index=False)
    with quiet(page):
        upload(page, tmp_path / "rows.csv")
        until(page, "document.querySelectorAll('#table tr').length", 0)
        assert page.ask("document.querySelectorAll('#table tr').length") == 1 + len(table())
        assert (page.ask(TEXT % "told")).startswith("rows.csv: 4 rows; size: 1 row without a value")
        assert page.ask("document.documentElement.scrollWidth") <= 390
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    upload(page, tmp_path / "bad.csv")
    until(page, "document.getElementById('told').className", "")
    assert "'size'" in page.ask(TEXT % "told")
    assert page.ask("document.querySelectorAll('#table tr').length") == 0


def test_labels_are_text(tab, classes):
    page = opened(tab, classes, 1400)
    assert page.ask("document.querySelectorAll('#plot i, #plot rect').length") == 3
    assert "<i>c</i>" in page.ask(TEXT % "plot")
