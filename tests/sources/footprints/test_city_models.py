"""City models as CityGML and CityJSON: of each building the ground is read."""

import gzip
import json

import numpy as np
import pyproj
import pytest
import shapely

from plumbline.params import Footprints
from plumbline.sources.footprints import city_models
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.footprints.city_models import known_crs
from tests.refusals import refuses
from tests.sources.footprints.drawn import CRS
from tests.sources.make import zipped

LOCAL, DUTCH = "EPSG:25832", "EPSG:28992"
EAST, NORTH = 350_800.0, 5_641_400.0
DUTCH_EAST, DUTCH_NORTH = 85_000.0, 446_000.0
GML = {
    "1.0": "http://www.opengis.net/gml",
    "2.0": "http://www.opengis.net/gml",
    "3.0": "http://www.opengis.net/gml/3.2",
}


def polygon(corners, name="", swap=False):
    words = " ".join(f"{y:.9f} {x:.9f} {z}" if swap else f"{x:.9f} {y:.9f} {z}" for x, y, z in [*corners, corners[0]])
    named = f' gml:id="{name}"' if name else ""
    return (
        f"<gml:Polygon{named}><gml:exterior><gml:LinearRing><gml:posList>{words}</gml:posList></gml:LinearRing>"
        "</gml:exterior></gml:Polygon>"
    )


def member(shape):
    return f"<gml:MultiSurface><gml:surfaceMember>{shape}</gml:surfaceMember></gml:MultiSurface>"


def city_gml(kind="ground", version="2.0", name="urn:ogc:def:crs,crs:EPSG::25832,crs:EPSG::7837", crs=None, swap=False):
    """One block of 10 x 8 x 6 m."""
    base = [(EAST, NORTH, 50.0), (EAST + 10, NORTH, 50.0), (EAST + 10, NORTH + 8, 50.0), (EAST, NORTH + 8, 50.0)]
    if crs is not None:
        way = pyproj.Transformer.from_crs(LOCAL, crs, always_xy=True)
        base = [(*way.transform(x, y), z) for x, y, z in base]
    roof = [(x, y, z + 6) for x, y, z in base]
    walls = [[base[one], base[other], roof[other], roof[one]] for one, other in ((0, 1), (1, 2), (2, 3), (3, 0))]
    ground, *others = [polygon(face, f"F{number}", swap) for number, face in enumerate([base, roof, *walls])]

    def bounded(surface, shape):
        space = "con" if version == "3.0" else "bldg"
        return (
            f"<bldg:boundedBy><{space}:{surface}><bldg:lod2MultiSurface>{member(shape)}</bldg:lod2MultiSurface>"
            f"</{space}:{surface}></bldg:boundedBy>"
        )

    def solid(level):
        faces = "".join(f"<gml:surfaceMember>{shape}</gml:surfaceMember>" for shape in (ground, *others))
        return (
            f"<bldg:lod{level}Solid><gml:Solid><gml:exterior><gml:CompositeSurface>{faces}</gml:CompositeSurface>"
            f"</gml:exterior></gml:Solid></bldg:lod{level}Solid>"
        )

    walled = "".join(bounded("WallSurface", shape) for shape in others)
    bodies = {
        "ground": bounded("GroundSurface", ground) + walled,
        "linked": solid(2) + "<bldg:boundedBy><bldg:GroundSurface><bldg:lod2MultiSurface><gml:MultiSurface>"
        '<gml:surfaceMember xlink:href="#F0"/></gml:MultiSurface></bldg:lod2MultiSurface></bldg:GroundSurface>'
        "</bldg:boundedBy>",
        "flat": f"<bldg:lod0RoofEdge>{member(polygon(roof, 'R', swap))}</bldg:lod0RoofEdge>" + walled,
        "solid": solid(1),
    }
    part = '<bldg:consistsOfBuildingPart><bldg:BuildingPart gml:id="P">'
    bodies["part"] = f"{part}{bodies['ground']}</bldg:BuildingPart></bldg:consistsOfBuildingPart>"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<core:CityModel xmlns:core="http://www.opengis.net/citygml/{version}" '
        f'xmlns:bldg="http://www.opengis.net/citygml/building/{version}" xmlns:con="http://www.opengis.net/citygml/'
        f'construction/{version}" xmlns:gen="http://www.opengis.net/citygml/generics/{version}" '
        f'xmlns:gml="{GML[version]}" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<gml:boundedBy><gml:Envelope srsName="{name}" srsDimension="3"/></gml:boundedBy>'
        '<core:cityObjectMember><bldg:Building gml:id="N0"><bldg:floors>2</bldg:floors>'
        '<gen:stringAttribute name="Gemeinde"><gen:value>053</gen:value></gen:stringAttribute>'
        f"{bodies[kind]}</bldg:Building></core:cityObjectMember>"
        "<core:cityObjectMember><core:Tree/></core:cityObjectMember></core:CityModel>"
    )


