"""The report of a candidate: true to the evidence, safe, and whole in one file."""

import html
import json
import re

import numpy as np
import pytest

from plumbline.core.files import read_json
from plumbline.export.stage import ARTIFACTS
from plumbline.params import Gate, Gates
from plumbline.params.validate import HIGHER_IS_BETTER
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.evidence import GateEvidence
from plumbline.validate.gates.rules import drops_of, evaluate
from plumbline.validate.metrics import JudgedAnswers, accuracy_figures
from plumbline.validate.report.content import METRICS, intervals, report_figures, with_verdict
from plumbline.validate.report.page import report_page
from tests.browser import TEXTS, framed, in_browser


def words(page):
    """The text of a page, without tags."""
    return html.unescape(re.sub("<[^>]*>", " ", page.partition("</style>")[2]))


@pytest.fixture(scope="module")
def content(tiny):
    return read_json(tiny.data("gate") / "report.json")


def test_figures_are_those_of_the_metrics_and_lie_in_their_intervals(tiny, content):
    table = read_json(tiny.data("validate") / "metrics.json")
    for metric in METRICS:
        for name, one in content["metrics"][metric].items():
            assert one["value"] == table["all"][name][metric]
            if metric in ("severity_mae", "interval_coverage", "quadrant_accuracy"):
                assert one["low"] <= one["value"] <= one["high"]
    assert set(content["metrics"]["severity_mae"]) == {*ARTIFACTS, "baseline"}
    assert "baseline" not in content["metrics"]["interval_coverage"]
    assert content["slices"].keys() == table.keys()
    assert content["costs"]["int8"]["size_bytes"] == (tiny.data("export") / "int8.onnx").stat().st_size


def test_confusions_count_every_building_once(tiny, content):
    test = load_shards(tiny.data("prepare") / "test")
    table = read_json(tiny.data("validate") / "metrics.json")["all"]
    for name, one in content["judged"].items():
        assert np.sum(one["category"]) == len(test)
        assert np.sum(one["quadrant"]) == int((test.quadrant >= 0).sum())
        # Of several right answers the one that was said is the true one.
        right = np.trace(one["quadrant"]) / np.sum(one["quadrant"])
        assert right == pytest.approx(table[name]["quadrant_accuracy"])
        alone = np.asarray(test.accepted).sum(1) == 1
        for code, row in enumerate(one["quadrant"]):
            assert sum(row) >= int((alone & (test.quadrant == code)).sum())


def test_every_figure_of_the_gate_is_on_the_page_and_nothing_that_is_none(tiny, content):
    page = (tiny.data("gate") / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"<script|@import|url\((?!#)| (src|href|srcset|onload|onclick)=", page)
    named = re.findall(r' id="([^"]*)"', page)
    assert len(set(named)) == 2  # the clips of two charts
    assert all(f"url(#{name})" in page for name in named)
    assert page.count("<svg") == 6
    found = set(re.findall(r"[^\s;,()]+", words(page)))
    gate = read_json(tiny.data("gate") / "gate.json")
    for rule in gate["rules"]:
        for key in ("value", "bound", "reference", "drop_bound", "margin"):
            assert rule.get(key) is None or f"{rule[key]:.4g}" in found, (rule, key)
    assert len(gate["rules"]) == len(content["rules"])
    assert not {word.lower() for word in found} & {"nan", "none", "null", "inf", "-inf", "true", "false", "undefined"}


@pytest.mark.browser
@in_browser
@pytest.mark.parametrize("width", [1400, 390])
def test_the_words_of_charts_can_be_read_on_every_screen(tiny, tmp_path, width):
    said = framed(tiny.data("gate") / "report.html", tmp_path, TEXTS, width, 844)
    assert (said["width"], said["page"]) == (width, width)
    assert len(said["texts"]) > 50
    assert [one for one in said["texts"] if one["size"] < 9 or min(one["left"], one["right"]) < 0] == []


def test_failed_rules_come_first_with_their_figures(content):
    rules = [
        {**content["rules"][0], "passed": True},
        {**content["rules"][1], "passed": False, "text": "x < y: 1 found"},
    ]
    gate = {"verdict": "fail", "rules": rules}
    test = made(40)
    everyone = {"float32": said(test, 0.1), "int8": said(test, 0.2)}
    found = report_content(test, everyone, {"all": {name: {} for name in everyone}}, gate)
    assert [rule["passed"] for rule in found["rules"]] == [False, True]
    text = words(report_page(found))
    assert text.index("x < y: 1 found") < text.index(rules[0]["text"])
    assert "1 of 2 rules met" in text


