"""Answers of servers that are a part of what the server has."""

import json
import shutil
import zipfile

import pytest

from plumbline.params import Product
from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.footprints.ends import Page, read_page
from tests.refusals import warned, warning_keys
from tests.sources.footprints.drawn import CRS, geojson, moved, save
from tests.sources.footprints.test_cases import CASES
from tests.sources.make import squares, zipped
from tests.sources.points.opening import read_points

HEAD, TAIL = '{"type": "FeatureCollection"', "}"
NEXT = {"rel": "next", "href": "https://example.org/items?offset=20"}
SELF = {"rel": "self", "href": "https://example.org/items"}


def collection(before="", after="", **properties):
    feature = {"type": "Feature", "properties": properties, "geometry": {"type": "Point", "coordinates": [1, 2]}}
    return f'{HEAD}{before}, "features": [{json.dumps(feature)}]{after}{TAIL}'


def members(**found):
    return "".join(f", {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items())


@pytest.mark.parametrize(
    ("said", "page"),
    [
        ({"totalFeatures": 36, "numberReturned": 20}, Page(36, 20)),  # GeoServer
        ({"totalFeatures": "unknown", "numberReturned": 20}, Page(None, 20)),
        ({"numberMatched": 36, "numberReturned": 20, "links": [SELF, NEXT]}, Page(36, 20, True)),  # pygeoapi
        ({"links": [SELF, {"rel": "prev", "href": "https://example.org"}]}, Page()),  # the last page
        ({"links": {"next": "https://example.org/?page=2"}}, Page(has_more=True)),  # JSON:API
        ({"_links": {"next": {"href": "/items?page=2"}}}, Page(has_more=True)),  # HAL
        ({"exceededTransferLimit": True}, Page(has_more=True)),  # ArcGIS
        ({"properties": {"exceededTransferLimit": True}}, Page(has_more=True)),  # ArcGIS Online
        ({"count": 36, "next": "https://example.org/?page=2", "previous": None}, Page(36, None, True)),  # Django REST
        ({"count": 36, "next": None, "previous": "https://example.org/?page=1"}, Page(36)),
        ({"context": {"matched": 36, "returned": 20}}, Page(36, 20)),  # STAC
        ({"@odata.nextLink": "https://example.org/?skip=20"}, Page(has_more=True)),
        ({"remark": "runtime error: Query timed out"}, Page(fault="runtime error: Query timed out")),  # Overpass
        ({"remark": "Buildings of 2026"}, Page()),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["before", "after"])
def test_json_says_it_before_or_after_the_features(said, page, place):
    text = collection(**{place: members(**said)})
    assert read_page(text, text) == page
    # Of a large file, beginning and end are apart.
    cut = text.index('"geometry"')
    assert read_page(text[:cut], text[cut:]) == page


def test_a_column_of_such_a_name_says_nothing():
    text = collection(numberMatched=36, next="https://example.org", exceededTransferLimit=True, links=[NEXT])
    assert read_page(text, text) == Page()


GML = '<?xml version="1.0"?>\n<wfs:FeatureCollection xmlns:wfs="w" {}><wfs:member/>{}</wfs:FeatureCollection>'
OSM = '<?xml version="1.0"?>\n<osm version="0.6" generator="Overpass API"><node id="1"/><remark> {} </remark></osm>'


@pytest.mark.parametrize(
    ("text", "page"),
    [
        (GML.format('numberMatched="36" numberReturned="20"', ""), Page(36, 20)),
        (GML.format("numberMatched='unknown' numberReturned='20' next='https://x/?s=20'", ""), Page(None, 20, True)),
        (GML.format('numberMatched="unknown" numberReturned="20"', ""), Page(None, 20)),
        (GML.format('numberOfFeatures="20"', ""), Page(None, 20)),  # WFS 1.1 counts what it gives
        (GML.format('numberReturned="20"', "<wfs:truncatedResponse/>"), Page(None, 20, fault="truncatedResponse")),
        (OSM.format("runtime error: Query timed out"), Page(fault="runtime error: Query timed out ")),
        (OSM.format("from the extract of Monday"), Page()),
    ],
)
def test_xml_says_it_at_its_root_or_its_end(text, page):
    assert read_page(text, text) == page


@pytest.mark.parametrize("name", ["wfs_page.geojson", "oapif_page.geojson", "wfs4326_page.gml"])
def test_a_page_is_read_with_a_warning_of_both_numbers(tmp_path, caplog, name):
    for path in (CASES / "wfs-page").glob(f"{name.partition('.')[0]}.*"):
        shutil.copyfile(path, tmp_path / path.name)  # GDAL writes beside a GML
    assert len(read_buildings(tmp_path / name, CRS)) == 20
    assert warned(caplog, "page.incomplete", name, "20 features of 36")


@pytest.mark.parametrize(
    ("said", "key", "place"),
    [
        ({}, None, ""),
        ({"numberMatched": 3, "numberReturned": 3, "links": [NEXT]}, None, ""),
        ({"numberMatched": 3, "numberReturned": 1}, None, ""),  # pages that were joined keep the number of the first
        ({"numberReturned": 1000}, "page.usual_limit", "1000 features"),
        ({"numberReturned": 1300}, None, ""),
        ({"numberReturned": 1000, "numberMatched": 1000}, None, ""),
        ({"numberMatched": 4}, "page.incomplete", "3 features of 4 "),
        ({"exceededTransferLimit": True}, "page.has_next", "3 features"),
        ({"remark": "runtime error: out of memory"}, "page.broken_off", "runtime error: out of memory"),
    ],
)
def test_what_a_file_has_counts(tmp_path, caplog, said, key, place):
    assert len(read_buildings(geojson(tmp_path / "f.geojson", map(moved, range(3)), after=said), CRS)) == 3
    assert warning_keys(caplog) == ([key] if key else [])
    assert not key or warned(caplog, key, "f.geojson", place)


@pytest.mark.parametrize(("asked", "said"), [("maxFeatures=3", True), ("count=3", True), ("maxFeatures=50", False)])
def test_a_zip_of_geoserver_has_the_limit_of_its_request(tmp_path, caplog, asked, said):
    path = save(squares().rename(columns={"building_id": "id"}), tmp_path / "f.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("wfsrequest.txt", f"https://example.org/wfs?{asked}&outputFormat=SHAPE-ZIP")
    read_buildings(tmp_path / "f.zip", CRS)
    assert bool(warned(caplog, "page.request_limit", "f.zip: 3 features", f"wfsrequest.txt allows ({asked})")) == said


@pytest.mark.parametrize("packed", [False, True])
def test_points_are_warned_of_too(tmp_path, caplog, packed):
    columns = ("CODE", "HEIGHT", "H_STDEV", "VEL", "V_STDEV", "COHERENCE", "EFF_AREA")
    about = dict.fromkeys((*columns, *(f"D2020{month:02}01" for month in range(1, 11))), 0.5)
    point = {"type": "Feature", "properties": about, "geometry": {"type": "Point", "coordinates": [12.5, 41.9]}}
    path = tmp_path / "p.geojson"
    path.write_text(
        json.dumps({"type": "FeatureCollection", "numberMatched": 9, "numberReturned": 1, "features": [point]})
    )
    path = zipped(tmp_path / "p.zip", {path.name: path.read_bytes()}) if packed else path
    read_points(path, {"*": Product(incidence_deg=38.0, heading_deg=350.0)})
    assert len(warned(caplog, "page.incomplete", path.name, "1 features of 9")) == 1
