"""A small city with a house that nobody sees, judged once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import pandas as pd
import pytest
import shapely

from plumbline.pretrained import PACKAGE
from plumbline.serve.judgement import JudgedCity, answer, open_model
from plumbline.sources.city.in_memory import CityInMemory, read_city_files

CASE = Path(__file__).parents[2] / "fixtures/cases/base"
UNSEEN, NAMED = "unseen", "H001"


@pytest.fixture(scope="package")
def footprints(tmp_path_factory) -> Path:
    table = geopandas.read_file(CASE / "fp.gpkg")
    west, south, _, _ = table.total_bounds
    house = geopandas.GeoDataFrame(
        {"building_id": [UNSEEN]}, geometry=[shapely.box(west - 40, south - 40, west - 30, south - 30)], crs=table.crs
    )
    both = pd.concat([table, house], ignore_index=True)
    both["building:material"] = "concrete"
    path = tmp_path_factory.mktemp("footprints") / "houses.gpkg"
    both.to_file(path)
    return path


@pytest.fixture(scope="package")
def city(footprints) -> CityInMemory:
    return read_city_files([CASE / "asc.csv", CASE / "des.csv"], footprints)


@pytest.fixture(scope="package")
def answered(city) -> JudgedCity:
    return answer(city, open_model(PACKAGE))


def changed(answered: JudgedCity, name: str, reason: str = "ok", explanation: str = "", **columns: Any) -> JudgedCity:
    """The same city with other figures of a building."""
    table, judged = answered.judged.table.copy(), answered.judged
    row = int((table["building_id"] == name).argmax())
    reasons, explanations = judged.reason.copy(), judged.explanation.copy()
    reasons[row], explanations[row] = reason, explanation
    table["reason"] = reasons
    for column, value in columns.items():
        if column not in table:
            table[column] = None
        table.loc[table.index[row], column] = value
    return answered._replace(judged=judged._replace(table=table, explanation=explanations))
