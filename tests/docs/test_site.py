"""The documentation site builds without a warning, needs no network, and shows its formulas."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from tests.docs.blocks import ROOT
from tests.report import chromium


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Build strictly: missing links, anchors, pages and names of the API are errors."""
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    command += ["--config-file", str(ROOT / "mkdocs.yml"), "--site-dir", str(place)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def site(folder):
    return {path.name: path.read_text() for path in folder.glob("*.html")}


@pytest.mark.skipif(chromium.found() is None, reason="no Chromium (on Debian: apt install chromium)")
@pytest.mark.parametrize("width", [1400, 390])
def test_pages_fit_the_window_and_show_their_images(folder, width):
    with chromium.Page(width, 900) as page:
        for path in sorted(folder.glob("*.html")):
            page.open(path.as_uri())
            assert page.ask("document.scrollingElement.scrollWidth") <= width, path.name
            broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
            assert page.ask(broken) == [], path.name


class Fetched(HTMLParser):
    """Addresses that a browser fetches to show a page."""

    def __init__(self, page):
        super().__init__()
        self.addresses = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag in ("script", "img", "iframe", "source") and "src" in found:
            self.addresses.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preconnect", "preload", "icon"):
            self.addresses.append(found["href"])


def test_every_page_is_in_the_site_and_fetches_nothing_from_elsewhere(site):
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= set(site)
    for page in site.values():
        assert not [address for address in Fetched(page).addresses if "//" in address]


def test_formulas_are_mathml_and_numbered_in_order(site):
    numbers = [int(n) for n in re.findall(r'id="eq-(\d+)"', site["derivations.html"])]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 20
    for name, content in site.items():
        text = re.sub(r"<(pre|code|script|annotation)\b.*?</\1>", "", content, flags=re.DOTALL)
        assert not re.findall(r"\\(?:frac|sigma|mid|alpha|tag|text|,)|\$\$", text), name
        assert "arithmatex" not in text
        # commands, or columns of environments, that the converter does not support
        assert not re.findall(r"<m\w+>(?:&<|\\)", text), name


def test_references_to_equations_exist():
    text = (ROOT / "docs" / "derivations.md").read_text()
    defined = set(re.findall(r"\\tag\{(\d+)\}", text))
    assert set(re.findall(r"(?<![\w(])\((\d+)\)", re.sub(r"\\tag\{\d+\}", "", text))) <= defined


def test_numbers_of_tables_do_not_wrap(site):
    assert '<td class="figure">' in site["results.html"]
    assert not [n for n, page in site.items() if re.findall(r"<td>-?\d[\d.e-]*</td>", page)]
