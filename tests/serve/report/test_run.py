"""`plumbline report`: a PDF with its fonts, an HTML page, and texts of users that stay texts."""

from __future__ import annotations

import csv
import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from plumbline.core.errors import InputError, NotWritable
from plumbline.pretrained import PACKAGE
from plumbline.serve.predictions import check_outputs
from plumbline.serve.report import run
from plumbline.serve.report.about import read_about
from plumbline.serve.report.run import MAX_BUILDINGS, as_html, as_pdf, outputs_of, report_of, write_sheet
from plumbline.serve.report.words import LONGEST_TEXT
from tests.refusals import refuses, warned
from tests.serve.report.conftest import CASE
from tests.tiny import run_cli

pytest.importorskip("typst")
MARKUP = "#pagebreak()#panic()$x$*b*<b>&amp;][\\`@ref{{7*7}}</script>éд"


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
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.pdf", "r_list.csv"]


@pytest.mark.parametrize("name", [MARKUP, "#panic()"])
def test_names_are_no_markup(made, name):
    about = {"name": name, "attributes": name}
    renamed = [page | about | {"in_list": [name, *page["in_list"][1:]]} for page in made["pages"]]
    named = made | {"title": name, "pages": renamed}
    assert pages(as_pdf(named)) == pages(as_pdf(made))
    found, plain = Texts(as_html(named)), Texts(as_html(made))
    assert found.tags == plain.tags
    assert sum(name in heading for heading in found.headings) >= len(made["pages"])


def test_letters_that_the_fonts_lack_are_named_with_their_buildings(made, caplog, monkeypatch):
    """Of other scripts, typst's own fonts have many; the machine's are used for the rest."""
    names = ["\u6f22\u5b57", "\u041f\u0440\u0438\u0432\u0435\u0442"]
    pages = [page | {"name": name} for page, name in zip(made["pages"], names, strict=True)]
    monkeypatch.setattr(run, "has_letters", lambda text, ignore_system_fonts: names[0] not in text)
    as_pdf(made | {"pages": pages})
    (message,) = warned(caplog, "report.missing_letters", names[0], "--output FILE.html")
    assert names[1] not in message


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("\u041f\u0440 \u03b5\u03bb \u2265 \u00e9\u0142", True),
        ("H1 \u6f22", False),
        ("\ud55c\uad6d", False),
        ("\u0e44\u0e17\u0e22", False),
    ],
)
def test_fonts_of_typst_have_or_lack_letters(text, is_there):
    assert run.has_letters(text, ignore_system_fonts=True) == is_there


def test_the_page_holds_each_building(made):
    page = as_html(made)
    for one in made["pages"]:
        assert one["name"] in page
        assert one["headline"].replace(">", "&gt;").replace("<", "&lt;") in page
        assert one["plan"] in page
    assert not re.search(r"(src|href)=.(?!#)", page)


@pytest.mark.parametrize(
    ("output", "key", "place"),
    [
        ("r.docx", "output.other_format", ".pdf, .html"),
        ("in.html", "output.is_input", "in.html"),
        ("points.html", "output.is_input", "points_list.csv"),
    ],
)
def test_an_output_that_cannot_be_is_refused(tmp_path, output, key, place):
    inputs = [tmp_path / "in.html", tmp_path / "points_list.csv"]
    with refuses(key, place):
        check_outputs(outputs_of(tmp_path / output), inputs, PACKAGE)
    with pytest.raises(NotWritable, match="nowhere"):
        check_outputs(outputs_of(tmp_path / "nowhere/r.pdf"), inputs, PACKAGE)


def test_top_and_named_buildings_exclude_each_other(footprints, tmp_path):
    given = ["--points", CASE / "asc.csv", "--buildings", footprints, "--output", "r.html"]
    ended = run_cli("report", *given, "--top", 3, "--building", "H001", cwd=tmp_path)
    assert ended.code == 2
    assert "--top 3 with --building" in ended.err


def test_a_report_has_a_largest_size(answered, city, footprints):
    with refuses("report.too_many_buildings", MAX_BUILDINGS):
        report_of(answered, city, footprints, (), MAX_BUILDINGS + 1)


def test_the_first_page_names_client_author_and_address(footprints, tmp_path):
    text = "project: Tunnel <b>7</b>\nclient: 4711\nauthor: M. Rossi\naddress: |\n  Via Roma 1\n  90010 Ustica\n"
    (tmp_path / "about.yaml").write_text(text, encoding="utf-8")
    given = ["--points", CASE / "asc.csv", CASE / "des.csv", "--buildings", footprints]
    ended = run_cli("report", *given, "--top", 1, "--about", "about.yaml", "--output", "r.html", cwd=tmp_path)
    assert ended.code == 0, ended.err
    first = (tmp_path / "r.html").read_text(encoding="utf-8").split("<section")[0]
    for shown in ("Tunnel &lt;b&gt;7&lt;/b&gt;", "4711", "M. Rossi", "Via Roma 1, 90010 Ustica"):
        assert shown in first


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("company: X\n", "company: unknown key"),
        ("client: [a, b]\n", "client: "),
        (f"client: {'x' * (LONGEST_TEXT + 1)}\n", f"at most {LONGEST_TEXT} characters"),
        ("- client\n", "about.yaml: the file"),
        (None, "about.yaml: no such file"),
    ],
)
def test_a_file_with_other_keys_is_refused(tmp_path, text, message):
    path = tmp_path / "about.yaml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_about(path)
    assert message in str(refused.value).replace("\n", " ")


def test_the_sheet_has_all_buildings_and_the_figures_of_the_list(answered, made, tmp_path):
    write_sheet(answered, made, tmp_path / "r_list.csv")
    with (tmp_path / "r_list.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["Building"] for row in rows} == set(answered.judged.table["building_id"])
    listed = rows[: len(made["pages"])]
    assert [row["Number"] for row in rows] == ["1", "2", *[""] * (len(rows) - 2)]
    left = Counter(row["Not judged"] for row in rows if row["Not judged"])
    assert [f"{reason}: {count}" for reason, count in left.items()] == made["unjudged"] == ["no points: 1"]
    assert rows[-1]["Remark"] == "Not judged: no usable point is on it."
    assert [row["Building"] for row in listed] == [page["in_list"][0] for page in made["pages"]]
