"""Which features of a file are read as buildings."""

import gzip

import pytest

from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import refuses, warning_keys
from tests.sources.footprints.drawn import CRS, osm_xml
from tests.sources.footprints.test_cases import CASES

NODES = [(1, 38.7, 13.15), (2, 38.7, 13.1502), (3, 38.7001, 13.1502), (4, 38.7001, 13.15)]
NODES += [(5, 38.7, 13.1504), (6, 38.7001, 13.1504)]
WAYS = [
    (10, [1, 2, 3, 4, 1], {"building": "yes", "name": "Café"}),
    (12, [2, 5, 6, 3, 2], {"landuse": "residential"}),
    (13, [2, 5, 6, 3, 2], {}),
    (14, [1, 5, 6, 4, 1], {"building": "no"}),
]
RELATION = '<relation id="10"><member type="way" ref="13" role="outer"/><tag k="type" v="multipolygon"/>'
RELATION += '<tag k="building" v="house"/></relation>'
PBF = CASES / "openstreetmap" / "town.osm.pbf"
"""The same nodes, ways and relation."""


@pytest.mark.parametrize("name", ["f.osm.pbf", "f.pbf", "f.osm", "f.osm.gz"])
def test_of_openstreetmap_the_buildings_are_read_and_named_as_it_names_them(tmp_path, name, caplog):
    xml = osm_xml(NODES, WAYS, RELATION).encode()
    content = {"pbf": PBF.read_bytes(), "gz": gzip.compress(xml)}.get(name.rpartition(".")[2], xml)
    (tmp_path / name).write_bytes(content)
    read = read_buildings(tmp_path / name, CRS)
    assert sorted(read["building_id"]) == ["relation/10", "way/10"]
    assert read.set_index("building_id")["name"]["way/10"] == "Café"
    assert not warning_keys(caplog)


@pytest.mark.parametrize(
    ("name", "content", "key"),
    [
        ("f.osm", osm_xml(NODES, WAYS[1:3]).encode(), "footprints.none"),
        ("f.osm.pbf", PBF.read_bytes()[:-9], "footprints.unreadable"),
    ],
    ids=["without buildings", "cut"],
)
def test_openstreetmap_without_buildings_or_cut_is_refused(tmp_path, name, content, key):
    (tmp_path / name).write_bytes(content)
    with refuses(key, name):
        read_buildings(tmp_path / name, CRS)
