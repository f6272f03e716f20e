"""`plumbline report`: a PDF with its fonts, an HTML page, and texts of users that stay texts."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.errors import InputError
from plumbline.pretrained import PACKAGE
from plumbline.serve.report.run import MOST, as_html, as_pdf, check_report, report_of
from tests.serve.report.conftest import CASE
from tests.tiny import run_cli

pytest.importorskip("typst")
PIECES = [
    "#pagebreak()",
    "#panic()",
    "$x$",
    "*b*",
    "<b>",
    "&amp;",
    "]",
    "[",
    "\\",
    "`",
    "@ref",
    "{{7*7}}",
    "</script>",
    "é",
    "д",
]
NAMES = st.lists(
    st.sampled_from(PIECES) | st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=8
).map("".join)


@pytest.fixture(scope="module")
def made(answered, city, footprints):
    return report_of(answered, city, footprints, (), 2)


def pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


class Texts(HTMLParser):
    """Headings of a page, and all of its tags."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.headings, self.tags = [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "h1":
            self.headings.append("")

    def handle_data(self, data):
        if self.headings:
            self.headings[-1] += data


def test_the_command_writes_a_pdf_with_a_page_a_building(footprints, tmp_path):
    given = ["--points", CASE / "asc.csv", CASE / "des.csv", "--buildings", footprints]
    ended = run_cli("report", *given, "--top", 3, "--output", "r.pdf", cwd=tmp_path)
    assert ended.code == 0, ended.err
    pdf = (tmp_path / "r.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-")
    assert pdf.rstrip().endswith(b"%%EOF")
    assert pages(pdf) >= 3 + 1
    assert len(re.findall(rb"/Type\s*/FontDescriptor", pdf)) == len(re.findall(rb"/FontFile", pdf)) > 0
    assert "3 buildings" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["r.pdf"]


@given(NAMES)
def test_names_are_no_markup(made, name):
    named = replace(
        made,
        title=name,
        pages=[replace(page, name=name, attributes=name, in_list=[name, *page.in_list[1:]]) for page in made.pages],
    )
    assert pages(as_pdf(named)) == pages(as_pdf(made))
    found, plain = Texts(as_html(named)), Texts(as_html(made))
    assert found.tags == plain.tags
    assert sum(name in heading for heading in found.headings) >= len(made.pages)


def test_the_page_holds_each_building(made):
    page = as_html(made)
    for one in made.pages:
        assert one.name in page
        assert one.headline.replace(">", "&gt;").replace("<", "&lt;") in page
        assert one.plan in page
    assert not re.search(r"(src|href)=.(?!#)", page)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("r.docx", r"ends in \.pdf or \.html"),
        ("nowhere/r.pdf", "a folder that is there"),
        ("in.html", "one of the inputs"),
    ],
)
def test_an_output_that_cannot_be_is_refused(tmp_path, output, said):
    with pytest.raises(InputError, match=said):
        check_report(tmp_path / output, [tmp_path / "in.html"], PACKAGE)


def test_top_and_named_buildings_exclude_each_other(footprints, tmp_path):
    given = ["--points", CASE / "asc.csv", "--buildings", footprints, "--output", "r.html"]
    ended = run_cli("report", *given, "--top", 3, "--building", "H001", cwd=tmp_path)
    assert ended.code == 2
    assert "--top 3 with --building" in ended.err


def test_a_report_has_a_largest_size(answered, city, footprints):
    with pytest.raises(InputError, match=f"holds {MOST} at most"):
        report_of(answered, city, footprints, (), MOST + 1)
