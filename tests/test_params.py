import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from plumbline.core.errors import ParameterError
from plumbline.params import Adapt, Prepare, Score, load_ingest, load_params, load_section, parse_params
from tests.refusals import refuses

ROOT = Path(__file__).parents[1]
GOOD: dict[str, Any] = yaml.safe_load((ROOT / "params.yaml").read_text())


def changed(key: str, value: Any) -> dict[str, Any]:
    """The good content with the dotted `key` set to `value`."""
    content = copy.deepcopy(GOOD)
    *path, last = key.split(".")
    part: Any = content
    for name in path:
        part = part[int(name) if name.isdigit() else name]
    part[int(last) if last.isdigit() else last] = value
    return content


def without(key: str) -> dict[str, Any]:
    content = copy.deepcopy(GOOD)
    *path, last = key.split(".")
    part: Any = content
    for name in path:
        part = part[name]
    del part[last]
    return content


def check_refused(content: Any, key: str, *places: str) -> None:
    with refuses(key, "my.yaml: ", *places):
        parse_params(content, "my.yaml")


def test_the_projects_own_file_is_good():
    params = load_params(ROOT / "params.yaml")
    assert params.prepare.min_points == GOOD["prepare"]["min_points"]
    assert len(params.gate.rules) == len(GOOD["gate"]["rules"])
    params.gate.check_cities(["bergen"])  # they hold for whatever cities there are


@pytest.mark.parametrize(
    "key", ["colour", "train.learnig_rate", "simulate.cities.sentinel_a.size", "gate.rules.0.metrik"]
)
def test_an_unknown_key_is_named(key):
    check_refused(changed(key, 1), "params.unknown_key", f"{key}: ")


@pytest.mark.parametrize(
    "key",
    ["train", "package", "train.epochs", "simulate.showcase", "gate.rules", "simulate.cities.sentinel_a.band"],
)
def test_a_missing_key_is_named(key):
    check_refused(without(key), "params.missing_key", f"{key}: ")


REFUSED = {
    # of the wrong type
    **{("train.epochs", value): f"{value!r}" for value in ("many", 2.5, None, 0)},
    ("train.augment", "perhaps"): "'perhaps'",
    ("train.batch_size", "many"): "`auto`",
    ("model.attention", "flash"): "none, sdpa, ragged",
    ("train", 7): "7 found",
    ("model", (1, 2)): "",
    ("prepare.split", (1, 2)): "",
    ("prepare.split.dev", 1): "",
    # out of range
    ("train.learning_rate", 0): "greater than 0",
    ("model.dropout", 1): "less than 1",
    ("prepare.split.test", 0): "greater than 0",
    ("export.opset", 21): "20",
    ("train.severity_weight", 1e30): "1000000",
    ("compress.distil_weight", 1e30): "1000000",
    ("compress.pruning_ratio", None): "None",
    ("compress.importance", "looks"): "taylor, magnitude",
    ("package.name", "Über"): "'Über'",
    ("gate.rules", ()): "",
    ("simulate.cities", ()): "",
}


@pytest.mark.parametrize(("key", "value"), REFUSED, ids=str)
def test_a_value_is_refused_by_its_key_with_what_was_found(key, value):
    content = changed(key, list(value) if isinstance(value, tuple) else value)
    check_refused(content, "params.bad_value", key, REFUSED[key, value])


@pytest.mark.parametrize("key", ["train.epochs", "train.batch_size", "train.freeze"])
def test_yes_and_no_are_refused_where_neither_is_meant(key):
    check_refused(changed(key, True), "params.yes_or_no", f"{key}: True")


@pytest.mark.parametrize(
    ("section", "values", "key", "place"),
    [
        ("model", {"kernel": 4}, "kernel.even", "4"),
        ("model", {"heads": 7}, "heads.no_divisor", "7"),
        ("train", {"quadrant_weight": 0, "severity_weight": 0}, "loss.no_weight", "quadrant_weight"),
        ("train", {"epochs": 5, "curriculum": {"hard": 6}}, "curriculum.beyond_epochs", "curriculum.hard: 6"),
        ("train", {"communication": "powersgd", "precision": "fp16"}, "communication.overflow", "fp16"),
        (
            "simulate",
            {"cities": {"Big Town": {"band": "C", "buildings": 9, "seed": 0}}},
            "params.bad_value",
            "Big Town",
        ),
        ("prepare", {"split": {"train": True, "tune": 1, "calibrate": 1, "test": 1}}, "params.yes_or_no", "split"),
        ("score", {"alarms": [{"name": "same", "when": "p_damaged > 0.5"}] * 2}, "alarm.same_name", "same"),
    ],
)
def test_what_does_not_go_together_is_named(section, values, key, place):
    check_refused(changed(section, {**GOOD.get(section, {}), **values}), key, f"my.yaml: {section}", place)


