"""`plumbline score` on real deliveries: what it publishes, what it leaves, and what a kill costs."""

from __future__ import annotations

import geopandas
import pandas as pd
import pytest

from plumbline.serve.predictions import read_predictions
from tests.serve.score.conftest import PLACE, Town, days
from tests.tiny import run_cli


def test_a_delivery_is_answered_as_predict_answers(town: Town):
    folder = town.deliver("2026-11")
    ended = town.score()
    assert ended.code == 0, ended.err
    (result,) = town.results()
    points = [word for path in sorted(folder.glob("*.csv")) for word in ("--points", path)]
    plain = run_cli(
        "predict", *points, "--buildings", folder / "footprints.geojson", "--model", town.package,
        "--output", "plain.gpkg", cwd=town.folder,
    )  # fmt: skip
    assert plain.code == 0, plain.err
    found, wanted = read_predictions(result / "predictions.gpkg"), read_predictions(town.folder / "plain.gpkg")
    print(ended.err)
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(wanted), atol=1e-4)
