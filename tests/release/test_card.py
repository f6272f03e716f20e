"""The model card tells what the report of the stage `validate` does."""

from __future__ import annotations

import copy

import pytest

from plumbline.core.files import read_json
from plumbline.export.package import MODELS, verify_package
from plumbline.release.package import model_card


@pytest.fixture(scope="module")
def report(tiny):
    return read_json(tiny.data("gate") / "report.json")


@pytest.fixture(scope="module")
def audit(tiny):
    return read_json(tiny.data("prepare") / "audit" / "audit.json")


def row(card, head):
    """The cells of the first table row that begins with `head`."""
    line = next(line for line in card.splitlines() if line.startswith(f"| {head} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def test_it_says_how_good_and_on_what(tiny, report, audit):
    card = (tiny.data("package") / "MODEL_CARD.md").read_text(encoding="utf-8")
    manifest = verify_package(tiny.data("package"))
    contenders = ["float32", *MODELS.values(), "baseline"]
    assert row(card, "metric") == contenders
    assert "No champion here: `plumbline release promote`" in card
    for name, cell in zip(contenders, row(card, "severity_mae"), strict=False):
        one = report["metrics"]["severity_mae"][name]
        assert cell == f"{manifest.metrics[name]['severity_mae']:.4g} ({one['low']:.4g} to {one['high']:.4g})"
    assert row(card, "interval_coverage")[-1] == ""  # an engineer gives none
    sizes = [manifest.metrics[name]["size_bytes"] for name in ("float32", *MODELS.values())]
    assert row(card, "size_bytes") == [f"{size:,.0f}" for size in sizes]
    assert f"Trained on {audit['statistics']['splits']['train']['buildings']} labelled buildings" in card
    assert f"tested on {manifest.gate['test_data']['buildings']} buildings" in card
    for rule in manifest.gate["rules"]:
        assert f"- met: {rule['text']}" in card
    assert "Verdict: pass." in card


def test_slices_reliability_and_confusion_are_in_it(report, audit):
    card = model_card(report, audit)
    buildings = report["test_data"]["buildings"]
    assert row(card, "all")[0] == str(buildings)
    start = card.index("| int8, category |")
    lines = card[start:].splitlines()[2:7]
    assert sum(int(cell) for line in lines for cell in line.strip("|").split("|")[1:]) == buildings
    shares = card[card.index("| int8: confidence |") :].split("\n\n")[0].splitlines()[2:]
    assert sum(float(line.strip("| ").split("|")[-1]) for line in shares) == pytest.approx(1, abs=0.01)


def test_it_stands_figures_that_could_not_be_told(report, audit):
    empty = {name: {} for name in report["contenders"]}
    broken = {
        **report,
        "metrics": {metric: {} for metric in report["metrics"]},
        "judged": empty,
        "costs": empty,
        "slices": {"all": empty},
        "from_reference": empty,
    }
    assert row(model_card(broken, audit), "severity_mae") == [""] * len(report["contenders"])


def test_a_citys_name_breaks_no_table(report, audit):
    changed = copy.deepcopy(report)
    changed["slices"] = {"city:a|b<script>": report["slices"]["all"]}
    card = model_card(changed, audit)
    assert "| city:a\\|b&lt;script> |" in card
    assert "<script" not in card
