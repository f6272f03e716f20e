import copy
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from plumbline.core.errors import InputError, ParameterError
from plumbline.params import Adapt, Prepare, load_ingest, load_params, load_section, parse_params

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


def refusal(content: Any) -> str:
    with pytest.raises(InputError) as caught:
        parse_params(content, "my.yaml")
    return str(caught.value)


def test_the_projects_own_file_is_good():
    params = load_params(ROOT / "params.yaml")
    assert params.prepare.min_points == GOOD["prepare"]["min_points"]
    assert len(params.gate.rules) == len(GOOD["gate"]["rules"])
    params.gate.check_cities(["bergen"])  # they hold for whatever cities there are


@pytest.mark.parametrize(
    "key",
    ["colour", "train.learnig_rate", "simulate.cities.sentinel_a.size", "prepare.split.dev", "gate.rules.0.metrik"],
)
def test_an_unknown_key_is_named(key):
    said = refusal(changed(key, 1))
    assert key in said
    assert "my.yaml" in said
    if key != "prepare.split.dev":
        assert said == f"my.yaml: {key}: unknown key. Remove it, or check its spelling."


@pytest.mark.parametrize(
    "key",
    ["train", "package", "train.epochs", "simulate.showcase", "gate.rules", "simulate.cities.sentinel_a.band"],
)
def test_a_missing_key_is_named(key):
    assert refusal(without(key)) == f"my.yaml: {key}: missing."


REFUSED = {
    # of the wrong type
    **{("train.epochs", value): f"{value!r} found; " for value in ("many", 2.5, None, True, 0)},
    ("train.augment", "perhaps"): "'perhaps' found; ",
    ("train.batch_size", True): "True found; ",
    ("train.batch_size", "many"): "'many' found; a whole number of buildings needed, or `auto`",
    ("model.attention", "flash"): "'flash' found; one of none, sdpa, ragged needed",
    ("train", 7): "7 found; ",
    ("model", (1, 2)): "",
    ("prepare.split", (1, 2)): "",
    # out of range
    ("train.learning_rate", 0): "0 found; Input should be greater than 0",
    ("model.dropout", 1): "1 found; Input should be less than 1",
    ("prepare.split.test", 0): "0 found; Input should be greater than 0",
    ("export.opset", 21): "21 found; Input should be less than or equal to 20",
    ("train.severity_weight", 1e30): "1e+30 found; Input should be less than or equal to 1000000",
    ("compress.distil_weight", 1e30): "1e+30 found; Input should be less than or equal to 1000000",
    ("compress.pruning_ratio", None): "None found; ",
    ("compress.importance", "looks"): "'looks' found; one of taylor, magnitude needed",
    ("package.name", "Über"): "'Über' found; ",
    ("gate.rules", ()): "",
    ("simulate.cities", ()): "",
    # no number
    ("train.freeze", True): "True found; neither yes nor no is meant here",
}


@pytest.mark.parametrize(("key", "value"), REFUSED, ids=str)
def test_a_value_is_refused_by_its_key_with_what_was_found(key, value):
    said = refusal(changed(key, list(value) if isinstance(value, tuple) else value))
    assert said.startswith(f"my.yaml: {key}: {REFUSED[key, value]}")


@pytest.mark.parametrize(
    ("section", "keys", "words"),
    [
        ("model", {"kernel": 4}, "kernel: 4 found, must be odd"),
        ("model", {"heads": 7}, "heads: 7 found, must divide twice model.channels"),
        ("train", {"quadrant_weight": 0, "severity_weight": 0}, "quadrant_weight, severity_weight: 0 and 0 found"),
        ("train", {"epochs": 5, "curriculum": {"hard": 6}}, "curriculum.hard: 6 found, beyond the 5 epochs"),
        ("train", {"communication": "powersgd", "precision": "fp16"}, "powersgd found with precision fp16"),
        ("simulate", {"cities": {"Big Town": {"band": "C", "buildings": 9, "seed": 0}}}, "Big Town"),
        ("prepare", {"split": {"train": True, "tune": 1, "calibrate": 1, "test": 1}}, "neither yes nor no is meant"),
        ("score", {"alarms": [{"name": "same", "when": "p_damaged > 0.5"}] * 2}, "two rules have the name same"),
    ],
)
def test_what_does_not_go_together_is_named(section, keys, words):
    said = refusal(changed(section, {**GOOD.get(section, {}), **keys}))
    assert said.startswith(f"my.yaml: {section}")
    assert words in said


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
    said = refusal(changed(key, value))
    assert said.startswith(f"my.yaml: {key}: {value!r} found; ")
    assert "finite" in said


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ({}, "one of min, max, max_drop_vs is needed, none found"),
        ({"min": 0.5, "max": 0.9}, "one of min, max, max_drop_vs is needed, min and max found"),
        ({"max": 0.9, "margin": 0.1}, "margin goes with max_drop_vs"),
        ({"max": 0.9, "confidence": 0.9}, "confidence goes with max_drop_vs"),
        ({"max_drop_vs": "float32", "confidence": 95}, "95 found"),
        ({"max_drop_vs": "yesterday"}, "'yesterday' found"),
        ({"max": math.nan}, "nan found"),
        ({"max": 1, "artifact": "int4"}, "'int4' found"),
        (
            {"max": 1, "metric": "severity_mea"},
            "rules.1.metric: 'severity_mea' found; no such name; nearest: severity_mae",
        ),
        ({"max": 1, "metric": "qqq"}, "'qqq' found; one of quadrant_accuracy, "),
        ({"max": 1, "slice": "worse"}, "rules.1.slice: 'worse' found; no such name; nearest: worst"),
        ({"max": 1, "slice": "citty:xband_a"}, "nearest: city:*"),
    ],
)
def test_a_bad_gate_is_named_by_its_place(gate, words):
    said = refusal(changed("gate.rules.1", {"metric": "severity_mae", "artifact": "int8", **gate}))
    assert "gate.rules.1" in said
    assert words in said


