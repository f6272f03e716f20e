"""Which features of a file are read as buildings."""

import gzip

import pytest

from plumbline.core.errors import InputError
from plumbline.sources.footprints.buildings import read_buildings
from tests.sources.footprints.openstreetmap import pbf

CRS = "EPSG:3035"
NODES = [(1, 38.7, 13.15), (2, 38.7, 13.1502), (3, 38.7001, 13.1502), (4, 38.7001, 13.15)]
NODES += [(5, 38.7, 13.1504), (6, 38.7001, 13.1504)]
WAYS = [
    (10, [1, 2, 3, 4, 1], {"building": "yes", "name": "Café"}),
    (12, [2, 5, 6, 3, 2], {"landuse": "residential"}),
    (13, [2, 5, 6, 3, 2], {}),
    (14, [1, 5, 6, 4, 1], {"building": "no"}),
]
RELATIONS = [(10, [(13, "outer")], {"type": "multipolygon", "building": "house"})]
XML = """<?xml version="1.0" encoding="UTF-8"?>
<osm version="0.6" generator="Overpass API"><note>x</note>
{nodes}{ways}
<relation id="10"><member type="way" ref="13" role="outer"/>
<tag k="type" v="multipolygon"/><tag k="building" v="house"/></relation></osm>"""


def xml():
    nodes = "".join(f'<node id="{one}" lat="{lat}" lon="{lon}"/>' for one, lat, lon in NODES)
    ways = "".join(
        f'<way id="{one}">'
        + "".join(f'<nd ref="{ref}"/>' for ref in refs)
        + "".join(f'<tag k="{key}" v="{value}"/>' for key, value in tags.items())
        + "</way>"
        for one, refs, tags in WAYS
    )
    return XML.format(nodes=nodes, ways=ways).encode()


@pytest.mark.parametrize("name", ["f.osm.pbf", "f.pbf", "f.osm", "f.osm.gz"])
def test_of_openstreetmap_the_buildings_are_read_and_named_as_it_names_them(tmp_path, name, caplog):
    path = tmp_path / name
    content = pbf(NODES, WAYS, RELATIONS) if name.endswith("pbf") else xml()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    read = read_buildings(path, CRS)
    assert sorted(read["building_id"]) == ["relation/10", "way/10"]
    assert read.set_index("building_id")["name"]["way/10"] == "Café"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(pbf(NODES, WAYS[1:3]), "it holds no footprints"), (pbf(NODES, WAYS)[:-9], "not readable")],
    ids=["without buildings", "cut"],
)
def test_openstreetmap_without_buildings_or_cut_is_refused(tmp_path, content, message):
    (tmp_path / "f.osm.pbf").write_bytes(content)
    with pytest.raises(InputError, match=rf"f\.osm\.pbf: {message}"):
        read_buildings(tmp_path / "f.osm.pbf", CRS)
