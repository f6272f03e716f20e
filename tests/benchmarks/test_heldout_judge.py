"""Cities judged beside least squares: the figures by hand, and what is said of a wrong input."""

import numpy as np
import pandas as pd

from benchmarks.heldout.scores import MODEL, Scores, chance_calibration_error, score, table


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
    errors = np.sqrt(0.25 / 2), spread / np.sqrt(3), np.sqrt(2 / 27), 0.0
    chance = chance_calibration_error(np.array([0.8, 0.4]))
    expected = Scores(4, 0.75, 9, 0.5, 0.4, 2 / 3, 1.0, ece, *errors, chance)
    np.testing.assert_allclose(found, expected)
    shown = table([("xband", "xband", MODEL, found)])
    assert "**0.500** ± 0.354 (≥ 0.82)" in shown
    assert "| 0.400 ± 0.306 (≤ 0.6) |" in shown
    assert "**0.667** ± 0.272 (0.88 to 0.92)" in shown
