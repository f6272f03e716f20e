"""Cities judged beside least squares: the figures by hand, and what is said of a wrong input."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.heldout.judge import examine
from benchmarks.heldout.scores import MODEL, Scores, score, table
from benchmarks.makers.ninth.city import make_city
from plumbline.validate.metrics import chance_calibration_error

BUILDINGS = 60


@pytest.fixture(scope="module")
def city(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cities") / "xband_small"
    make_city(folder, "X", BUILDINGS, 2)
    return folder


def test_the_engineer_is_judged_on_the_city(city):
    ((name, kind, who, scores),) = examine(city, None)
    assert (name, kind, scores.buildings) == ("xband_small", "xband", BUILDINGS)
    assert 0.25 < scores.quadrant < 0.9
    assert 0 < scores.severity < 3
    assert np.isnan(scores.coverage)
    assert who in table([(name, kind, who, scores)])


def test_scores_count_what_they_say():
    labels = pd.DataFrame(
        {"building_id": list("abcd"), "severity_permille": [0.2, 1.0, 2.0, 4.0], "quadrant": ["", "NE", "NW", "SW"]}
    )
    said = pd.DataFrame(
        {
            "building_id": list("abc"),
            "n_points": [5, 9, 30],
            "quadrant": ["SE", "NE", "SE"],
            "quadrant_confidence": [0.9, 0.8, 0.4],
            "severity_permille": [0.4, 1.0, 1.0],
            "severity_low": [0.1, 0.9, 0.5],
            "severity_high": [0.5, 2.0, 1.5],
        }
    )
    found = score(said, labels, 4)
    # Confidence 0.8 is right, 0.4 is wrong: each a bin of its own. Errors of 0.2, 0 and 1 permille.
    ece, spread = 0.5 * 0.2 + 0.5 * 0.4, np.std([0.2, 0, 1], ddof=1)
    expected = Scores(
        4,
        0.75,
        9,
        0.5,
        0.4,
        2 / 3,
        1.0,
        ece,
        np.sqrt(0.25 / 2),
        spread / np.sqrt(3),
        np.sqrt(2 / 27),
        0.0,
        chance_calibration_error(np.array([0.8, 0.4])),
    )
    np.testing.assert_allclose(found, expected)
    shown = table([("xband", "xband", MODEL, found)])
    assert "**0.500** ± 0.354 (≥ 0.82)" in shown
    assert "| 0.400 ± 0.306 (≤ 0.6) |" in shown
    assert "**0.667** ± 0.272 (0.88 to 0.92)" in shown
