"""The documentation site: it builds without a warning, needs no network, and its formulas are there."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
import yaml

from tests.docs.blocks import ROOT
from tests.report import chromium


def build(config, folder):
    """Build strictly; without --quiet, which would keep warnings from being counted."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        config,
        "--site-dir",
        folder,
    ]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, env=quiet, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", place)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.fixture(scope="module")
def site(folder):
    return {path.name: path.read_text() for path in folder.glob("*.html")}


@pytest.mark.skipif(chromium.found() is None, reason="no Chromium here (on Debian: apt install chromium)")
@pytest.mark.parametrize("width", [1400, 390])
def test_no_page_is_wider_than_its_window(folder, width):
    """Wide tables scroll inside their boxes, and pictures are there."""
    with chromium.Page(width, 900) as page:
        for path in sorted(folder.glob("*.html")):
            page.open(path.as_uri())
            assert page.ask("document.scrollingElement.scrollWidth") <= width, path.name
            broken = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
            assert page.ask(broken) == [], path.name


def test_a_link_that_leads_nowhere_fails_the_build(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("[gone](gone.md)\n")
    (tmp_path / "mkdocs.yml").write_text("site_name: small\n")
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stdout + done.stderr


class Fetched(HTMLParser):
    """Addresses that a browser would fetch to show a page, and those that a reader may follow."""

    def __init__(self, page):
        super().__init__()
        self.fetched, self.links = [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag in ("script", "img", "iframe", "source") and "src" in found:
            self.fetched.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "preconnect", "preload", "icon"):
            self.fetched.append(found["href"])


def test_every_page_is_in_the_site(site):
    assert {f"{path.stem}.html" for path in (ROOT / "docs").glob("*.md")} <= set(site)


def test_no_page_fetches_anything_from_elsewhere(site):
    for page in site.values():
        assert not [address for address in Fetched(page).fetched if "//" in address]


def test_formulas_are_mathml_and_numbered_in_order(site):
    page = site["derivations.html"]
    numbers = [int(n) for n in re.findall(r'id="eq-(\d+)"', page)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 20
    for name, content in site.items():
        text = re.sub(r"<(pre|code|script|annotation)\b.*?</\1>", "", content, flags=re.DOTALL)
        assert not re.findall(r"\\(?:frac|sigma|mid|alpha|tag|text|,)|\$\$", text), name
        assert "arithmatex" not in text


def test_numbers_of_tables_stay_on_one_line(site):
    assert '<td class="figure">' in site["results.html"]
    for page in site.values():
        assert not re.findall(r"<td>-?\d[\d.e-]*</td>", page)


def test_equation_numbers_referred_to_exist(site):
    text = (ROOT / "docs" / "derivations.md").read_text()
    defined = set(re.findall(r"\\tag\{(\d+)\}", text))
    referred = set(re.findall(r"(?<![\w(])\((\d+)\)", re.sub(r"\\tag\{\d+\}", "", text)))
    assert referred <= defined


def test_the_public_names_are_documented(site):
    import tggm

    page = site["api.html"]
    documented = {"TGGMRegressor", "TGGMClassifier", "Graph", "TruncatedGaussian", "save", "load"}
    assert documented <= set(tggm.__all__)
    for name in (*documented, "write_report", "mean_field", "ep", "truncated_mean", "LowRank"):
        assert re.search(rf'id="[\w.]*\.{name}"', page), name


def test_the_navigation_names_pages_that_exist():
    class Loader(yaml.SafeLoader):
        """Configuration without the tags of plugins."""

    nav = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]

    def pages(entry):
        if isinstance(entry, str):
            return [entry]
        values = entry.values() if isinstance(entry, dict) else entry
        return [page for value in values for page in pages(value)]

    assert all((ROOT / "docs" / page).exists() for page in pages(nav))
