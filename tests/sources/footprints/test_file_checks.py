"""Which file of footprints a path is or holds, and what is not opened."""

import bz2
import errno
import gzip
import lzma

import pytest

from plumbline.core.errors import InputError
from plumbline.sources.footprints.buildings import read_buildings
from tests.sources.make import squares, zipped

CRS = "EPSG:3035"
IDS = ["H0", "H1", "H2"]


def members(folder, inside=""):
    return {f"{inside}{path.name}": path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("inside", ["", "city.gdb/", "deep/City.GDB/"])
@pytest.mark.parametrize("name", ["f.zip", "f.gdb.zip"])
def test_a_zipped_geodatabase_is_read(tmp_path, inside, name):
    squares().to_file(tmp_path / "b.gdb", driver="OpenFileGDB", layer="buildings")
    path = zipped(tmp_path / name, members(tmp_path / "b.gdb", inside))
    assert read_buildings(path, CRS)["building_id"].tolist() == IDS
    assert read_buildings(tmp_path / "b.gdb", CRS)["building_id"].tolist() == IDS


def test_a_zip_with_two_geodatabases_says_which_is_read(tmp_path, caplog):
    squares().to_file(tmp_path / "b.gdb", driver="OpenFileGDB", layer="buildings")
    both = {**members(tmp_path / "b.gdb", "roads.gdb/"), **members(tmp_path / "b.gdb", "buildings.gdb/")}
    assert len(read_buildings(zipped(tmp_path / "f.zip", both), CRS)) == 3
    assert "buildings.gdb is read" in caplog.text


@pytest.mark.parametrize(("suffix", "driver"), [("tab", "MapInfo File"), ("geojsonl", "GeoJSONSeq"), ("kml", "KML")])
def test_other_formats_are_found_in_a_zip_too(tmp_path, suffix, driver):
    folder = tmp_path / "files"
    folder.mkdir()
    squares().to_crs("EPSG:4326").to_file(folder / f"f.{suffix}", driver=driver)
    path = zipped(tmp_path / "f.zip", {**members(folder), "about.xml": "<metadata/>"})
    assert len(read_buildings(path, CRS)) == 3


def test_of_the_layers_of_geofabrik_the_buildings_are_read(tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for name in ("gis_osm_buildings_a_free_1", "gis_osm_landuse_a_free_1", "gis_osm_roads_free_1"):
        squares().rename(columns={"building_id": "osm_id"}).to_file(folder / f"{name}.shp")
    path = zipped(tmp_path / "region-latest-free.shp.zip", members(folder))
    assert read_buildings(path, CRS)["building_id"].tolist() == IDS


def test_a_zip_in_a_zip_says_what_it_holds(tmp_path):
    path = zipped(tmp_path / "f.zip", {"inner.zip": b"PK"})
    with pytest.raises(InputError, match=r"f\.zip: no file of footprints .* it holds inner\.zip\. Unpack it"):
        read_buildings(path, CRS)


ELSEWHERE = [
    '<OGRVRTDataSource><OGRVRTLayer name="f"><SrcDataSource>secret.gpkg</SrcDataSource></OGRVRTLayer>'
    "</OGRVRTDataSource>",
    '<?xml version="1.0"?>\n<!-- a -->\n<OGRWFSDataSource><URL>http://127.0.0.1/</URL></OGRWFSDataSource>',
    '{"command_line": "gdal vector pipeline ! read secret.gpkg", "type": "gdal_streamed_alg"}',
]


@pytest.mark.parametrize("text", ELSEWHERE)
@pytest.mark.parametrize("packed", ["", "gz", "zip"])
def test_a_file_that_points_at_others_opens_none_of_them(tmp_path, text, packed):
    squares().to_file(tmp_path / "secret.gpkg")
    path = tmp_path / "f.json"
    path.write_text(text)
    if packed == "gz":
        path = tmp_path / "f.json.gz"
        path.write_bytes(gzip.compress(text.encode()))
    if packed == "zip":
        path = zipped(tmp_path / "f.zip", {"f.json": text})
    with pytest.raises(InputError, match=r"holds no footprints, but points at other files or servers"):
        read_buildings(path, CRS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b'<?xml version="1.0"?>\n<ows:ExceptionReport xmlns:ows="x"></ows:ExceptionReport>',
            "server's error message",
        ),
        (b"<ServiceExceptionReport version='1.2.0'/>", "server's error message"),
        (b"\n<!DOCTYPE html><html><body>Log in</body></html>", "a web page instead of data"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "pointer of Git LFS"),
        (b"PMTiles\x03" + b"\0" * 200, "map tiles, which cut and simplify buildings"),
        ('{"type": "FeatureCollection", "features": []}'.encode("utf-16"), "text in UTF-16"),
        ('{"type": "FeatureCollection", "features": []}'.encode("utf-16-be"), "text in UTF-16"),
    ],
)
def test_what_was_saved_instead_of_footprints_is_named(tmp_path, content, message):
    (tmp_path / "f.geojson").write_bytes(content)
    with pytest.raises(InputError, match=rf"f\.geojson: .*{message}"):
        read_buildings(tmp_path / "f.geojson", CRS)


