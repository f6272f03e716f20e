"""What `--points` means: files, folders and patterns, each product once."""

import logging
from pathlib import Path

import pytest

from plumbline.sources.city.files import point_files
from plumbline.sources.files.opened import OpenedFile
from tests.refusals import refuses


@pytest.fixture
def folder(city, tmp_path: Path) -> Path:
    """Two products and what lies beside them."""
    for path in [*city.products(), city.footprints]:
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "README.md").write_text("notes")
    (tmp_path / "product.xml").write_text("<about/>")
    (tmp_path / ".hidden.csv").write_text("x")
    (tmp_path / "out.csv").write_text("building_id,status,severity_permille\nB1,ok,0.4\n")
    (tmp_path / "map.html").write_text("<html></html>")
    return tmp_path


def test_a_folder_gives_its_products_and_names_what_it_passes_over(city, folder, caplog):
    with caplog.at_level(logging.INFO, "plumbline"):
        assert [file.path.name for file in point_files([folder])] == [path.name for path in city.products()]
    for name in ("footprints.geojson", "out.csv", "map.html", "README.md", "product.xml"):
        assert f"{folder / name}: passed over" in caplog.text
    assert ".hidden.csv" not in caplog.text


def test_a_pattern_gives_what_fits_it(city, folder, monkeypatch):
    names = [path.name for path in city.products()]
    assert [file.path.name for file in point_files([folder / "EGMS_*.csv"])] == names
    monkeypatch.chdir(folder)
    assert point_files([Path("EGMS_*.csv")]) == [OpenedFile(Path(name)) for name in names]


@pytest.mark.parametrize("name", ["asc[1].csv", "gone.zip"], ids=["there is no pattern", "not there is for the reader"])
def test_a_name_is_given_as_it_is(folder, name):
    (folder / "asc[1].csv").write_text("x")
    assert point_files([folder / name]) == [OpenedFile(folder / name)]


def test_each_file_counts_once_in_the_order_given(city, folder):
    first, second = (folder / path.name for path in city.products())
    link = folder / "link.csv"
    link.symlink_to(second)
    given = [second, folder / "EGMS_*", first, folder / "." / second.name, link]
    assert point_files(given) == [OpenedFile(second), OpenedFile(first)]


def test_a_folder_without_products_and_a_pattern_that_fits_nothing_are_refused(city, tmp_path):
    with refuses("folder.no_product", f"--points {tmp_path}", "nothing"):
        point_files([tmp_path])
    (tmp_path / "f.geojson").symlink_to(city.footprints)
    with refuses("folder.no_product", "f.geojson"):
        point_files([tmp_path])
    with refuses("pattern.no_file", f"--points {tmp_path / 'EGMS_*.zip'}"):
        point_files([tmp_path / "EGMS_*.zip"])