def test_a_city_that_is_not_there_is_refused_with_the_nearest():
    gate = {"metric": "severity_mae", "artifact": "int8", "max": 1}
    of_one, of_each = ({**gate, "slice": f"city:{name}"} for name in ("xband_b", "*"))
    section = parse_params(changed("gate.rules", [of_each, of_one])).gate
    section.check_cities(["xband_b", "bergen"])
    nearest = r"^gate\.rules\.1\.slice: 'city:xband_b' found; no such name; nearest: city:xband_c, "
    with pytest.raises(ParameterError, match=nearest):
        section.check_cities(["xband_a", "xband_c"])


def test_every_fault_is_told_at_once():
    content = changed("train.epochs", 0)
    content["model"]["colour"] = "red"
    lines = refusal(content).splitlines()
    assert len(lines) == 2
    assert any("train.epochs" in line for line in lines)
    assert any("model.colour" in line for line in lines)


@pytest.mark.parametrize("content", [None, [], "text", 5])
def test_a_file_of_another_kind_is_refused(content):
    assert "my.yaml: the file" in refusal(content)


def test_nothing_changes_after_loading():
    params = parse_params(GOOD)
    with pytest.raises(ValueError, match="frozen"):
        params.train.epochs = 3


def test_what_is_no_parameters_file_is_refused_by_name(tmp_path):
    with pytest.raises(InputError, match=r"cannot be read \(Is a directory\)\. Give a parameters file"):
        load_params(tmp_path)
    (tmp_path / "deep.yaml").write_text("a: " + "[" * 5000)
    with pytest.raises(InputError, match=r"deep\.yaml: not readable as YAML"):
        load_params(tmp_path / "deep.yaml")
    with pytest.raises(InputError, match=r"none\.yaml: no such file\. Run from the project's root, or give --params"):
        load_params(tmp_path / "none.yaml")


def test_a_key_that_stands_twice_is_refused_and_not_half_forgotten(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text('ingest:\n  min_coherence: 0.7\ningest: {products: {"*": {moved_m: [-5, 3]}}}\n')
    with pytest.raises(InputError, match=r"(?s)params\.yaml: not readable as YAML \('ingest' stands twice.*line 3"):
        load_ingest(path)
    path.write_text('a: &a {x: 1}\nb: &b {<<: *a, x: 2, 1: 0, "1": 0}\nc: {<<: *b, x: 3}\n')
    with pytest.raises(InputError, match="a, b, c: no section"):  # merged keys and names like numbers are no others
        load_ingest(path)


@pytest.mark.parametrize("content", [b"train: [1, 2", b"\xff\xfe\x00", b"a: b: c", b"- {", b"first: 2020-02-30"])
def test_a_file_that_is_not_yaml_is_refused(tmp_path, content):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"params\.yaml: not readable as YAML"):
        load_params(path)


def test_text_of_another_encoding_is_read_by_its_mark_or_refused_by_its_line(tmp_path):
    path, text = tmp_path / "my.yaml", "ingest:\n  products: {'gr\u00f6\u00dfe*.csv': {missing: [-999]}}\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        path.write_text(text, encoding=encoding)
        assert list(load_ingest(path).products) == ["gr\u00f6\u00dfe*.csv"]
    path.write_text(text, encoding="cp1252")
    with pytest.raises(
        InputError, match=r"my\.yaml: not readable as YAML \(line 2: text that is not in UTF-8\)\. Save it as UTF-8"
    ):
        load_ingest(path)


def test_any_section_is_read_from_a_file_of_few(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("adapt: {rank: 8}\ningest:\n")
    assert load_section(path, "adapt", Adapt) == Adapt(rank=8)
    assert load_section(path, "prepare", Prepare) is None
    assert load_section(path, "ingest", Prepare) is None  # named, and empty
    path.write_text("adapt: {rank: 2}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: adapt\.rank: 2 found; "):
        load_section(path, "adapt", Adapt)
    path.write_text("ingest: {products: {'*.csv': {incidence: 30.0}}}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: ingest\.products\.\*\.csv\.incidence: unknown key"):
        load_ingest(path)
    path.write_text("train: {}\n")
    assert load_ingest(path).products == {}
    path.write_text("adept: {rank: 8}\n")
    with pytest.raises(InputError, match=r"mine\.yaml: adept: no section of a params file"):
        load_section(path, "adapt", Adapt)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"when": "p_damaged"}, "one column, one of > >= < <=, and one number needed"),
        ({"when": "__import__('os') > 1"}, "one column, one of"),
        ({"when": "p_damaged > 1e999"}, "one column, one of"),
        ({"when": "p_damaged > 0.5", "ends": 0.6}, r"ends 0.6 lies above the limit 0.5 of when (p_damaged > 0.5)"),
        ({"when": "severity_low <= 1", "ends": 0.5}, r"ends 0.5 lies below the limit 1 of when (severity_low <= 1)"),
        ({"when": "p_damaged > 0.5", "in_a_row": 0}, "score.alarms.0.in_a_row: 0 found"),
        ({"when": "p_damaged > 0.5", "name": "a b"}, "score.alarms.0.name: 'a b' found"),
        ({"when": "p_damaged > 0.5", "buildings": ["a"]}, "buildings needs place"),
        ({"when": "p_damaged > 0.5", "buildings": ["a"], "place": "t", "within": "a.gpkg"}, "give one of them"),
    ],
)
def test_a_rule_of_alarms_that_makes_no_sense_is_refused(rule, said):
    assert said in refusal(changed("score.alarms", [{"name": "bad", **rule}]))
