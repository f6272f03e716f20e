"""Footprints in every form that `predict` reads are read alike by all commands and by the service."""

import gzip
import io
import json
import shutil
import zipfile
from pathlib import Path

import geopandas
import pytest
import shapely
from starlette.datastructures import UploadFile

from plumbline.core.errors import InputError
from plumbline.params import Footprints, Ingest
from plumbline.serve.inspect import look
from plumbline.service.job_store import INCOMING, JOBS, buildings_file, store_uploads
from plumbline.sources.city.files import find_unlabelled, point_files
from plumbline.sources.city.in_memory import Reading
from plumbline.sources.footprints.buildings import read_buildings
from tests.sources.footprints.test_cases import BASE, CASES, CRS

FOLDERS = CASES / "footprint-folders"
FORMS = """
gpkg; geojsonl; tab; shp; parquet; shp.zip; csv.zip; gdb; gdb.zip; folder of a shapefile; parts; parts of spark; theme
tiles of shp; tiles of csv.gz; tiles of zip; tiles in one zip; kmz; csv.gz
"""
ALIKE = """
geojson; fgb; gml; kml; mif; geoparquet; feather; csv; gpkg.zip; kml.zip; tab.zip; gpkg.gz; folder of a tab
tiles of gpkg
"""
"""Forms that all commands list as one of `FORMS`: another driver reads them. All have the 36 houses of `base`."""


def split(forms: str) -> list[str]:
    return forms.strip().replace("\n", "; ").split("; ")


SLOW = [pytest.param(form, marks=pytest.mark.slow) for form in split(ALIKE)]


def write(folder: Path, form: str) -> Path:
    """Write the houses in a form into an empty folder; returns what a user would name."""
    houses = geopandas.read_file(BASE / "fp.gpkg")
    folder.mkdir()
    if form.startswith("gdb"):
        shutil.copytree(FOLDERS / "town.gdb", folder / "town.gdb")
        return packed(folder, "town.gdb") if form.endswith("zip") else folder / "town.gdb"
    if form == "parts":
        shutil.copytree(FOLDERS / "type=building", folder / "type=building")
        houses.iloc[:0].to_crs(4326).to_parquet(folder / "type=building" / "part-00001.parquet")
        return folder / "type=building"
    if form == "theme":
        shutil.copytree(FOLDERS / "type=building", folder / "theme=buildings" / "type=building")
        return folder / "theme=buildings"
    if form == "parts of spark":  # and of macOS
        (folder / "s").mkdir()
        for number, some in enumerate((houses[:20], houses[20:])):
            some.to_parquet(folder / "s" / f"part-{number}.parquet")
        (folder / "s" / "_SUCCESS").touch()
        (folder / "s" / "._part-0.parquet").write_bytes(b"\0\5\x16\7")
        return folder / "s"
    if form.startswith("tiles"):
        return tiles(folder / "t", form.rpartition(" ")[2] if " of " in form else form, houses)
    if form.startswith("folder"):
        write(folder / "h", {"folder of a shapefile": "shp", "folder of a tab": "tab"}[form])
        return folder / "h"
    if form == "kmz":
        write(folder / "doc", "kml")
        with zipfile.ZipFile(folder / "h.kmz", "w") as archive:
            archive.write(folder / "doc" / "h.kml", "doc.kml")
        shutil.rmtree(folder / "doc")
        return folder / "h.kmz"
    suffix, _, packing = form.partition(".")
    path = folder / f"h.{suffix}"
    if suffix in ("parquet", "geoparquet"):
        houses.to_parquet(path)
    elif suffix == "feather":
        houses.to_feather(path)
    elif suffix == "csv":
        wkt = houses.geometry.apply(lambda shape: f"SRID=3035;{shape.wkt}")
        houses.drop(columns="geometry").assign(wkt=wkt).to_csv(path, index=False)
    else:
        drivers = {"tab": "MapInfo File", "mif": "MapInfo File", "geojsonl": "GeoJSONSeq", "kml": "KML", "gml": "GML"}
        # MapInfo's own way to write EPSG:3035 has no false easting.
        crs = {"kml": 4326, "geojsonl": 4326, "tab": 32633, "mif": 32633}.get(suffix, CRS)
        options = {"SPATIAL_INDEX": "NO"} if suffix == "fgb" else {}
        houses.to_crs(crs).to_file(path, driver=drivers.get(suffix), **options)
    if packing == "zip":
        return packed(folder, *(one.name for one in folder.iterdir()))
    if packing == "gz":
        (folder / f"h.{form}").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        return folder / f"h.{form}"
    return path


