"""The pages show what was measured, of the package that comes with Plumbline."""

import re

import pytest

from benchmarks.cases.__main__ import CASE_TABLES
from benchmarks.heldout.accuracy import FILE, PAGES, TABLES, renewed
from plumbline.core.files import read_json
from plumbline.export.package import verify_package


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_measurement(page):
    text = page.read_text(encoding="utf-8")
    assert renewed(text, read_json(FILE)) == text


def test_each_table_is_on_a_page():
    names = {
        name for page in PAGES for name in re.findall(r"<!-- accuracy: (\w+) -->", page.read_text(encoding="utf-8"))
    }
    assert names == {"measured", *TABLES, *CASE_TABLES}


def test_the_measurement_is_of_the_shipped_package(package):
    assert read_json(FILE)["release"] == verify_package(package).version
