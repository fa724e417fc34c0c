"""The report in a real browser: it renders, complains of nothing, fits a phone, and its tables sort."""

import pytest

from tests.report import chromium

pytestmark = pytest.mark.skipif(
    chromium.found() is None,
    reason="no Chromium on this machine (on Debian: apt install chromium); test_page.py checks the markup",
)
KINDS = ("regression", "classes")
SORTED = """
(() => {
  const table = document.querySelector("#%s table"), head = table.tHead.rows[0].cells[%d];
  head.querySelector("button").click();
  const values = Array.from(table.tBodies[0].rows, row => Number(row.cells[%d].dataset.value));
  return [head.getAttribute("aria-sort"), values];
})()
"""
# sizes of the pictures' letters in CSS pixels
LETTERS = """
Array.from(document.querySelectorAll("svg.plot text"), text => {
  const svg = text.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return scale * parseFloat(getComputedStyle(text).fontSize);
})
"""


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


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_complained_of_and_nothing_fetched(opened, kind):
    page = opened(kind, 1200)
    assert page.complaints() == []
    assert [url[:5] for url in page.requests() if not url.startswith("data:image/png")] == ["file:"]
    assert page.ask("document.title") == "A </title> & more"


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("kind", KINDS)
def test_the_page_does_not_overflow_and_letters_are_readable(opened, kind, width):
    page = opened(kind, width)
    assert page.ask("document.documentElement.scrollWidth") <= width
    sizes = page.ask(
        "Array.from(document.querySelectorAll('svg.plot'), s => s.getBoundingClientRect().toJSON())"
    )
    assert all(size["width"] > 0.8 * min(width - 40, 420) and size["height"] > 80 for size in sizes)
    letters = page.ask(LETTERS)
    assert len(letters) > 50
    assert min(letters) > 7


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
    assert page.complaints() == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_browser_computes_a_name_for_every_picture(opened, kind):
    page = opened(kind, 1200)
    tree = page.send("Accessibility.getFullAXTree")["nodes"]
    pictures = [n for n in tree if n.get("role", {}).get("value") in ("image", "img", "graphics-document")]
    named = [n for n in pictures if len(n["name"]["value"]) > 30]
    assert len(named) == page.ask("document.querySelectorAll('svg.plot').length")


def test_it_prints(opened):
    pdf = opened("regression", 1200).printed()
    assert pdf.startswith(b"%PDF")
    assert 2 <= pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page ") + pdf.count(b"/Type /Page/") <= 8