@pytest.mark.parametrize(
    "keys", [{"communication": "fp16", "precision": "fp16"}, {"communication": "powersgd", "precision": "bf16"}]
)
def test_what_goes_together_is_accepted(keys):
    parse_params(changed("train", {**GOOD["train"], **keys}))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "key", ["train.learning_rate", "prepare.buffer_m", "prepare.split.train", "gate.rules.0.margin"]
)
def test_what_is_no_finite_number_is_refused(key, value):
    check_refused(changed(key, value), "params.bad_value", f"{key}: {value!r}", "finite")


@pytest.mark.parametrize(
    ("gate", "key", "place"),
    [
        ({}, "gate.not_one_bound", "none"),
        ({"min": 0.5, "max": 0.9}, "gate.not_one_bound", "min and max"),
        ({"max": 0.9, "margin": 0.1}, "gate.no_comparison", "margin"),
        ({"max": 0.9, "confidence": 0.9}, "gate.no_comparison", "confidence"),
        ({"max_drop_vs": "float32", "confidence": 95}, "params.bad_value", "95"),
        ({"max_drop_vs": "yesterday"}, "params.bad_value", "'yesterday'"),
        ({"max": math.nan}, "params.bad_value", "nan"),
        ({"max": 1, "artifact": "int4"}, "params.bad_value", "'int4'"),
        ({"max": 1, "metric": "severity_mea"}, "params.bad_value", "rules.1.metric: 'severity_mea'; severity_mae"),
        ({"max": 1, "metric": "qqq"}, "params.bad_value", "'qqq'; quadrant_accuracy, "),
        ({"max": 1, "slice": "worse"}, "params.bad_value", "rules.1.slice: 'worse'; worst"),
        ({"max": 1, "slice": "citty:xband_a"}, "params.bad_value", "city:*"),
    ],
)
def test_a_bad_gate_is_named_by_its_place(gate, key, place):
    content = changed("gate.rules.1", {"metric": "severity_mae", "artifact": "int8", **gate})
    check_refused(content, key, "gate.rules.1", *place.split("; "))


def test_a_city_that_is_not_there_is_refused_with_the_nearest():
    gate = {"metric": "severity_mae", "artifact": "int8", "max": 1}
    of_one, of_each = ({**gate, "slice": f"city:{name}"} for name in ("xband_b", "*"))
    section = parse_params(changed("gate.rules", [of_each, of_one])).gate
    section.check_cities(["xband_b", "bergen"])
    with refuses("gate.unknown_city", "gate.rules.1.slice", "'city:xband_b'", "city:xband_c", error=ParameterError):
        section.check_cities(["xband_a", "xband_c"])


def test_every_fault_is_told_at_once():
    content = changed("train.epochs", 0)
    content["model"]["colour"] = "red"
    check_refused(content, "params.unknown_key", "my.yaml: train.epochs", "\n", "my.yaml: model.colour")


@pytest.mark.parametrize("content", [None, [], "text", 5])
def test_a_file_of_another_kind_is_refused(content):
    check_refused(content, "params.bad_value", "the file")


def test_nothing_changes_after_loading():
    params = parse_params(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        params.train.epochs = 3


def test_what_is_no_parameters_file_is_refused_by_name(tmp_path):
    with refuses("file.unreadable", tmp_path, "Is a directory"):
        load_params(tmp_path)
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 5000)
    with refuses("yaml.unreadable", "deep.yaml"):
        load_params(tmp_path / "deep.yaml")
    with refuses("file.missing", "none.yaml", "--params"):
        load_params(tmp_path / "none.yaml")