def tiles(folder: Path, kind: str, houses: geopandas.GeoDataFrame) -> Path:
    """Write half of the houses into each of two files whose names differ in a number."""
    folder.mkdir()
    for number, some in enumerate((houses[:20], houses[20:]), 1):
        if kind == "csv.gz":  # a feature a line, as Microsoft's
            lines = some.to_crs(4326).to_json(drop_id=True)
            text = "\n".join(json.dumps(feature) for feature in json.loads(lines)["features"])
            (folder / f"q{number}.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
            continue
        suffix = {"gpkg": "gpkg"}.get(kind, "shp")
        some.to_file(folder / f"tile_{number}.{suffix}")
        if kind == "zip":
            packed(folder, *(one.name for one in folder.glob("tile_*.*") if one.suffix != ".zip"))
            (folder / "h.zip").rename(folder / f"tile_{number}.zip")
    if kind != "tiles in one zip":
        return folder
    packed(folder, *(one.name for one in folder.iterdir())).rename(folder.parent / "h.zip")
    folder.rmdir()
    return folder.parent / "h.zip"


def packed(folder: Path, *names: str) -> Path:
    with zipfile.ZipFile(folder / "h.zip", "w") as archive:
        for name in names:
            for one in [folder / name, *(folder / name).rglob("*")]:
                if one.is_file():
                    archive.write(one, one.relative_to(folder))
    for name in names:
        shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    return folder / "h.zip"


def sent(root: Path, path: Path) -> Path | None:
    """Footprints of a job that a client has sent, with all files of a folder that can be sent one by one."""
    files = sorted(one for one in (path.rglob("*") if path.is_dir() else path.parent.iterdir()) if one.is_file())
    for name in (INCOMING, JOBS):
        (root / name).mkdir(parents=True)
    uploads = [UploadFile(io.BytesIO(one.read_bytes()), filename=one.name) for one in files]
    store_uploads(root, "job", points=[], buildings=uploads, params=None)
    return buildings_file(root / JOBS / "job")


@pytest.mark.parametrize("form", split(ALIKE))
def test_a_form_of_another_driver_is_read(tmp_path, form):
    path = write(tmp_path / "delivery", form)
    read, base = (read_buildings(one, CRS).geometry.to_numpy() for one in (path, BASE / "fp.gpkg"))
    assert len(read) == 36
    assert shapely.hausdorff_distance(read, base).max() < 0.05


@pytest.mark.parametrize("form", [*split(FORMS), *SLOW])
def test_all_commands_read_a_form_as_predict_does(tmp_path, form):
    path = write(tmp_path / "delivery", form)
    wanted = read_buildings(path, CRS)
    base = read_buildings(BASE / "fp.gpkg", CRS)
    assert len(wanted) == 36
    apart = shapely.hausdorff_distance(wanted.geometry.to_numpy(), base.geometry.to_numpy())
    assert apart.max() < 0.05
    # inspect
    (found,) = look(point_files([path], "FILE", footprints=True)).files
    assert (found.kind, found.facts["buildings"]) == ("footprints", 36)
    # score and ingest: beside points, in the folder of a delivery or of a city
    shutil.copy(BASE / "asc.csv", tmp_path / "delivery" / "asc.csv")
    files = find_unlabelled(tmp_path / "delivery")
    assert [one.name for one in files.products] == ["asc.csv"]
    assert files.footprints == path
    assert all(one.is_file() for one in files.paths(Ingest()))
    (tmp_path / "delivery" / "asc.csv").unlink()
    # the service
    if "gdb" not in form or path.is_file():  # its files are no footprints one by one: send a zip
        uploaded = sent(tmp_path / "service", path)
        assert uploaded is not None
        assert len(read_buildings(uploaded, CRS)) == 36


def test_a_folder_of_footprints_counts_only_where_no_file_does(tmp_path):
    shutil.copytree(FOLDERS / "shp", tmp_path / "old")
    for name in ("asc.csv", "fp.gpkg"):
        shutil.copy(BASE / name, tmp_path / name)
    assert find_unlabelled(tmp_path).footprints == tmp_path / "fp.gpkg"
    (tmp_path / "fp.gpkg").unlink()
    shutil.copytree(FOLDERS / "town.gdb", tmp_path / "town.gdb")
    with pytest.raises(InputError, match=r"old, town\.gdb"):
        find_unlabelled(tmp_path)


def test_a_folder_of_points_is_no_footprints(tmp_path):
    """EGMS in Parquet, and a folder with footprints beside its points."""
    geopandas.pd.read_csv(BASE / "asc.csv").to_parquet(tmp_path / "asc.parquet")
    (found,) = point_files([tmp_path], "FILE", footprints=True)
    assert found.path == tmp_path / "asc.parquet"
    shutil.copytree(FOLDERS / "shp", tmp_path / "mixed")
    shutil.copy(BASE / "asc.csv", tmp_path / "mixed")
    (found,) = point_files([tmp_path / "mixed"], "FILE", footprints=True)
    assert found.path == tmp_path / "mixed" / "asc.csv"


def test_the_folders_of_a_kml_are_read_as_one_or_the_one_asked_for(tmp_path, caplog):
    houses = geopandas.read_file(BASE / "fp.gpkg").to_crs(4326)
    placemark = "<Placemark><name>{}</name><Polygon><outerBoundaryIs><LinearRing><coordinates>{}</coordinates>"
    placemark += "</LinearRing></outerBoundaryIs></Polygon></Placemark>"
    drawn = [
        placemark.format(f"H{number}", " ".join(f"{x:.8f},{y:.8f}" for x, y in shape.exterior.coords))
        for number, shape in enumerate(houses.geometry)
    ]
    folders = "".join(
        f"<Folder><name>{name}</name>{''.join(part)}</Folder>"
        for name, part in (("north", drawn[:20]), ("south", drawn[20:]))
    )
    text = f'<kml xmlns="http://www.opengis.net/kml/2.2"><Document>{folders}</Document></kml>'
    (tmp_path / "h.kml").write_text(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}')
    with zipfile.ZipFile(tmp_path / "h.kmz", "w") as archive:
        archive.write(tmp_path / "h.kml", "doc.kml")
    for name in ("h.kml", "h.kmz"):
        assert len(read_buildings(tmp_path / name, CRS)) == 36
        assert "north (polygon), south (polygon)" in caplog.text
        caplog.clear()
        ingest = Ingest(footprints={"h.km?": Footprints(layer="north")})
        assert len(read_buildings(tmp_path / name, CRS, stated=ingest.footprints)) == 20
        (found,) = look([tmp_path / name], Reading(ingest)).files
        assert (found.kind, found.facts["buildings"]) == ("footprints", 20)
