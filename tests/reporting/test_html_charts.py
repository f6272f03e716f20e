"""Bars of shares on a page."""

from __future__ import annotations

from plumbline.reporting.charts import Group, stacked
from tests.prepare.audit.test_page import Page


def test_many_kinds_share_the_last_colour():
    page = Page(stacked([Group("a", {f"k{i}": i for i in range(20)})]))
    assert "9 others" in page.said
    assert Page(stacked([Group("none", {"k": 0})])).said.count("0") == 1
