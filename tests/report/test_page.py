"""Reports are self-contained, accessible and safe: checked by an HTML parser and by a browser if available.

Both are in one file because making the pages takes longer than checking them.
"""

import base64
import hashlib
import re
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from tests.cases import few
from tests.report import chromium
from tests.report.conftest import SPECIAL_NAMES, Tree
from tggm.report import render_report, write_report
from tggm.report._case import examine, sample
from tggm.report._sections import EXPLAINED_ROWS, importance

HOUSES = [f"No. {k}" for k in range(64)]
KINDS = pytest.mark.parametrize("kind", ["regression", "classes"])
BROWSER = pytest.mark.skipif(chromium.found() is None, reason="no Chromium (on Debian: apt install chromium)")
SORTED = """
(() => {
  const table = document.querySelector("#%s table"), head = table.tHead.rows[0].cells[%d];
  head.querySelector("button").click();
  const values = Array.from(table.tBodies[0].rows, row => Number(row.cells[%d].dataset.value));
  return [head.getAttribute("aria-sort"), values];
})()
"""
# the smallest font size of the figures, drawn with 9 points, in CSS pixels
LETTERS = """
Array.from(document.images, plot => 9 / 0.75 * plot.getBoundingClientRect().width / plot.naturalWidth)
"""


@KINDS
def test_tags_are_nested_and_identifiers_unique(pages, kind):
    tree = Tree(pages[kind])
    ids = [e[1]["id"] for e in tree.elements if "id" in e[1]]
    assert len(ids) == len(set(ids))
    referred = re.findall(r'href="#([^"]*)"|url\(#([^)]*)\)|labelledby="([^"]*)"', pages[kind])
    assert {a or b or c for a, b, c in referred} <= set(ids)


@KINDS
def test_pages_have_no_links_handlers_or_style_attributes(pages, kind):
    tree = Tree(pages[kind])
    names = {name for _, attributes, _, _ in tree.elements for name in attributes}
    assert all(e[1].pop("src").startswith("data:image/svg+xml;base64,") for e in tree.all("img"))
    forbidden = ("style", "srcset", "action")
    assert not {name for name in names if name.startswith("on") or name in forbidden}
    links = [e[1][k] for e in tree.elements for k in ("href", "xlink:href") if k in e[1]]
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "@import" not in pages[kind]
    assert not re.findall(r"https?://", pages[kind])


