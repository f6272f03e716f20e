"""Colours of settlement, tilt and growth: classes by quantiles of the city, and faint where nothing is known."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.reporting.colours import PROBABILITY_EDGES
from plumbline.serve.columns import format_permille
from plumbline.serve.map.document import PAGE
from plumbline.serve.report.drawings import probability_colour

SCRIPTS = Path(__file__).parents[3] / "web" / "src"
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node builds the page, and is not here")


def evaluate(expression, buildings, script="colours.js"):
    """The value of an expression of JavaScript, in which `c` is the module and `b` the buildings."""
    code = f"import * as c from {json.dumps((SCRIPTS / script).as_uri())}; const b = {json.dumps(buildings)};"
    code += f"console.log(JSON.stringify({expression}))"
    run = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def scale(name, values):
    """Edges and colours of a measure, and how many of the values are of each class."""
    buildings = [{} if value is None else {name: value} for value in values]
    text = f'(s => [s.edges, s.colours, b.map(one => c.measureStep(one["{name}"], s))])(c.scaleOf(b, "{name}"))'
    edges, colours, steps = evaluate(text, buildings)
    known = [step for step, value in zip(steps, values, strict=True) if value is not None]
    return edges, colours, np.bincount(known, minlength=len(colours)).tolist()


@pytest.mark.parametrize("name", ["settlement_mm", "against_neighbours_mm"])
def test_outliers_do_not_put_the_whole_city_into_one_class_and_classes_mirror_at_0(name):
    values = np.random.default_rng(0).normal(-8, 3, 1000)
    values[:50] *= 100
    edges, colours, counts = scale(name, values.tolist())
    assert sum(counts) == 1000
    assert max(counts) < 400
    assert len(set(colours)) == len(colours) == len(edges) + 1 == 8
    assert edges == [-edge for edge in edges[::-1]]
    assert edges[3] == 0
    assert all(len(f"{abs(edge):g}".replace(".", "").strip("0")) <= 2 for edge in edges)


@pytest.mark.parametrize("name", ["tilt_mm_m", "severity_rate", "damage_rate"])
def test_the_largest_values_have_a_class_however_large_they_are(name):
    values = np.r_[np.random.default_rng(0).exponential(0.3, 950), np.full(50, 1e4)]
    edges, _, counts = scale(name, values.tolist())
    assert max(counts) < 350
    assert counts[-1] >= 25
    assert edges[-1] > values[:900].mean()


def test_equal_values_are_of_one_class_and_all_equal_ones_have_a_colour():
    edges, colours, counts = scale("damage_rate", [0.0024] * 90 + [0.318] * 10 + [None])
    assert counts == [90, 10]
    assert colours[0] != colours[1]
    assert 0.0024 < edges[0] <= 0.318
    assert scale("tilt_mm_m", [0.2] * 3)[2] == [3]
    assert scale("settlement_mm", [-2.0] * 3)[2] == [3, 0]
    assert scale("settlement_mm", [None])[0] == [0]


def test_a_value_is_faint_where_its_90_percent_interval_holds_0():
    buildings = [
        {"settlement_mm": -1.6, "settlement_std_mm": 1},
        {"settlement_mm": -1.7, "settlement_std_mm": 1},
        {"tilt_mm_m": 0.3, "tilt_std_mm_m": 0.2},
        {"tilt_mm_m": 0.4, "tilt_std_mm_m": 0.2},
        {"severity_rate": 0.4, "severity_rate_low": 0},
        {"severity_rate": 0.4, "severity_rate_low": 0.1},
        {"damage_rate": 0.1},
        {},
    ]
    names = ["settlement_mm"] * 2 + ["tilt_mm_m"] * 2 + ["severity_rate"] * 2 + ["damage_rate", "settlement_mm"]
    faint = evaluate(f"{json.dumps(names)}.map((name, i) => c.holdsZero(b[i], name))", buildings)
    assert faint == [True, False, True, False, True, False, False, False]


def test_a_quiet_city_has_more_than_one_colour_of_probability():
    """At Ustica all buildings are of category 0, and 97 % below a probability of 20 %."""
    share = np.quantile(np.random.default_rng(0).lognormal(np.log(0.023), 0.6, 500), np.linspace(0, 1, 100))
    assert max(np.bincount(np.digitize(share, PROBABILITY_EDGES))) < 70


def test_list_and_map_have_the_classes_of_probability_that_the_document_has():
    classes = PAGE["probability_classes"]
    shares = [0.0, 0.0199, 0.02, 0.49, 0.5, 0.8, 1.0]
    buildings = [{"probability": share} for share in [*shares, None]]
    found = evaluate(f'b.map(one => c.buildingColour(one, "p_damaged", {json.dumps(classes)}))', buildings)
    assert found == [*(probability_colour(share) for share in shares), "#ffffff"]


def test_a_strain_is_written_as_of_its_category_in_python_and_on_the_page():
    steps = (-0.006, -0.0049, -0.0001, 0.0, 0.0001, 0.0049)
    near = [bound + step for bound in CATEGORY_BOUNDS_PERMILLE for step in steps]
    strains = [0.0, 0.004, 0.8449, 9.996, *near]
    texts = [format_permille(strain) for strain in strains]
    assert format_permille(0.4996) == "0.49"
    assert all(abs(float(text) - strain) < 0.01 for text, strain in zip(texts, strains, strict=True))
    assert category([float(text) for text in texts]).tolist() == category(strains).tolist()
    assert evaluate(f"b.map(one => c.permille(one, {json.dumps(PAGE['permille'])}))", strains, "dom.js") == texts
