"""Command, service and map give one answer, for two small cities; `tests/serve/test_consistency.py` has the rest."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import geopandas
import jsonschema
import numpy as np
import pandas as pd
import pytest

from plumbline.params import Simulate
from plumbline.serve.columns import LINE_OF_SIGHT, LIST_ORDER
from plumbline.serve.predictions import SUFFIXES, read_predictions
from plumbline.simulate.stage import simulate
from tests.serve.map.town import document_in
from tests.service.served import ended, files, service
from tests.tiny import run_cli

pytest.importorskip("fastapi")
pytestmark = pytest.mark.heavy
BASE = Path(__file__).parents[1] / "fixtures" / "cases" / "base"
TOWNS = {
    "cities": {"x_band": {"band": "X", "buildings": 40, "seed": 2, "movement": "town"}},
    "showcase": {"band": "C", "buildings": 4, "seed": 3},
    "years": 4.0,
    "damaged": 0.3,
}
CITIES = {"X band": "0.3", "one side": "auto"}
"""City -> share of damaged buildings that is asked for."""


@dataclass(frozen=True)
class Shown:
    """All that a city's answer was shown as."""

    name: str
    folder: Path
    table: geopandas.GeoDataFrame
    """Of the command."""
    document: dict[str, Any]
    """In the command's map."""
    of_service: dict[str, Any]
    """Map document of the service."""

    @property
    def on_map(self) -> list[str]:
        """Names of the buildings in the map, in its order."""
        return [feature["properties"]["building_id"] for feature in self.document["buildings"]["features"]]


@pytest.fixture(scope="module")
def towns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("towns")
    simulate(Simulate.model_validate(TOWNS), folder, 1)
    at = folder / "cities" / "x_band"
    return {
        "X band": (sorted(at.glob("EGMS_*.csv")), at / "footprints.geojson"),
        "one side": ([BASE / "asc.csv"], BASE / "fp.gpkg"),
    }


@pytest.fixture(scope="module")
def client(package, fields_package, tmp_path_factory):
    with service(tmp_path_factory.mktemp("service"), package, fields_package) as client:
        yield client


@pytest.fixture(scope="module", params=CITIES)
def shown(request, towns, client, tmp_path_factory):
    """The answer of command and service for a city."""
    (points, buildings), rate = towns[request.param], CITIES[request.param]
    folder = tmp_path_factory.mktemp("shown")
    job = client.post("/v1/predict", files=files(points, buildings), data={"damage_rate": rate}).json()
    asked = ["--points", *points, "--buildings", buildings, "--damage-rate", rate]
    done = run_cli("predict", *asked, "--output", "command.csv", "--map", "map.html", cwd=folder)
    assert done.code == 0, done.err
    assert ended(client, job["id"])["status"] == "done"
    for suffix in SUFFIXES:
        result = client.get(f"/v1/jobs/{job['id']}/result", params={"format": suffix[1:]})
        (folder / f"service{suffix}").write_bytes(result.content)
    document = client.get(f"/v1/jobs/{job['id']}/map").json()
    return Shown(
        request.param, folder, read_predictions(folder / "command.csv"), document_in(folder / "map.html"), document
    )


def test_the_service_gives_the_command_s_table_in_each_format(shown):
    assert (shown.folder / "service.csv").read_bytes() == (shown.folder / "command.csv").read_bytes()
    for suffix in SUFFIXES:
        table = read_predictions(shown.folder / f"service{suffix}")
        pd.testing.assert_frame_equal(
            pd.DataFrame(table.drop(columns="geometry")),
            pd.DataFrame(shown.table.drop(columns="geometry")),
            rtol=1e-12,
            atol=0,
        )


def test_the_service_s_geojson_is_as_its_document_describes_it(shown, client):
    document = client.get("/openapi.json").json()
    content = document["paths"]["/v1/jobs/{job}/result"]["get"]["responses"]["200"]["content"]
    schema = content["application/geo+json"]["schema"] | {"components": document["components"]}
    collection = json.loads((shown.folder / "service.geojson").read_text(encoding="utf-8"))
    jsonschema.validate(collection, schema)
    columns = document["components"]["schemas"]["Building"]["properties"]
    assert list(collection["features"][0]["properties"]) == list(columns)


def test_the_service_draws_the_command_s_map_in_the_order_of_every_list(shown):
    assert shown.of_service == shown.document
    order = shown.table.sort_values(list(LIST_ORDER), ascending=False, na_position="last", kind="stable")
    assert shown.on_map == order["building_id"].tolist()


def test_dates_are_within_the_record(shown):
    first, last = re.findall(r"\d{4}-\d\d-\d\d", shown.document["subtitle"])
    dates = shown.table[["begins_early", "begins", "begins_late"]].dropna()
    assert len(dates) or shown.name != "X band"
    assert ((first <= dates["begins_early"]) & (dates["begins_late"] <= last)).all()
    assert ((dates["begins_early"] <= dates["begins"]) & (dates["begins"] <= dates["begins_late"])).all()
    assert ((dates["begins"] == dates["begins_early"]) == (dates["begins"] == first)).all()


def test_settlements_go_with_the_histories_that_are_shown(shown):
    table, histories = shown.table.set_index("building_id"), shown.document["histories"]
    compared = 0
    for row, name in enumerate(shown.on_map):
        building = table.loc[name]
        changes: dict[int, list[float]] = {}
        for number in histories["buildings"].get(str(row), []):
            track, mm = (histories["series"][number][key] for key in ("track", "mm"))
            days = np.array(histories["tracks"][track]["epochs"], "datetime64[D]").astype(float)
            slope = np.polyfit(days - days[0], np.array(mm, float), 1)[0]
            changes.setdefault(track, []).append(slope * (days[-1] - days[0]))
        if not np.isfinite(building.settlement_mm):
            continue
        assert changes
        if len(histories["tracks"]) == 1:
            assert building.settlement_direction == LINE_OF_SIGHT
        # Sideways movement mostly cancels out between the sides; what is left, and a lean, are allowed for.
        mean = float(np.mean([np.median(part) for part in changes.values()]))
        allowed = 3 * building.settlement_std_mm + 0.3 * max(abs(mean), abs(building.settlement_mm))
        assert abs(building.settlement_mm - mean) <= allowed, (name, mean)
        compared += 1
    assert compared >= 30
