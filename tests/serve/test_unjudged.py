"""Buildings that are not judged have a layer of their own, which says why in words and in the colours of the map."""

import re
from pathlib import Path

import geopandas
import pyogrio

from plumbline.params import Prepare
from plumbline.prepare.abstention import UNSURE_WHERE, reason_sentences
from plumbline.serve.layers import HATCHINGS, REASON_GROUPS, unjudged_layer
from plumbline.serve.predictions import Outputs, check_outputs, write_predictions
from tests.serve.made import judged_of
from tests.serve.test_predictions import predictions

REASONS = list(reason_sentences(Prepare()))
COLOURS_OF_THE_MAP = Path(__file__).parents[2] / "web" / "src" / "colours.js"


def town(reasons):
    """One judged building, and one for each reason."""
    status = [
        "ok",
        *("out_of_distribution" if one == "out_of_distribution" else "insufficient_points" for one in reasons),
    ]
    names = [f"b{number}" for number in range(len(status))]
    return judged_of(predictions(names, status, reason=["ok", *reasons]))


def test_every_building_that_is_not_judged_has_a_row_that_says_why(tmp_path):
    path = tmp_path / "out.gpkg"
    judged = town(REASONS)
    assert unjudged_layer(town([])) == []
    for _ in range(2):  # a second run replaces the file
        check_outputs(Outputs(path), [], tmp_path / "package")
        write_predictions(judged.table, path, unjudged_layer(judged))
    assert [name for name, _ in pyogrio.list_layers(path)] == ["predictions", "not_judged", "layer_styles"]
    assert geopandas.read_file(path, layer="predictions")["status"].tolist() == judged.table["status"].tolist()
    found = geopandas.read_file(path, layer="not_judged")
    assert found["explanation"].tolist() == [f"Not judged: {said}" for said in judged.explanation[1:]]
    assert list(found) == ["building_id", "n_points", "reason", "explanation", "geometry"]
    assert found["reason"].tolist() == REASONS
    wanted = judged.table.iloc[1:]
    assert found["building_id"].tolist() == wanted["building_id"].tolist()
    assert found["n_points"].tolist() == wanted["n_points"].tolist()
    assert found.crs == wanted.crs
    assert found.geometry.geom_equals(wanted.geometry.reset_index(drop=True)).all()
    (orange,) = found.loc[found["reason"] == UNSURE_WHERE, "explanation"]
    assert orange == "Not judged: it may be damaged, and its points do not tell in which quadrant"


def test_every_reason_is_in_one_group_and_has_the_hatching_of_the_web_map():
    assert sorted(name for _, reasons in REASON_GROUPS.values() for name in reasons) == sorted(REASONS)
    text = COLOURS_OF_THE_MAP.read_text(encoding="utf-8")
    grey = re.search(r'UNKNOWN = "(#\w+)"', text)[1]
    lines = {"slash": "/", "backslash": r"\\", "horline": "-", "x": "x"}
    drawn = dict(re.findall(r"^    (\w+): \{ lines: (.*?) \},$", text, re.MULTILINE))
    assert drawn == {
        name: f'"{lines[one.shape]}", colour: ' + ("UNKNOWN" if one.colour == grey else f'"{one.colour}"')
        for name, one in HATCHINGS.items()
    }