def test_names_are_text_and_nothing_else(content):
    wrong = "city:<script>alert('x')</script>&\"<b>"
    changed = {**content, "slices": {wrong: content["slices"]["all"]}, "verdict": wrong}
    changed["rules"] = [{**content["rules"][0], "text": wrong}]
    assert "No champion here" in words(report_page(changed))
    changed["champion"] = "0123456789ab"
    text = report_page(changed)
    assert "champion is version 0123456789ab" in text
    assert "<script" not in text
    assert "<b>" not in text
    assert words(text).count(wrong) >= 3


def test_a_model_of_nans_leaves_places_empty(content):
    test = made(30)
    nothing = np.full(30, np.nan)
    everyone = {"float32": said(test, 0.1), "int8": JudgedAnswers(np.full((30, 4), np.nan), nothing, nothing, nothing)}
    gate = {"verdict": "fail", "rules": []}
    table = {"all": {"float32": {"buildings": 30.0, "severity_mae": 0.1}, "int8": {"buildings": 30.0}}}
    found = report_content(test, everyone, table, gate)
    json.dumps(found, allow_nan=False)
    assert found["judged"]["int8"] == {}
    assert found["from_reference"]["int8"] == {}
    assert "None" not in words(report_page(found))


def report_content(test, everyone, table, gate):
    evidence = GateEvidence(everyone, test.quadrant, test.severity, {})
    return with_verdict(report_figures(evidence, table), gate)


class Made:
    """Labelled buildings without features."""

    def __init__(self, quadrant, severity):
        self.quadrant, self.severity = quadrant, severity


def made(count, seed=0):
    random = np.random.default_rng(seed)
    return Made(random.integers(0, 4, count), random.uniform(0.5, 4, count))


def said(test, error, right=0.7, seed=1):
    """Answers that are off by `error` permille to one side or the other, and right in a share of the quadrants."""
    random = np.random.default_rng(seed)
    count = len(test.severity)
    chosen = np.where(random.random(count) < right, test.quadrant, (test.quadrant + 1) % 4)
    probability = np.full((count, 4), 0.1)
    probability[np.arange(count), chosen] = 0.7
    severity = test.severity + error * random.choice((-1.0, 1.0), count)
    return JudgedAnswers(probability, severity, severity - 1, severity + 1)


def test_the_interval_of_a_share_is_that_of_the_binomial():
    """Closed form: a share p of n has the standard error sqrt(p (1 - p) / n)."""
    test = made(1500)
    answers = said(test, 0.1)
    own, _ = intervals({"one": answers}, test.quadrant, test.severity, "none")
    share = float((answers.probability.argmax(1) == test.quadrant).mean())
    ends = own["one"]["quadrant_accuracy"]
    wanted = 2 * 1.96 * np.sqrt(share * (1 - share) / 1500)
    assert ends.high - ends.low == pytest.approx(wanted, rel=0.15)
    assert ends.low < share < ends.high


@pytest.mark.parametrize("metric", METRICS)
def test_the_worse_end_of_a_difference_is_the_bound_of_the_gate(metric):
    """To the last digit: it is the same number, not one like it."""
    test = made(300)
    everyone = {"float32": said(test, 0.25), "int8": said(test, 0.3, right=0.6, seed=2)}
    rule = Gate(metric=metric, artifact="int8", max_drop_vs="float32", margin=1.0)
    evidence = GateEvidence(everyone, test.quadrant, test.severity, {"all": np.ones(300, dtype=bool)})
    table = {"all": {name: accuracy_figures(one, test.quadrant, test.severity) for name, one in everyone.items()}}
    gate = evaluate([rule], table, drops_of([rule], evidence), Gates(rules=[rule]))
    low, high = report_content(test, everyone, table, gate)["from_reference"]["int8"][metric]
    assert gate["rules"][0]["drop_bound"] == (-low if HIGHER_IS_BETTER[metric] else high)


def test_a_constant_error_has_no_width_and_a_pair_no_noise():
    test = made(200)
    everyone = {"float32": said(test, 0.25), "int8": said(test, 0.4)}
    own, less = intervals(everyone, test.quadrant, test.severity, "float32")
    assert own["float32"]["severity_mae"] == pytest.approx((0.25, 0.25))
    assert less["int8"]["severity_mae"] == pytest.approx((0.15, 0.15))
    assert less["int8"]["quadrant_accuracy"] == (0, 0)  # the same quadrants were said
    assert own["int8"]["quadrant_accuracy"].high > own["int8"]["quadrant_accuracy"].low
