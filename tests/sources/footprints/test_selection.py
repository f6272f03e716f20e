"""Which features of a file are read as buildings."""

import gzip

import pytest

from plumbline.core.errors import InputError
from plumbline.sources.footprints.buildings import read_buildings
from tests.sources.footprints.drawn import CRS, osm_xml, warnings_in
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
    assert not warnings_in(caplog)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("f.osm", osm_xml(NODES, WAYS[1:3]).encode(), "it holds no footprints"),
        ("f.osm.pbf", PBF.read_bytes()[:-9], "not readable"),
    ],
    ids=["without buildings", "cut"],
)
def test_openstreetmap_without_buildings_or_cut_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"{name}: {message}"):
        read_buildings(tmp_path / name, CRS)
