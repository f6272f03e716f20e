import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pandas
import pytest

from plumbline.core.compass import join_quadrants
from plumbline.core.files import sha256_folder
from plumbline.params import Ingest, Prepare
from plumbline.prepare import stage
from plumbline.prepare.features.sequences import LABELS, UNDEFINED
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.stage import plan_tiles, prepare
from plumbline.prepare.tiles import write_tile
from plumbline.sources.city.ingest import ingest
from tests.prepare.made import SMALL, SPLITS, simulate_small
from tests.refusals import refuses

CITIES = {"c": 50, "x": 20}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # finished portions are kept below the working directory


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("city")
    with contextlib.chdir(root):
        ingest(simulate_small(root / "simulated", *CITIES.values()), Ingest(), root / "ingested")
    return root / "ingested"


@pytest.fixture(scope="module")
def prepared(ingested, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out") / "prepared"
    with contextlib.chdir(out.parent):
        prepare(ingested, SMALL, out)
    return out


def test_every_building_is_in_one_split_or_counted_as_dropped(prepared):
    splits = [load_shards(prepared / name) for name in SPLITS]
    ids = np.concatenate([split.building_id for split in splits])
    assert len(set(ids)) == len(ids)
    report = json.loads((prepared / "audit" / "audit.json").read_text())["statistics"]
    assert list(report["splits"]) == list(SPLITS)
    assert [report["splits"][name]["buildings"] for name in SPLITS] == [len(split) for split in splits]
    for city, buildings in CITIES.items():
        kept = sum((split.city == city).sum() for split in splits)
        assert kept + sum(report["cities"][city]["left_out"].values()) == buildings
        motion = pandas.read_parquet(prepared / "motion" / f"{city}.parquet")
        assert len(motion) == buildings
        assert (motion["sides"] == "both").mean() > 0.5
    assert sum(map(len, splits)) > 45


def test_labels_are_the_citys_and_undefined_below_category_1(prepared, ingested):
    truth = pandas.concat([pandas.read_parquet(path) for path in ingested.glob("*/labels/*.parquet")])
    truth = truth.set_index("building_id")
    for name in SPLITS:
        split = load_shards(prepared / name)
        wanted = truth.loc[split.building_id]
        np.testing.assert_allclose(split.severity, wanted["severity_permille"], rtol=1e-6)
        assert ((split.quadrant == UNDEFINED) == (split.severity < 0.5)).all()
        defined = split.quadrant >= 0
        named = np.array(["NE", "NW", "SW", "SE"])[split.quadrant[defined]]
        assert named.tolist() == wanted["quadrant"][defined].tolist()
        accepted = [join_quadrants(row) for row in split.accepted]
        assert accepted == wanted["accepted"].where(defined, "").tolist()
        assert split.accepted[defined, split.quadrant[defined]].all()
        assert split.mechanism.tolist() == wanted["mechanism"].tolist()
        assert ((split.mechanism == UNDEFINED) == ~defined).all()


def test_what_is_prepared_is_finite_and_within_the_limits(prepared):
    for name in SPLITS:
        for split in load_shards(prepared / name).parts:
            assert split.length.min() >= SMALL.min_points
            assert split.length.max() <= SMALL.max_points
            for values in (split.distance, split.slope, split.geometry, split.severity):
                assert np.isfinite(values).all()


def test_a_city_without_the_buildings_it_needs_leaves_the_old_output(ingested, prepared, tmp_path):
    out = shutil.copytree(prepared, tmp_path / "out")
    before = sha256_folder(out)
    with refuses("split.empty", "block_m"):
        prepare(ingested, Prepare(block_m=1e7, split=SPLITS), out)
    with refuses("buildings.none_left", "70 as few_points", "prepare.min_points"):
        prepare(ingested, Prepare(min_points=1000, max_points=1000, block_m=40, split=SPLITS), out)
    assert sha256_folder(out) == before
    assert not [path for path in tmp_path.iterdir() if path.name not in ("out", ".plumbline")]


@pytest.mark.parametrize("exists", [True, False])
def test_no_city_is_refused(tmp_path, exists):
    folder = tmp_path / "ingested"
    if exists:
        folder.mkdir()
    with refuses("cities.none", folder, "`plumbline ingest`"):
        prepare(folder, SMALL, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_tiles_and_processes_change_nothing(ingested, prepared, tmp_path, monkeypatch, workers):
    """The same city cut into few tiles and into many: the same buildings, the same numbers, the same splits."""
    monkeypatch.setattr(stage, "WORTHWHILE_POINTS", 0)
    ingest(sorted((ingested.parent / "simulated" / "cities").iterdir()), Ingest(tile_m=150), tmp_path / "in", 1)
    prepare(tmp_path / "in", SMALL, tmp_path / "out", workers)
    few, many = (len(plan_tiles(folder, SMALL).tiles) for folder in (ingested, tmp_path / "in"))
    assert few < 8 < many
    folders = (prepared, tmp_path / "out")
    one, many = ({split: load_shards(folder / split) for split in SPLITS} for folder in folders)
    for split in SPLITS:
        keys = [[f"{c}/{i}" for c, i in zip(x.city, x.building_id, strict=True)] for x in (one[split], many[split])]
        a, b = (x.take(np.argsort(key)) for x, key in zip((one[split], many[split]), keys, strict=True))
        assert a.building_id.tolist() == b.building_id.tolist()
        for name in ("offsets", *LABELS):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        for name in ("distance", "slope", "geometry"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=1e-4, atol=1e-5)
    motion = [pandas.read_parquet(folder / "motion" / "c.parquet") for folder in folders]
    a, b = (table.sort_values("building_id").reset_index(drop=True) for table in motion)
    pandas.testing.assert_frame_equal(a, b, rtol=1e-6)


def test_a_run_that_was_interrupted_goes_on(ingested, prepared, tmp_path, caplog):
    plan = plan_tiles(ingested, SMALL)
    write_tile(plan.tiles[0])
    with caplog.at_level("INFO", "plumbline"):
        prepare(ingested, SMALL, tmp_path / "out")
    assert f"going on, 1 of {len(plan.tiles)} portions are there" in caplog.text
    assert not plan.work.exists()
    assert sha256_folder(tmp_path / "out") == sha256_folder(prepared)


def test_a_failed_audit_stops_the_stage_and_leaves_its_evidence(ingested, tmp_path):
    strict = SMALL.model_copy(update={"audit": SMALL.audit.model_copy(update={"refuse_severity_permille": 0.1})})
    with refuses("audit.failed", ".plumbline/audit/audit.html"):
        prepare(ingested, strict, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert json.loads((tmp_path / ".plumbline/audit/audit.json").read_text())["verdict"] == "fail"
    prepare(ingested, SMALL, tmp_path / "out")
    assert not (tmp_path / ".plumbline/audit").exists()
    assert json.loads((tmp_path / "out/audit/audit.json").read_text())["verdict"] != "fail"