NO_FOOTPRINTS = {
    "f.geojson.bz2": (bz2.compress(b"{}"), "a bzip2 archive. Unpack it"),
    "f.gpkg.xz": (lzma.compress(b"{}"), "a xz archive. Unpack it"),
    "f.7z": (b"7z\xbc\xaf\x27\x1c" + b"\0" * 60, "a 7z archive. Unpack it"),
    "f.rar": (b"Rar!\x1a\x07" + b"\0" * 60, "a rar archive. Unpack it"),
    "f.prj": (b'PROJCS["ETRS89"]', "a part of a Shapefile, which has no outlines. Give its .shp"),
    "f.txt": (b"notes about the buildings\n", "no file of footprints: .* Give the buildings' outlines as GeoJSON"),
    "f.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 60, "no file of footprints|a table without geometry"),
}
"""Name -> content, and what the message says: none is called damaged."""


@pytest.mark.parametrize("name", NO_FOOTPRINTS)
def test_a_file_that_is_another_one_is_not_called_damaged(tmp_path, name):
    content, message = NO_FOOTPRINTS[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        read_buildings(tmp_path / name, CRS)
    assert "damaged" not in str(refused.value)


def test_map_tiles_are_refused(tmp_path):
    squares().to_crs("EPSG:4326").to_file(tmp_path / "f.mbtiles", driver="MBTiles")
    with pytest.raises(InputError, match=r"f\.mbtiles: map tiles, which cut and simplify buildings"):
        read_buildings(tmp_path / "f.mbtiles", CRS)


def test_lines_that_are_cut_off_are_refused(tmp_path):
    path = tmp_path / "f.geojsonl"
    squares().to_crs("EPSG:4326").to_file(path, driver="GeoJSONSeq")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"f\.geojsonl: cut off: its last line is no whole feature"):
        read_buildings(path, CRS)


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
    with pytest.raises(InputError, match=r"f\.zip: the latest changes of f\.gpkg are in f\.gpkg-wal, .* Unpack it"):
        read_buildings(path, CRS)


def test_files_on_a_read_only_disk_are_read(tmp_path, monkeypatch):
    """There, the system answers EROFS to whoever removes a file, also one that is not there."""

    def refused(path, missing_ok=False):
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    squares().to_crs("EPSG:4326").to_file(tmp_path / "f.geojson")
    monkeypatch.setattr(type(tmp_path), "unlink", refused)
    assert len(read_buildings(tmp_path / "f.geojson", CRS)) == 3


@pytest.mark.parametrize("suffix", ["gpkg", "fgb", "geojson", "parquet", "csv"])
def test_what_is_cut_off_is_to_be_downloaded_again(tmp_path, suffix):
    path, frame = tmp_path / f"f.{suffix}", squares().to_crs("EPSG:4326")
    if suffix == "csv":
        frame.assign(wkt=frame.to_wkt()["geometry"]).drop(columns="geometry").to_csv(path, index=False)
    else:
        (frame.to_parquet if suffix == "parquet" else frame.to_file)(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    with pytest.raises(InputError, match=r"cut off.*Download it again\."):
        read_buildings(path, CRS)


def test_a_kml_of_links_says_that_it_holds_nothing(tmp_path):
    (tmp_path / "f.kml").write_text("<kml><Document><NetworkLink><Link/></NetworkLink></Document></kml>")
    with pytest.raises(InputError, match="a KML that only links to others"):
        read_buildings(tmp_path / "f.kml", CRS)
