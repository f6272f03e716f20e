"""Which file of footprints a path is or holds, and what is not opened."""

import bz2
import errno
import gzip
import lzma

import pytest

from plumbline.core.errors import InputError
from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import refuses, warned
from tests.sources.footprints.drawn import CRS, assert_same_ground, contents, in_degrees, save
from tests.sources.footprints.test_cases import CASES
from tests.sources.make import squares, zipped

IDS = ["H0", "H1", "H2"]


@pytest.mark.parametrize(("name", "inside"), [("f.zip", ""), ("f.gdb.zip", ""), ("f.zip", "deep/City.GDB/")])
def test_a_zipped_geodatabase_is_read_wherever_its_files_are(tmp_path, name, inside):
    squares().to_file(tmp_path / "b.gdb", driver="OpenFileGDB", layer="buildings")
    assert_same_ground(read_buildings(zipped(tmp_path / name, contents(tmp_path / "b.gdb", inside)), CRS))


def test_a_zip_with_two_geodatabases_warns_which_is_read(tmp_path, caplog):
    squares().to_file(tmp_path / "b.gdb", driver="OpenFileGDB", layer="buildings")
    both = {**contents(tmp_path / "b.gdb", "roads.gdb/"), **contents(tmp_path / "b.gdb", "buildings.gdb/")}
    assert len(read_buildings(zipped(tmp_path / "f.zip", both), CRS)) == 3
    assert warned(caplog, "archive.member_chosen", "f.zip", "buildings.gdb is read")


def test_of_the_layers_of_geofabrik_the_buildings_are_read(tmp_path):
    (tmp_path / "files").mkdir()
    for name in ("gis_osm_buildings_a_free_1", "gis_osm_landuse_a_free_1", "gis_osm_roads_free_1"):
        squares().rename(columns={"building_id": "osm_id"}).to_file(tmp_path / "files" / f"{name}.shp")
    path = zipped(tmp_path / "region-latest-free.shp.zip", contents(tmp_path / "files"))
    assert read_buildings(path, CRS)["building_id"].tolist() == IDS


ELSEWHERE = [
    '<OGRVRTDataSource><OGRVRTLayer name="f"><SrcDataSource>secret.gpkg</SrcDataSource></OGRVRTLayer>'
    "</OGRVRTDataSource>",
    '<?xml version="1.0"?>\n<!-- a -->\n<OGRWFSDataSource><URL>http://127.0.0.1/</URL></OGRWFSDataSource>',
    '{"command_line": "gdal vector pipeline ! read secret.gpkg", "type": "gdal_streamed_alg"}',
]


@pytest.mark.parametrize("text", ELSEWHERE, ids=["VRT", "WFS", "pipeline"])
@pytest.mark.parametrize("name", ["f.json", "f.json.gz", "f.zip"])
def test_a_file_that_points_at_others_opens_none_of_them(tmp_path, text, name):
    squares().to_file(tmp_path / "secret.gpkg")
    path = tmp_path / name
    if name == "f.zip":
        zipped(path, {"f.json": text})
    else:
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    with refuses("file.foreign", name, "points at other files or servers"):
        read_buildings(path, CRS)


