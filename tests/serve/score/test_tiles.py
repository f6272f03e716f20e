from types import SimpleNamespace

import geopandas
import numpy as np
import shapely

from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.serve.predictions import make_predictions, write_predictions
from plumbline.serve.score.tiles import ANSWERS, REASON, ROWS, read_answers


def tile(folder, rows, unsure):
    """Answers for the buildings at `rows` of the file, some of which want a probable quadrant alone."""
    folder.mkdir()
    shapes = [shapely.box(20 * row, 0, 20 * row + 9, 9) for row in rows]
    frame = geopandas.GeoDataFrame({"building_id": [f"B{row}" for row in rows]}, geometry=shapes, crs="EPSG:32633")
    status = ["insufficient_points" if one else "ok" for one in unsure]
    ones = np.ones(len(rows))
    table = make_predictions(frame, status, 9 * ones.astype(int), np.full((len(rows), 4), 0.25), ones, ones, ones, "1")
    write_predictions(table, folder / ANSWERS)
    np.save(folder / ROWS, np.array(rows))
    np.save(folder / REASON, np.where(unsure, UNSURE_WHERE, "ok"))
    return SimpleNamespace(folder=folder)


def test_tiles_together_are_in_the_order_of_the_file(tmp_path):
    tiles = [tile(tmp_path / "a", [3, 0], [True, False]), tile(tmp_path / "b", [2, 1, 4], [False, True, False])]
    table, reason = read_answers(tiles)
    assert table["building_id"].tolist() == [f"B{row}" for row in range(5)]
    assert reason.tolist() == ["ok", UNSURE_WHERE, "ok", UNSURE_WHERE, "ok"]
    assert (table["status"] != "ok").tolist() == (reason != "ok").tolist()