def city_json(kinds=("ground", "plain"), name="https://www.opengis.net/def/crs/EPSG/0/7415"):
    """Blocks of 10 x 8 x 6 m, 20 m apart."""
    objects, vertices = {}, []
    for number, kind in enumerate(kinds):
        first, left = len(vertices), 20_000 * number
        ground = [[left, 0, 0], [left + 10_000, 0, 0], [left + 10_000, 8_000, 0], [left, 8_000, 0]]
        vertices += ground + [[x, y, 6_000] for x, y, _ in ground]
        faces = [[[0, 3, 2, 1]], [[4, 5, 6, 7]], [[0, 1, 5, 4]], [[1, 2, 6, 5]], [[2, 3, 7, 6]], [[3, 0, 4, 7]]]
        faces = [[[first + corner for corner in ring] for ring in face] for face in faces]
        solid = {"type": "Solid", "lod": "2.2", "boundaries": [faces]}
        if kind in ("ground", "part"):
            surfaces = [{"type": "GroundSurface"}, {"type": "RoofSurface"}, {"type": "WallSurface"}]
            solid["semantics"] = {"surfaces": surfaces, "values": [[0, 1, 2, 2, None, 2]]}
        flat = {"type": "MultiSurface", "lod": "0", "boundaries": [faces[0]]}
        shapes = {"flat": [flat, solid], "part": []}.get(kind, [solid])
        building = {"type": "Building", "attributes": {"floors": 2}, "geometry": shapes}
        if kind == "part":
            building["children"] = [f"N{number}-1"]
            objects[f"N{number}-1"] = {"type": "BuildingPart", "parents": [f"N{number}"], "geometry": [solid]}
        objects[f"N{number}"] = building
    return {
        "type": "CityJSON",
        "version": "2.0",
        "transform": {"scale": [0.001] * 3, "translate": [DUTCH_EAST, DUTCH_NORTH, 0.0]},
        "metadata": {"referenceSystem": name},
        "CityObjects": {**objects, "T": {"type": "SolitaryVegetationObject"}},
        "vertices": vertices,
    }


def check(read, local=DUTCH, east=DUTCH_EAST, north=DUTCH_NORTH, count=2):
    assert read["building_id"].tolist() == [f"N{number}" for number in range(count)]
    assert read["floors"].astype(int).tolist() == [2] * count
    there = read.to_crs(local)
    np.testing.assert_allclose(there.area, 80, rtol=1e-3)
    np.testing.assert_allclose(there.bounds.to_numpy()[0], [east, north, east + 10, north + 8], atol=0.3)


def check_gml(path, text):
    path.write_text(text)
    read = read_buildings(path, CRS)
    check(read, LOCAL, EAST, NORTH, 1)
    return read


@pytest.mark.parametrize(
    ("kind", "version"),
    [("ground", "1.0"), *((kind, "2.0") for kind in ("ground", "linked", "flat", "solid", "part")), ("ground", "3.0")],
)
def test_of_city_gml_the_ground_of_each_building_is_read(tmp_path, kind, version):
    read = check_gml(tmp_path / "f.gml", city_gml(kind, version))
    assert read["Gemeinde"].tolist() == ["053"]
    assert [path.name for path in tmp_path.iterdir()] == ["f.gml"]


@pytest.mark.parametrize(("kind", "indent"), [("ground", None), ("part", 2), ("flat", None), ("plain", None)])
def test_of_city_json_the_ground_of_each_building_is_read(tmp_path, kind, indent):
    (tmp_path / "f.city.json").write_text(json.dumps(city_json((kind, kind)), indent=indent))
    check(read_buildings(tmp_path / "f.city.json", CRS))