@KINDS
def test_the_policy_allows_only_the_style_and_script_of_the_page(pages, kind):
    tree = Tree(pages[kind])
    (policy,) = [e[1]["content"] for e in tree.all("meta") if e[1].get("http-equiv")]
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        (element,) = tree.all(tag)
        digest = base64.b64encode(hashlib.sha256(element[2].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


@KINDS
def test_every_figure_has_a_title_and_a_caption(pages, kind):
    tree = Tree(pages[kind])
    pictures, captions = tree.all("img"), tree.all("figcaption")
    assert len(pictures) == len(captions) == len(tree.all("figure")) >= 6
    assert all(len(picture[1]["alt"]) > 30 for picture in pictures)
    assert all(len(caption[2]) > 5 for caption in captions)


@KINDS
def test_tables_have_captions_and_numbers_to_sort_by(pages, kind):
    tree = Tree(pages[kind])
    assert len(tree.all("table")) == len(tree.all("caption")) >= 2
    heads = [e for e in tree.all("th") if e[1]["scope"] == "col"]
    assert len(heads) == len([e for e in tree.all("button") if "th" in e[3]])
    numbers = [e for e in tree.elements if "data-value" in e[1]]
    assert len(numbers) > 50
    for element in numbers:
        shown = element[2].replace("−", "-").replace(",", "").removesuffix(" %")
        scale = 100 if element[2].endswith("%") else 1
        assert float(shown) == pytest.approx(scale * float(element[1]["data-value"]), rel=6e-3, abs=0.51)


@KINDS
def test_text_from_data_is_escaped(pages, kind):
    tree = Tree(pages[kind])
    assert len(tree.all("script")) == len(tree.all("title")) == 1
    assert not tree.all("b") + tree.all("i")
    text = "".join(e[2] for e in tree.all("section"))
    assert all(name in text for name in SPECIAL_NAMES)
    (heading,) = tree.all("h1")
    assert heading[2] == "A </title> & more"


@pytest.fixture(scope="module")
def bare(regression):
    """Return a page without training rows, with another column of the user's table."""
    model, (X, y), _ = regression
    return render_report(model, X.assign(house=HOUSES), y)


@KINDS
def test_pages_are_small_and_have_every_section(pages, kind):
    assert len(pages[kind].encode()) < 1_000_000
    anchors = [e[1]["id"] for e in Tree(pages[kind]).all("section")]
    middle = "predicted" if kind == "regression" else "confusion"
    assert anchors == ["quality", "importance", "calibration", middle, "worst", "effects"]


def test_reports_are_reproducible(regression, bare, tmp_path):
    model, (X, y), _ = regression
    write_report(model, X.assign(house=HOUSES), y, tmp_path / "a.html")
    assert (tmp_path / "a.html").read_bytes() == bare.encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.html"]


def test_one_row_is_enough(regression):
    model, (X, y), _ = regression
    page = render_report(model, X[:1], y[:1])
    assert "evaluated on 1 rows" in page
    assert "nan" not in "".join(element[2] for element in Tree(page).all("td")).lower()


def test_pages_without_training_rows_with_columns_of_the_users_table(regression, bare):
    assert "no linear and no naive prediction to compare with" in bare
    assert "linear prediction" not in bare
    model, (X, y), _ = regression
    worst = int(np.argmin(model.predict_dist(X).logpdf(y)))
    section = bare[bare.index('<section id="worst"') : bare.index('<section id="effects"')]
    assert re.findall(r"No\. (\d+)<", section)[0] == str(worst)


def test_the_first_feature_is_the_most_important(regression, classes):
    for model, (X, y), _ in (regression, classes):
        features, _ = importance(examine(model, X, y, "y", None, None))
        assert (features[0].name, len(features)) == (SPECIAL_NAMES[0], 4)


def test_the_parts_of_mean_and_deviation_are_listed(regression, monkeypatch):
    """The part of a feature in a linear function is its slope times the distance from the mean."""
    model, (X, y), _ = regression
    slopes = {"mean": [3, 0, 0, 0], "std": [0, 0.5, 0, 1]}
    monkeypatch.setattr(model, "_answers", lambda rows, of: rows @ np.reshape(slopes[of], (4, 1)))
    _, found = importance(examine(model, X, y, "y", None, None))
    few = X.to_numpy()[sample(len(X), EXPLAINED_ROWS)]
    size = np.abs(few - few.mean(0)).mean(0)
    for name, mean, deviation in found["parts"]:
        j = SPECIAL_NAMES.index(name)
        wanted = slopes["mean"][j] * size[j], slopes["std"][j] * size[j]
        assert (mean.value, deviation.value) == pytest.approx(wanted, rel=0.02, abs=1e-9)
    assert len(found["parts"]) == 4


def test_rows_far_away_are_counted_on_the_page_only(regression):
    model, (X, y), _ = regression
    page = render_report(model, 20 * X, y)  # a warning would be an error
    assert re.search(r"Warning: \d+ of 64 rows are unlike the training rows \(novelty above 2\)", page)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"y": np.zeros(3)}, "`y` must have 20 targets of one output; got shape (3,)."),
        ({"X": np.zeros((20, 3))}, "`X` has no column 'groß"),
        ({"level": 90}, "`level` must be between 0 and 1; got 90. For 90 % pass 0.9."),
    ],
)
def test_errors_name_the_argument(regression, change, sentence):
    model, (X, y), _ = regression
    with pytest.raises(ValueError, match=re.escape(sentence)):
        render_report(model, **{"X": X[:20], "y": y[:20], **change})


def test_unknown_labels_raise(classes):
    model, (X, _), _ = classes
    with pytest.raises(ValueError, match=r"`y` has the label .*'zebra'"):
        render_report(model, X[:2], np.array(["zebra", "b & c"]))