EMPTY = '{"type": "FeatureCollection", "features": []}'
REPORT = b'<?xml version="1.0"?>\n<ows:ExceptionReport xmlns:ows="x"></ows:ExceptionReport>'
NO_FOOTPRINTS = {
    "report.geojson": (REPORT, "file.foreign", "error message"),
    "page.geojson": (b"\n<!DOCTYPE html><html><body>Log in</body></html>", "file.foreign", "web page"),
    "lfs.geojson": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "file.foreign", "Git LFS"),
    "tiles.geojson": (b"PMTiles\x03" + b"\0" * 200, "file.foreign", "map tiles"),
    "utf16.geojson": (EMPTY.encode("utf-16"), "file.foreign", "UTF-16"),
    "overpass.json": ((CASES / "messages" / "overpass.json").read_bytes(), "file.foreign", "out:xml"),
    "token.json": (b'{"error": {"code": 499, "message": "Token Required"}}', "file.foreign", "error message"),
    "forbidden.zip": (b'{"message": "Forbidden"}', "archive.not_a_zip", "error message"),
    "begins.zip": (b"PK is not how it begins", "archive.not_a_zip", "Download"),
    "layers.gml": (b'<wfs:WFS_Capabilities xmlns:wfs="w"/>', "file.foreign", "GetFeature"),
    "f.qlr": (b"<!DOCTYPE qgis-layer-definition>\n<qlr/>", "file.foreign", "QGIS"),
    "list.json": (b'[{"id": "1", "type": "Feature", "geometry": null}]', "file.foreign", "`jq "),
    "rows.json": (b'[{"id": "1", "the_geom": {"type": "Polygon"}}]', "file.foreign", "plain JSON"),
    "addresses.txt": (b"https://egms.land.copernicus.eu/EGMS_L2b_117.zip?id=a\n" * 2, "file.foreign", "addresses"),
    "f.dwg": (b"AC1032" + bytes(99), "file.foreign", "DWG"),
    "f.csv.crdownload": (b"pid,easting\na,1\n", "file.unfinished", "download"),
    "outline.csv": (b"POLYGON ((0 0, 1 0, 1 1, 0 0))\n", "csv.no_header", "columns"),
    "links.kml": (b"<kml><Document><NetworkLink><Link/></NetworkLink></Document></kml>", "file.foreign", "KML"),
    "f.geojson.bz2": (bz2.compress(b"{}"), "file.foreign", "bzip2"),
    "f.gpkg.xz": (lzma.compress(b"{}"), "file.foreign", "xz"),
    "f.7z": (b"7z\xbc\xaf\x27\x1c" + b"\0" * 60, "file.foreign", "7z"),
    "f.rar": (b"Rar!\x1a\x07" + b"\0" * 60, "file.foreign", "rar"),
    "f.mbtiles": (b"SQLite format 3\0", "file.foreign", "map tiles"),
    "f.prj": (b'PROJCS["ETRS89"]', "shapefile.part", ".shp"),
    "f.txt": (b"notes about the buildings\n", "footprints.unknown_format", "GeoJSON"),
}
"""Name -> content, key and what the message names: none is called damaged."""


@pytest.mark.parametrize("name", NO_FOOTPRINTS)
def test_what_was_given_instead_of_footprints_is_named_and_not_called_damaged(tmp_path, name):
    content, key, place = NO_FOOTPRINTS[name]
    (tmp_path / name).write_bytes(content)
    with refuses(key, name, place) as refused:
        read_buildings(tmp_path / name, CRS)
    assert "damaged" not in str(refused.value)


def test_an_answer_of_arcgis_in_its_own_json_is_read(tmp_path):
    ring = "[[1463851,4678000],[1463851,4678010],[1463861,4678010],[1463851,4678000]]"
    (tmp_path / "f.json").write_text(
        '{"geometryType":"esriGeometryPolygon","spatialReference":{"wkid":102100,"latestWkid":3857},"fields":'
        '[{"name":"OBJECTID","type":"esriFieldTypeOID"}],"features":[{"attributes":{"OBJECTID":7},"geometry":'
        f'{{"rings":[{ring}]}}}}]}}'
    )
    assert read_buildings(tmp_path / "f.json", CRS)["building_id"].tolist() == ["7"]


def test_a_zip_with_the_latest_rows_of_a_geopackage_beside_it_is_refused(tmp_path):
    squares().to_file(tmp_path / "f.gpkg")
    path = zipped(tmp_path / "f.zip", {"f.gpkg": (tmp_path / "f.gpkg").read_bytes(), "f.gpkg-wal": b"rows"})
    with pytest.raises(InputError, match=r"f\.zip: .*f\.gpkg-wal"):
        read_buildings(path, CRS)


def test_files_on_a_read_only_disk_are_read(tmp_path, monkeypatch):
    """There, the system answers EROFS to whoever removes a file, also one that is not there."""

    def refused(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    path = save(in_degrees(), tmp_path / "f.geojson")
    monkeypatch.setattr(type(tmp_path), "unlink", refused)
    assert len(read_buildings(path, CRS)) == 3


@pytest.mark.parametrize("suffix", ["gpkg", "fgb", "geojson", "geojsonl", "parquet", "csv"])
def test_what_is_cut_off_is_to_be_downloaded_again(tmp_path, suffix):
    key = {"geojsonl": "geojson.cut_off", "csv": "csv.cut_off"}.get(suffix, "footprints.unreadable")
    path = save(in_degrees(), tmp_path / f"f.{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    with refuses(key, path, "Download it again"):
        read_buildings(path, CRS)