@pytest.mark.parametrize("name", ["f.city.jsonl", "f.city.jsonl.gz"])
def test_city_json_with_a_feature_a_line_is_read(tmp_path, name):
    whole = city_json(("ground", "part"))
    lines = [{**whole, "CityObjects": {}, "vertices": []}]
    for number in range(2):
        objects = {key: one for key, one in whole["CityObjects"].items() if key.startswith(f"N{number}")}
        lines.append({"type": "CityJSONFeature", "CityObjects": objects, "vertices": whole["vertices"]})
    content = "\n".join(map(json.dumps, lines)).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    check(read_buildings(tmp_path / name, CRS))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("EPSG:25832", 25832),
        ("urn:ogc:def:crs:EPSG::28992", 28992),
        ("urn:ogc:def:crs,crs:EPSG:6.12:25832,crs:EPSG:6.12:5783", 25832),
        ("urn:adv:crs:ETRS89_UTM32*DE_DHHN2016_NH*GCG2016", 25832),
        ("urn:adv:crs:DE_DHDN_3GK2*DE_DHHN92", 31466),
        ("urn:adv:crs:DE_RD-83_3GK5", 3399),
        ("urn:adv:crs:DE_42-83_3GK4", 2398),
        ("urn:adv:crs:ETRS89_Lat-Lon-h", 4258),
        ("http://www.opengis.net/def/crs/EPSG/0/7415", 28992),
    ],
)
def test_a_crs_is_known_by_any_of_its_names(name, code):
    assert known_crs(name).to_epsg() == code


@pytest.mark.parametrize("name", ["f.gml.gz", "f.zip"])
def test_packed_models_are_read(tmp_path, name):
    path, text = tmp_path / name, city_gml().encode()
    if name == "f.zip":
        zipped(path, {"deep/f.gml": text})
    else:
        path.write_bytes(gzip.compress(text))
    check(read_buildings(path, CRS), LOCAL, EAST, NORTH, 1)


def test_a_crs_may_be_stated_and_is_asked_for(tmp_path):
    path = tmp_path / "f.json"
    path.write_text(json.dumps(city_json(name=None)))
    check(read_buildings(path, CRS, stated={"*": Footprints(crs=DUTCH)}))
    with refuses("footprints.no_crs", "f.json"):
        read_buildings(path, CRS)


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("name", "crs"),
    [("http://www.opengis.net/def/crs/EPSG/0/4979", "EPSG:4979"), ("urn:adv:crs:DE_DHDN_3GK2*DE_DHHN92", "EPSG:31466")],
)
def test_whichever_coordinate_stands_first_the_place_is_the_same(tmp_path, name, crs, swap):
    path, text = tmp_path / "f.gml", city_gml(name=name, crs=crs, swap=swap)
    if crs == "EPSG:4979" and not swap:
        # Either order is a place on Earth: that of the CRS counts, and the file lies.
        path.write_text(text)
        assert read_buildings(path, CRS).to_crs(LOCAL).total_bounds[1] < 2e6
    else:
        check_gml(path, text)


GML_TEXT, JSON_TEXT = city_gml(), json.dumps(city_json())
REFUSED = {
    "CRSs.gml": (
        GML_TEXT.replace("<bldg:Building ", '<bldg:Building srsName="EPSG:25833" '),
        *("city_model.several_crss", "EPSG:25833"),
    ),
    "entities.gml": (
        GML_TEXT.replace("<core:CityModel", '<!DOCTYPE x [<!ENTITY a "b">]>\n<core:CityModel', 1),
        *("gml.doctype", "DOCTYPE"),
    ),
    "cut.gml": (GML_TEXT[:-40], "gml.unreadable", "line "),
    "deep.gml": (GML_TEXT.replace("<core:Tree/>", "<a>" * 100 + "</a>" * 100), "gml.too_deep", 64),
    "empty.gml": (GML_TEXT.replace("bldg:Building", "bldg:Other"), "city_model.no_building"),
    "empty.json": (json.dumps(city_json(())), "city_model.no_building"),
    "corners.json": (json.dumps({**city_json(), "vertices": [[0, 0]]}), "footprints.unreadable"),
    "geometry.json": (
        json.dumps({**city_json(), "CityObjects": {"a": {"type": "Building", "geometry": 3}}}),
        "footprints.unreadable",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_city_model_is_refused(tmp_path, name):
    text, key, *places = REFUSED[name]
    (tmp_path / name).write_text(text)
    with refuses(key, name, *places):
        read_buildings(tmp_path / name, CRS)


def test_one_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(city_models, "MAX_BYTES", 1000)
    (tmp_path / "f.json").write_text(JSON_TEXT)
    with refuses("city_model.too_large", "f.json", "1,000 bytes", "CityJSONSeq"):
        read_buildings(tmp_path / "f.json", CRS)


def test_grounds_that_touch_become_one_outline():
    faces = [[np.array([[left, 0, 0], [left + 1, 0, 0], [left + 1, 1, 0], [left, 1, 0]], float)] for left in (0, 1)]
    assert city_models.flat(faces).equals(shapely.box(0, 0, 2, 1))
