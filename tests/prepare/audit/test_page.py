import json
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from plumbline.prepare.audit.rules import RULES
from plumbline.prepare.features.sequences import UNDEFINED
from tests.prepare.audit.audited import make_report, make_split, make_splits, make_track, rule, run
from tests.refusals import refuses

VOID = {"meta", "br", "path"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and keeps text, tags and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.said, self.rules, self.attributes = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.said.append(data)
        if self.open[-2:] == ["td", "b"]:
            self.rules.append(data)


def spoilt():
    """A run in which rules fail, warn and pass."""
    splits = make_splits()
    undamaged = replace(splits["train"], severity=np.full(400, 0.1, "f4"), quadrant=np.full(400, UNDEFINED))
    return run(splits | {"train": undamaged}, make_report({"noise_mm": 30.0}))


def test_the_page_shows_every_rule_failing_first():
    result = spoilt()
    page = Page(result.html())
    assert sorted(page.rules) == sorted(rule.name for rule in RULES)
    status = {finding.name: finding.status for finding in result.rules}
    order = [status[name] for name in page.rules]
    assert order == sorted(order, key=["fail", "warn", "pass"].index)
    assert set(order) == {"fail", "warn", "pass"}
    assert page.rules[0] == "damage_present"
    for finding in result.rules:
        if finding.status != "pass":
            assert finding.reason in page.said
            assert finding.advice in page.said


def test_the_page_loads_nothing_and_is_small():
    report = make_report()
    report["cities"] = {f"city {i}": report["cities"]["a"] for i in range(300)}
    text = run(report=report).html()
    page = Page(text)
    for word in ("http:", "https:", "url(", "@import", "//"):
        assert word not in text
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert not {"src", "href", "onload"} & {key for key, _ in page.attributes}
    assert ("name", "viewport") in page.attributes
    assert len(text.encode()) < 500_000


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a\" onload='x"])
def test_names_are_text_on_the_page(name):
    splits = {"train": make_split("train", 60, 0, name), "test": make_split("test", 40, 1, name)}
    city = make_report(tracks=[make_track(name)], notes=[name])["cities"]["a"]
    page = Page(run(splits, {"cities": {name: city}}).html())
    assert "script" not in page.tags
    assert "onload" not in {key for key, _ in page.attributes}
    assert f"{name}, {name}" in page.said


def test_json_has_verdict_rules_and_statistics_and_no_nan():
    result = spoilt()
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert list(content) == ["verdict", "rules", "statistics"]
    assert content["verdict"] == "fail"
    keys = ["name", "status", "value", "bound", "where", "reason", "advice"]
    assert all(list(rule) == keys for rule in content["rules"])
    assert set(content["statistics"]) == {"cities", "blocks", "splits", "drift"}
    assert content["statistics"]["blocks"] == {"train": 3, "test": 3}


def test_a_failed_audit_stops_with_its_reasons_and_leaves_the_evidence(tmp_path):
    result = spoilt()
    bounds = "damage_present: 0 found, bound 1 (train, damaged: 0 buildings)."
    with refuses("audit.failed", tmp_path / "kept" / "audit.html", bounds) as stopped:
        result.raise_if_failed(tmp_path / "kept")
    said = str(stopped.value)
    assert said.count("\n") == sum(finding.status == "fail" for finding in result.rules)
    assert "noise_high" not in said
    assert json.loads((tmp_path / "kept" / "audit.json").read_text())["verdict"] == "fail"
    assert (tmp_path / "kept" / "audit.html").read_text() == result.html()


def test_an_audit_that_only_warns_goes_on_and_leaves_nothing(tmp_path):
    result = run(report=make_report({"noise_mm": 30.0}))
    assert result.verdict == "warn"
    result.raise_if_failed(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_no_split_and_no_report_fail_with_a_page_all_the_same():
    result = run({}, {})
    assert result.verdict == "fail"
    assert rule(result, "split_size").where == "train"
    Page(result.html())