def test_a_key_that_stands_twice_is_refused_and_not_half_forgotten(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text('ingest:\n  min_coherence: 0.7\ningest: {products: {"*": {moved_m: [-5, 3]}}}\n')
    with refuses("yaml.unreadable", "params.yaml", "'ingest'", "line 3"):
        load_ingest(path)
    path.write_text('a: &a {x: 1}\nb: &b {<<: *a, x: 2, 1: 0, "1": 0}\nc: {<<: *b, x: 3}\n')
    with refuses("params.unknown_section", "a, b, c: "):  # merged keys and names like numbers are no others
        load_ingest(path)


@pytest.mark.parametrize("content", [b"train: [1, 2", b"a: b: c", b"- {"])
def test_a_file_that_is_not_yaml_is_refused(tmp_path, content):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with refuses("yaml.unreadable", "params.yaml"):
        load_params(path)


@pytest.mark.parametrize(
    ("written", "cure"),
    [("036", 'write 36 for a number, "036" for a name'), ("-00.5", "-.5"), ("089", "89"), ("0363100007", "363100007")],
)
def test_a_number_with_a_leading_0_is_refused_by_its_line(tmp_path, written, cure):
    """YAML 1.1 takes 036 for 30."""
    path = tmp_path / "my.yaml"
    path.write_text(f"ingest:\n  products:\n    '*.csv': {{incidence_deg: {written}, heading_deg: 350}}\n")
    with refuses("yaml.unreadable", "my.yaml", "line 3", written, cure):
        load_ingest(path)


def test_names_and_numbers_are_those_of_yaml_1_2(tmp_path):
    """In YAML 1.1, `no` is false, 12:30 is 750 and a day is no text."""
    path = tmp_path / "my.yaml"
    names = ["no", "on", "12:30", "2020-01-01", "1_000", "0-7"]
    path.write_text(
        f"score: {{alarms: [{{name: a, when: p_damaged > 0.5, place: t, buildings: [{', '.join(names)}]}}]}}\n"
    )
    score = load_section(path, "score", Score)
    assert list(score.alarms[0].buildings) == names
    path.write_text("ingest: {products: {'*.csv': {raised_m: 1.5e+2, moved_m: [1e2, -3e-1], track: no}}}\n")
    product = load_ingest(path).products["*.csv"]
    assert (product.raised_m, product.moved_m, product.track) == (150.0, (100.0, -0.3), "no")
    path.write_text("score: {alarms: [{name: a, when: p_damaged > 0.5, place: t, buildings: [363100007]}]}\n")
    with refuses("params.bad_value", "buildings.0: 363100007", "quotes"):
        load_section(path, "score", Score)


def test_text_of_another_encoding_is_read_by_its_mark_or_refused_by_its_line(tmp_path):
    path, text = tmp_path / "my.yaml", "ingest:\n  products: {'gr\u00f6\u00dfe*.csv': {missing: [-999]}}\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_text(text, encoding=encoding)
        assert list(load_ingest(path).products) == ["gr\u00f6\u00dfe*.csv"]
    for content, line in ((text.encode("cp1252"), 2), (b"\xff\xfe\x00", 1)):
        path.write_bytes(content)
        with refuses("yaml.not_utf8", "my.yaml", f"line {line}"):
            load_ingest(path)


def test_any_section_is_read_from_a_file_of_few(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("adapt: {rank: 8}\ningest:\n")
    assert load_section(path, "adapt", Adapt) == Adapt(rank=8)
    assert load_section(path, "prepare", Prepare) is None
    assert load_section(path, "ingest", Prepare) is None  # named, and empty
    path.write_text("adapt: {rank: 2}\n")
    with refuses("params.bad_value", "mine.yaml: adapt.rank: 2"):
        load_section(path, "adapt", Adapt)
    path.write_text("ingest: {products: {'*.csv': {incidence: 30.0}}}\n")
    with refuses("params.unknown_key", "mine.yaml: ingest.products.*.csv.incidence"):
        load_ingest(path)
    path.write_text("train: {}\n")
    assert load_ingest(path).products == {}
    path.write_text("adept: {rank: 8}\n")
    with refuses("params.unknown_section", "mine.yaml: adept"):
        load_section(path, "adapt", Adapt)


@pytest.mark.parametrize(
    ("rule", "key", "place"),
    [
        ({"when": "p_damaged"}, "params.bad_value", "when: 'p_damaged'"),
        ({"when": "__import__('os') > 1"}, "params.bad_value", "when"),
        ({"when": "p_damaged > 1e999"}, "params.bad_value", "when"),
        ({"when": "p_damaged > 0.5", "ends": 0.6}, "alarm.ends_beyond_limit", "above the limit 0.5"),
        ({"when": "severity_low <= 1", "ends": 0.5}, "alarm.ends_beyond_limit", "below the limit 1"),
        ({"when": "p_damaged > 0.5", "in_a_row": 0}, "params.bad_value", "in_a_row: 0"),
        ({"when": "p_damaged > 0.5", "name": "a b"}, "params.bad_value", "name: 'a b'"),
        ({"when": "p_damaged > 0.5", "buildings": ["a"]}, "alarm.no_place", "place"),
        (
            {"when": "p_damaged > 0.5", "buildings": ["a"], "place": "t", "within": "a"},
            "alarm.buildings_and_within",
            "",
        ),
    ],
)
def test_a_rule_of_alarms_that_makes_no_sense_is_refused(rule, key, place):
    check_refused(changed("score.alarms", [{"name": "bad", **rule}]), key, "score.alarms.0", place)
