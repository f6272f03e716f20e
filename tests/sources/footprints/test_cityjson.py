"""City models as CityJSON: of each building the ground is read."""

import gzip
import json

import numpy as np
import pytest
import shapely

from plumbline.core.errors import InputError
from plumbline.params import Footprints
from plumbline.sources.footprints import city_models as cityjson
from plumbline.sources.footprints.buildings import read_buildings

CRS = "EPSG:3035"
LOCAL = "EPSG:28992"
EAST, NORTH = 85_000.0, 446_000.0
SCALE = 0.001


def model(
    solids=("ground", "plain"),
    name="https://www.opengis.net/def/crs/EPSG/0/7415",
    version="2.0",
    east=EAST,
    north=NORTH,
):
    """Blocks of 10 x 8 x 6 m, 20 m apart."""
    objects, vertices = {}, []
    for number, kind in enumerate(solids):
        first = len(vertices)
        left = 20_000 * number
        ground = [[left, 0, 0], [left + 10_000, 0, 0], [left + 10_000, 8_000, 0], [left, 8_000, 0]]
        vertices += ground + [[x, y, 6_000] for x, y, _ in ground]
        faces = [[[0, 3, 2, 1]], [[4, 5, 6, 7]], [[0, 1, 5, 4]], [[1, 2, 6, 5]], [[2, 3, 7, 6]], [[3, 0, 4, 7]]]
        faces = [[[first + corner for corner in ring] for ring in face] for face in faces]
        solid = {"type": "Solid", "lod": "2.2", "boundaries": [faces]}
        if kind in ("ground", "part"):
            kinds = [{"type": "GroundSurface"}, {"type": "RoofSurface"}, {"type": "WallSurface"}]
            solid["semantics"] = {"surfaces": kinds, "values": [[0, 1, 2, 2, None, 2]]}
        flat = {"type": "MultiSurface", "lod": "0", "boundaries": [faces[0]]}
        shapes = {"flat": [flat, solid], "part": []}.get(kind, [solid])
        one = {"type": "Building", "attributes": {"floors": 2}, "geometry": shapes}
        if kind == "part":
            one["children"] = [f"N{number}-1"]
            objects[f"N{number}-1"] = {"type": "BuildingPart", "parents": [f"N{number}"], "geometry": [solid]}
        objects[f"N{number}"] = one
    return {
        "type": "CityJSON",
        "version": "2.0",
        "transform": {"scale": [SCALE] * 3, "translate": [EAST, NORTH, 0.0]},
        "metadata": {"referenceSystem": name},
        "CityObjects": {**objects, "T": {"type": "SolitaryVegetationObject"}},
        "vertices": vertices,
    }


def check(read, count=2):
    assert read["building_id"].tolist() == [f"N{number}" for number in range(count)]
    there = read.to_crs(LOCAL)
    np.testing.assert_allclose(there.area, 80, rtol=1e-3)
    np.testing.assert_allclose(there.bounds.to_numpy()[0], [EAST, NORTH, EAST + 10, NORTH + 8], atol=0.3)


@pytest.mark.parametrize("kind", ["ground", "part", "flat", "plain"])
@pytest.mark.parametrize("indent", [None, 2])
def test_the_ground_of_each_building_is_read(tmp_path, kind, indent):
    path = tmp_path / "f.city.json"
    path.write_text(json.dumps(model((kind, kind)), indent=indent))
    check(read_buildings(path, CRS))


@pytest.mark.parametrize(
    "name",
    ["urn:ogc:def:crs:EPSG::28992", "EPSG:28992", "http://www.opengis.net/def/crs/EPSG/0/7415"],
)
def test_a_crs_is_known_by_any_of_its_names(tmp_path, name):
    (tmp_path / "f.json").write_text(json.dumps(model(name=name)))
    check(read_buildings(tmp_path / "f.json", CRS))


def test_a_crs_may_be_stated_and_is_asked_for(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps(model(name=None)))
    check(read_buildings(path, CRS, stated={"*": Footprints(crs=LOCAL)}))
    with pytest.raises(InputError, match=r"f\.json: the footprints have no CRS"):
        read_buildings(path, CRS)


@pytest.mark.parametrize("name", ["f.city.jsonl", "f.city.jsonl.gz"])
def test_a_feature_a_line_is_read(tmp_path, name):
    whole = model(("ground", "part"))
    head = {**whole, "CityObjects": {}, "vertices": []}
    lines = [head] + [
        {
            "type": "CityJSONFeature",
            "id": f"N{number}",
            "CityObjects": {key: one for key, one in whole["CityObjects"].items() if key.startswith(f"N{number}")},
            "vertices": whole["vertices"],
        }
        for number in range(2)
    ]
    content = "\n".join(map(json.dumps, lines)).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    check(read_buildings(path, CRS))


def test_attributes_are_columns(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(model()))
    assert read_buildings(tmp_path / "f.json", CRS)["floors"].tolist() == [2, 2]


def test_a_model_without_buildings_is_refused(tmp_path):
    (tmp_path / "f.json").write_text(json.dumps(model(())))
    with pytest.raises(InputError, match=r"f\.json: a city model without a building"):
        read_buildings(tmp_path / "f.json", CRS)


def test_one_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cityjson, "MAX_BYTES", 1000)
    (tmp_path / "f.json").write_text(json.dumps(model()))
    with pytest.raises(InputError, match=r"f\.json: more than 1,000 bytes of CityJSON.*CityJSONSeq"):
        read_buildings(tmp_path / "f.json", CRS)


@pytest.mark.parametrize("harm", [{"vertices": [[0, 0]]}, {"CityObjects": {"a": {"type": "Building", "geometry": 3}}}])
def test_what_is_no_city_model_is_refused(tmp_path, harm):
    (tmp_path / "f.json").write_text(json.dumps({**model(), **harm}))
    with pytest.raises(InputError, match=r"f\.json: not readable"):
        read_buildings(tmp_path / "f.json", CRS)


def test_grounds_that_touch_become_one_outline():
    faces = [[np.array([[left, 0, 0], [left + 1, 0, 0], [left + 1, 1, 0], [left, 1, 0]], float)] for left in (0, 1)]
    assert cityjson.flat(faces).equals(shapely.box(0, 0, 2, 1))