@pytest.fixture(scope="module")
def tab():
    with chromium.Page() as page:
        yield page


@pytest.fixture
def opened(tab, pages, tmp_path):
    def open_page(kind, width):
        path = tmp_path / f"{kind}.html"
        path.write_text(pages[kind], encoding="utf-8")
        tab.resize(width, 800)
        tab.open(path.as_uri())
        return tab

    return open_page


@BROWSER
@KINDS
def test_browsers_report_no_errors_and_fetch_nothing(opened, kind):
    page = opened(kind, 1200)
    assert page.messages() == []
    assert [url[:5] for url in page.requests() if not url.startswith("data:image/")] == ["file:"]
    assert page.ask("document.title") == "A </title> & more"


@BROWSER
@KINDS
@pytest.mark.parametrize("width", [390, 1000])
def test_pages_do_not_overflow_and_text_is_readable(opened, kind, width):
    page = opened(kind, width)
    assert page.ask("document.documentElement.scrollWidth") <= width
    boxes = page.ask("Array.from(document.querySelectorAll('.scroll'), s => s.clientWidth)")
    assert 0 < max(boxes) <= width
    sizes = page.ask("Array.from(document.images, s => s.getBoundingClientRect().toJSON())")
    assert all(size["width"] > 0.8 * min(width - 40, 420) and size["height"] > 80 for size in sizes)
    letters = page.ask(LETTERS)
    assert len(letters) >= 6
    assert min(letters) > 7


@BROWSER
@pytest.mark.parametrize(("kind", "table", "column"), [("regression", "worst", 1), ("classes", "quality", 1)])
def test_tables_sort_both_ways(opened, kind, table, column):
    page = opened(kind, 1200)
    before = page.ask("document.querySelectorAll('tbody tr').length")
    way, up = page.ask(SORTED % (table, column, column))
    assert (way, up) == ("ascending", sorted(up))
    way, down = page.ask(SORTED % (table, column, column))
    assert (way, down) == ("descending", sorted(down, reverse=True))
    assert len(set(up)) > 2
    assert page.ask("document.querySelectorAll('tbody tr').length") == before
    assert page.messages() == []


# texts that exceed their cell by more than a pixel
OVERFLOWS = """
Array.from(document.querySelectorAll("th, td, dt, dd"), outer => {
  const range = document.createRange();
  range.selectNodeContents(outer);
  const box = outer.getBoundingClientRect(), text = range.getBoundingClientRect();
  return text.left < box.left - 1 || text.right > box.right + 1 ? outer.textContent : "";
}).filter(Boolean)
"""
LONG = ["a_long_name_without_a_place_to_break_" + str(k) for k in range(4)]


@pytest.fixture(scope="module")
def long_names(regression, classes):
    """Return a function that makes pages with long names, small numbers and dates."""

    @cache
    def page(kind):
        model, (X, y), _ = {"regression": regression, "classes": classes}[kind]
        rows = X.set_axis(LONG, axis=1).assign(**{"a date": ["2024-01-04"] * len(X)})
        again = clone(model).fit(rows[LONG], y)
        return render_report(again, rows, y)

    return page


@BROWSER
@pytest.mark.parametrize("kind", few(["regression", "classes"], "regression"))
@pytest.mark.parametrize("width", [390, 1400])
def test_long_names_do_not_overflow(tab, long_names, tmp_path, kind, width):
    (tmp_path / "long.html").write_text(long_names(kind), encoding="utf-8")
    tab.resize(width, 800)
    tab.open((tmp_path / "long.html").as_uri())
    assert tab.ask(OVERFLOWS) == []
    assert tab.ask("document.documentElement.scrollWidth") <= width
    # a date fits on one line
    rects = "Array.from(document.querySelectorAll('#worst td'))"
    dates = f"{rects}.filter(cell => cell.textContent === '2024-01-04')"
    assert tab.ask(f"{dates}.length") > 5
    assert tab.ask(f"Math.max(...{dates}.map(cell => cell.getClientRects()[0].height))") < 60


@BROWSER
def test_pages_can_be_printed(opened):
    pdf = opened("regression", 1200).printed()
    assert 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 8
