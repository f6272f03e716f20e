"""The checkout that a command works in, and what may make its stages."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.core import source_code
from plumbline.core.source_code import (
    MAP_PAGE,
    PAGE_FILES,
    SOURCES,
    check_code,
    check_map_page,
    foreign_checkout,
    nearest_checkout,
)
from tests.refusals import refuses

ROOT = Path(__file__).parents[2]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout without the map's page, in which this test works."""
    (tmp_path / SOURCES).mkdir(parents=True)
    (tmp_path / "dvc.yaml").touch()
    (tmp_path / "restoration").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PLUMBLINE_STAGES", raising=False)
    return tmp_path


@pytest.mark.parametrize("folder", [".", "restoration"])
def test_a_stage_is_refused_where_another_package_runs_than_that_of_the_checkout(checkout, monkeypatch, folder):
    monkeypatch.chdir(checkout / folder)
    assert foreign_checkout() == checkout
    with refuses("checkout.other_code", "train: ", ROOT / SOURCES, f"`make install` in {checkout}"):
        check_code("train")
    monkeypatch.setattr(source_code, "PYTHON_PACKAGE", checkout / SOURCES)
    check_code("train")


@pytest.mark.parametrize("missing", ["dvc.yaml", SOURCES])
def test_a_folder_of_ones_own_is_no_checkout(checkout, missing, monkeypatch):
    assert nearest_checkout() == checkout
    (checkout / missing).unlink() if missing == "dvc.yaml" else (checkout / missing).rmdir()
    check_code("train")
    check_map_page("train")
    assert nearest_checkout() == ROOT
    monkeypatch.setattr(source_code, "PYTHON_PACKAGE", checkout / "site-packages/plumbline")
    assert nearest_checkout() is None


@pytest.mark.parametrize("there", range(len(PAGE_FILES)))
def test_a_stage_of_diagnosis_is_refused_without_the_whole_page_of_the_map(checkout, monkeypatch, there):
    page = SOURCES / MAP_PAGE
    page.mkdir(parents=True)
    for name in PAGE_FILES[:there]:
        (page / name).touch()
    with refuses("map.page_not_built", f"simulate: {page / PAGE_FILES[there]}", "`make web`"):
        check_map_page("simulate")
    for name in PAGE_FILES:
        (page / name).touch()
    check_map_page("simulate")


def test_a_machine_that_does_not_draw_the_map_and_restoration_need_no_page(checkout, monkeypatch):
    monkeypatch.setenv("PLUMBLINE_STAGES", "train compress")
    check_map_page("train")
    monkeypatch.setenv("PLUMBLINE_STAGES", "train predict")
    with refuses("map.page_not_built"):
        check_map_page("train")
    monkeypatch.delenv("PLUMBLINE_STAGES")
    monkeypatch.chdir(checkout / "restoration")
    check_map_page("train")
