"""City models as CityGML: of each building the ground is read."""

import gzip

import numpy as np
import pyproj
import pytest

from plumbline.core.errors import InputError
from plumbline.sources.footprints.buildings import read_buildings
from tests.sources.make import zipped

CRS = "EPSG:3035"
LOCAL = "EPSG:25832"
EAST, NORTH = 350_800.0, 5_641_400.0
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


def model(kind="ground", version="2.0", name="urn:ogc:def:crs,crs:EPSG::25832,crs:EPSG::7837", crs=None, swap=False):
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

    walled = "".join(bounded("WallSurface", shape) for shape in others)
    link = '<gml:surfaceMember xlink:href="#F0"/>'
    solid = "".join(f"<gml:surfaceMember>{shape}</gml:surfaceMember>" for shape in (ground, *others))
    bodies = {
        "ground": bounded("GroundSurface", ground) + walled,
        "linked": f"<bldg:lod2Solid><gml:Solid><gml:exterior><gml:CompositeSurface>{solid}</gml:CompositeSurface>"
        "</gml:exterior></gml:Solid></bldg:lod2Solid><bldg:boundedBy><bldg:GroundSurface><bldg:lod2MultiSurface>"
        f"<gml:MultiSurface>{link}</gml:MultiSurface></bldg:lod2MultiSurface></bldg:GroundSurface></bldg:boundedBy>",
        "flat": f"<bldg:lod0RoofEdge>{member(polygon(roof, 'R', swap))}</bldg:lod0RoofEdge>" + walled,
        "solid": f"<bldg:lod1Solid><gml:Solid><gml:exterior><gml:CompositeSurface>{solid}</gml:CompositeSurface>"
        "</gml:exterior></gml:Solid></bldg:lod1Solid>",
    }
    bodies["part"] = (
        '<bldg:consistsOfBuildingPart><bldg:BuildingPart gml:id="P">'
        f"{bodies['ground']}</bldg:BuildingPart></bldg:consistsOfBuildingPart>"
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<core:CityModel xmlns:core="http://www.opengis.net/citygml/{version}" '
        f'xmlns:bldg="http://www.opengis.net/citygml/building/{version}" xmlns:con="http://www.opengis.net/citygml/'
        f'construction/{version}" xmlns:gen="http://www.opengis.net/citygml/generics/{version}" '
        f'xmlns:gml="{GML[version]}" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<gml:boundedBy><gml:Envelope srsName="{name}" srsDimension="3"/></gml:boundedBy>'
        '<core:cityObjectMember><bldg:Building gml:id="DENW1"><bldg:function>31001</bldg:function>'
        '<gen:stringAttribute name="Gemeinde"><gen:value>053</gen:value></gen:stringAttribute>'
        f"{bodies[kind]}</bldg:Building></core:cityObjectMember>"
        "<core:cityObjectMember><core:Tree/></core:cityObjectMember></core:CityModel>"
    )


def check(read):
    assert read["building_id"].tolist() == ["DENW1"]
    there = read.to_crs(LOCAL)
    np.testing.assert_allclose(there.area, 80, rtol=1e-3)
    np.testing.assert_allclose(there.total_bounds, [EAST, NORTH, EAST + 10, NORTH + 8], atol=0.01)


@pytest.mark.parametrize("kind", ["ground", "linked", "flat", "solid", "part"])
@pytest.mark.parametrize("version", ["1.0", "2.0", "3.0"])
def test_the_ground_of_each_building_is_read(tmp_path, kind, version):
    path = tmp_path / "f.gml"
    path.write_text(model(kind, version))
    read = read_buildings(path, CRS)
    check(read)
    assert read["function"].tolist() == ["31001"]
    assert read["Gemeinde"].tolist() == ["053"]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "name",
    [
        "EPSG:25832",
        "urn:ogc:def:crs:EPSG::25832",
        "urn:ogc:def:crs,crs:EPSG:6.12:25832,crs:EPSG:6.12:5783",
        "urn:adv:crs:ETRS89_UTM32*DE_DHHN2016_NH*GCG2016",
        "http://www.opengis.net/def/crs/EPSG/0/25832",
    ],
)
@pytest.mark.parametrize("packed", ["", "gz", "zip"])
def test_a_crs_is_known_by_any_of_its_names(tmp_path, name, packed):
    path = tmp_path / "f.gml"
    path.write_text(model(name=name))
    if packed == "gz":
        path = tmp_path / "f.gml.gz"
        path.write_bytes(gzip.compress((tmp_path / "f.gml").read_bytes()))
    if packed == "zip":
        path = zipped(tmp_path / "f.zip", {"deep/f.gml": path.read_bytes()})
    check(read_buildings(path, CRS))


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize(
    ("name", "crs"),
    [("http://www.opengis.net/def/crs/EPSG/0/4979", "EPSG:4979"), ("urn:adv:crs:DE_DHDN_3GK2*DE_DHHN92", "EPSG:31466")],
)
def test_whichever_coordinate_stands_first_the_place_is_the_same(tmp_path, name, crs, swap):
    path = tmp_path / "f.gml"
    path.write_text(model(name=name, crs=crs, swap=swap))
    if crs == "EPSG:4979" and not swap:
        # Either order is a place on Earth: that of the CRS counts, and the file lies.
        assert read_buildings(path, CRS).to_crs(LOCAL).total_bounds[1] < 2e6
        return
    check(read_buildings(path, CRS))


def test_several_crss_are_refused(tmp_path):
    text = model().replace("<bldg:Building ", '<bldg:Building srsName="EPSG:25833" ')
    (tmp_path / "f.gml").write_text(text)
    with pytest.raises(InputError, match=r"f\.gml: CRSs .*25832.*25833 found"):
        read_buildings(tmp_path / "f.gml", CRS)


def test_a_file_that_defines_entities_is_refused(tmp_path):
    text = model().replace("<core:CityModel", '<!DOCTYPE x [<!ENTITY a "b">]>\n<core:CityModel', 1)
    (tmp_path / "f.gml").write_text(text)
    with pytest.raises(InputError, match=r"f\.gml: a document type \(DOCTYPE\) found"):
        read_buildings(tmp_path / "f.gml", CRS)


@pytest.mark.parametrize("harm", ["cut", "deep", "empty"])
def test_what_is_no_city_model_is_refused(tmp_path, harm):
    text = model()
    text = text[:-40] if harm == "cut" else text
    text = text.replace("<core:Tree/>", "<a>" * 100 + "</a>" * 100) if harm == "deep" else text
    text = text.replace("bldg:Building", "bldg:Other") if harm == "empty" else text
    (tmp_path / "f.gml").write_text(text)
    match = {"cut": "not readable as XML", "deep": "nested more than 64 deep", "empty": "without a building"}[harm]
    with pytest.raises(InputError, match=rf"f\.gml: .*{match}"):
        read_buildings(tmp_path / "f.gml", CRS)
