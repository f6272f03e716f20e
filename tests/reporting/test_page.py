"""Texts and figures of a page, and its skeleton."""

from __future__ import annotations

import pytest

from plumbline.reporting.page import html_page, number


def test_a_page_escapes_its_title_and_holds_its_parts_as_they_are():
    page = html_page("a & <b>", "td b{}", ["<p>&amp;</p>", "<i>one</i>"])
    assert "<title>a &amp; &lt;b&gt;</title>" in page
    assert "<style>td b{}</style>" in page
    assert page.endswith("<body>\n<p>&amp;</p>\n<i>one</i>\n</body></html>\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (7, "7"),
        (11388, "11,388"),
        (11630.4, "11,630"),
        (1163.04, "1163"),
        (0.12345, "0.1235"),
        (3.0, "3"),
        (-12345.6, "-12,346"),
        (2.6e-5, "2.6e-05"),
        (1e20, "1e+20"),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_figures_of_one_table_are_written_alike(value, text):
    assert number(value) == text
