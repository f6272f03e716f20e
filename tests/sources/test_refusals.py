"""Refusals of what people give by mistake say what it is, and what to do next."""

import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.serve.inspect import look
from plumbline.sources.checks import warn_of_datum
from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import refuses, warned, warning_keys
from tests.sources.checks.test_consistency_heights import on_a_hill
from tests.sources.footprints.test_cases import BASE, CRS
from tests.sources.make import rows, squares, text, zipped
from tests.sources.points.opening import read_points


def test_an_answer_with_features_is_no_error_whatever_stands_before_them(tmp_path):
    features = json.loads(squares().to_crs("EPSG:4326").to_json())["features"]
    answer = {"status": "ok", "type": "FeatureCollection", "features": features}
    (tmp_path / "a.geojson").write_text(json.dumps(answer))
    assert len(read_buildings(tmp_path / "a.geojson", CRS)) == len(features)


def test_what_is_given_in_place_of_the_other_is_said(tmp_path):
    path = zipped(tmp_path / "a.xlsx", {"[Content_Types].xml": "<x/>", "xl/workbook.xml": "<x/>"})
    with refuses("archive.csv_count", path, "save it as csv"):
        read_points(path)
    with pytest.raises(InputError, match="save it as csv"):
        read_buildings(path, CRS)
    for name, content in (("a00000001.gdbtable", b"\3\0\0\0"), ("a.tif", b"II*\0" + bytes(99))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}: (not readable|no file of footprints)"):
            read_buildings(tmp_path / name, CRS)
    with pytest.raises(InputError, match="--points"):
        read_buildings(BASE / "asc.csv", CRS)
    with refuses("layer.not_one", "fp.gpkg", "--buildings"):
        read_points(BASE / "fp.gpkg")


@pytest.mark.parametrize("name", ["p.tar", "p.tgz"])
def test_a_tar_archive_is_to_be_unpacked(tmp_path, name):
    with tarfile.open(tmp_path / name, "w:gz" if name == "p.tgz" else "w") as archive:
        archive.add(BASE / "asc.csv", "deep/asc.csv")
    with refuses("file.foreign", name, "tar archive", "Unpack it"):
        read_points(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name}: .*tar archive\. Unpack it"):
        read_buildings(tmp_path / name, CRS)
    (found,) = look([tmp_path / name]).files
    assert len(found.doubts) == 1


@pytest.mark.parametrize(
    ("start", "kind"), [(b"BZh91AY", "bzip2"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"\x93NUMPY\x01\0", "NumPy")]
)
def test_points_in_another_packing_are_to_be_unpacked(tmp_path, start, kind):
    (tmp_path / "a.csv").write_bytes(start + bytes(range(256)))
    with refuses("file.foreign", "a.csv", kind):
        read_points(tmp_path / "a.csv")


def test_heights_of_0_in_one_product_are_told_as_missing_and_not_as_another_zero(tmp_path, caplog):
    hill, other = on_a_hill(60, 1), on_a_hill(60, 2)
    flat = replace(other, height=np.zeros(len(other)))
    for pair in ([hill, flat], [flat, hill]):
        warn_of_datum(pair, ["a.csv", "b.csv"], [None, None])
        assert warning_keys(caplog) == ["heights.one_flat"]
        caplog.clear()
    (tmp_path / "a.csv").write_text(text([row | {"height_ortho": "0", "temporal_coherence": "1"} for row in rows(12)]))
    read_points(tmp_path / "a.csv")
    assert warned(caplog, "heights.flat", "a.csv", "0 m")
