"""The command judges every usable row, and writes it to the page."""

from __future__ import annotations

import re

from plumbline.cases.page import _short
from plumbline.cases.rows import read_rows
from tests.tiny import run_cli


def test_the_command_writes_every_row(tmp_path):
    page = tmp_path / "real.md"
    ended = run_cli("cases", "--output", page, "--draws", "2", cwd=tmp_path)
    assert ended.code == 0, ended.err
    text = page.read_text(encoding="utf-8")
    used, unused = text.split("## Not judged by radar")[0], text.split("## Not judged by radar")[1]
    for row in read_rows():
        rows = re.findall(rf"^\| {re.escape(_short(row.name))} \|.* % ?\|?.*$", used, re.MULTILINE)
        assert bool(rows) == row.is_required, row.name
        assert row.is_required or f"| {_short(row.name)} |" in unused
    assert "2 draws of each building" in text
    assert "32 of 32" in text
    assert "{{" not in text


def test_a_folder_that_is_not_there_is_refused_before_any_work(tmp_path):
    ended = run_cli("cases", "--output", tmp_path / "no" / "real.md", cwd=tmp_path)
    assert ended.code == 2
    assert "no/real.md" in ended.err
