import contextlib
import json
from pathlib import Path

import numpy as np
import pytest

from plumbline.core.compass import QUADRANTS
from plumbline.core.errors import InputError
from plumbline.core.files import sha256_folder
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.features.sequences import UNDEFINED
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.profile_city import prepare_profiles
from plumbline.prepare.profiles import profile_labels, profile_sequences, rows_left_out
from plumbline.prepare.stage import plan_tiles, prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.ingest import ingest
from plumbline.sources.profiles import read_profiles

SPLITS = {"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2}
PARAMS = Prepare(block_m=40, split=SPLITS)
CODES = {0: "none", 1: "NE", 2: "NW", 3: "SW", 4: "SE"}
PROFILES = {
    "labelled": True, "distance_unit": "m", "slope_unit": "mm/m", "severity_unit": "permille", "quadrants": CODES,
    "first": "2019-01-01", "last": "2022-01-01",
}  # fmt: skip
YEARS = 1096 / 365.25
PRODUCTS = {
    "rows_*.csv": {"format": "profiles", "profiles": PROFILES},
    "new.csv": {"profiles": {"labelled": False, "distance_unit": "m", "slope_unit": "mm/m", "years": 1}},
}
INGEST = Ingest.model_validate({"products": PRODUCTS})


def lines(count: int, seed: int, sizes: int = 10**6) -> list[str]:
    """Labelled rows of 3 to 20 places; at most `sizes` differ in size. Half of them bend at one end."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(count):
        span, width = 8 + number % sizes * 0.25, 6.5
        distance = np.sort(rng.uniform(0, span, rng.integers(3, 21)))
        severity, code = (rng.uniform(0.6, 4), rng.integers(1, 5)) if number % 2 else (0.1, 0)
        slope = rng.normal(0, 0.3, len(distance)) + severity * (distance > 0.7 * span)
        cells = [*np.column_stack([distance, slope]).ravel(), span, width, severity, code]
        found.append(",".join(repr(float(cell)) for cell in cells))
    return found


def write(folder: Path, **files: list[str]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / f"{name}.csv").write_text("".join(f"{line}\n" for line in content))
    return folder


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # finished portions are kept below the working directory


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Path:
    """A simulated city, and one of profile rows in three files, of which two hold the same buildings."""
    root = tmp_path_factory.mktemp("cities")
    simulate(Simulate.model_validate({"cities": {"c": {"band": "C", "buildings": 50, "seed": 1}}, "years": 1.0,
                                      "showcase": {"band": "C", "buildings": 4, "seed": 3}}), root / "sim")  # fmt: skip
    bare = [",".join(line.split(",")[:-2]) for line in lines(5, 3)]
    old = write(root / "old", rows_easy=lines(60, 1), rows_hard=lines(60, 2), new=bare)
    with contextlib.chdir(root):
        ingest([root / "sim" / "cities" / "c", old], INGEST, root / "ingested")
    return root / "ingested"


@pytest.fixture(scope="module")
def prepared(ingested, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out") / "prepared"
    with contextlib.chdir(out.parent):
        prepare(ingested, PARAMS, out)
    return out


def test_rows_reach_the_shards_as_the_library_makes_them(prepared, ingested):
    shards = {name: load_shards(prepared / name) for name in SPLITS}
    everything = {
        building: split.take(np.array([row]))
        for split in shards.values()
        for row, building in enumerate(split.building_id)
        if split.city[row] == "old"
    }
    seen = 0
    for name in ("rows_easy.csv", "rows_hard.csv"):
        rows = read_profiles(ingested.parent / "old" / name, labelled=True)
        ids = np.array([f"{name}:{line}" for line in rows.line])
        judged = rows_left_out(rows, PARAMS).judged
        wanted = profile_sequences(rows, ids, YEARS, judged, PARAMS.max_points, "old")
        severity, quadrant = profile_labels(rows, 1.0, {code: q for code, q in CODES.items() if q in QUADRANTS})
        assert 30 < len(judged) < 60
        for number, row in enumerate(judged):
            found, one = everything[ids[row]], wanted.take(np.array([number]))
            for array in ("offsets", "distance", "slope", "geometry", "city"):
                np.testing.assert_array_equal(getattr(found, array), getattr(one, array))
            assert (found.severity[0], found.quadrant[0], found.difficulty[0]) == (severity[row], quadrant[row], -1)
        seen += len(judged)
    assert len(everything) == seen
    quadrant = np.concatenate([part.quadrant for part in everything.values()])
    assert set(quadrant.tolist()) == {UNDEFINED, 0, 1, 2, 3}


def test_profile_rows_change_nothing_for_a_city_of_points_before_them(prepared, ingested, tmp_path):
    (tmp_path / "points").mkdir()
    (tmp_path / "points" / "c").symlink_to(ingested / "c")
    prepare(tmp_path / "points", PARAMS, tmp_path / "out")
    for name in SPLITS:
        alone, beside = load_shards(tmp_path / "out" / name), load_shards(prepared / name)
        together = beside.take(np.flatnonzero(beside.city == "c"))
        assert alone.building_id.tolist() == together.building_id.tolist()
        np.testing.assert_array_equal(alone.take(np.arange(len(alone))).slope, together.slope)
    assert sorted(path.name for path in (prepared / "motion").iterdir()) == ["c.parquet"]


def test_rows_of_one_building_never_stand_in_two_splits(prepared):
    """Rows of equal size, easy.csv:7 and hard.csv:7, are one building at two levels."""
    lines_of = {}
    for name in SPLITS:
        split = load_shards(prepared / name)
        own = split.building_id[split.city == "old"]
        assert len(own) > 5
        lines_of[name] = {building.rpartition(":")[2] for building in own}
    total = sum(map(len, lines_of.values()))
    assert len(set().union(*lines_of.values())) == total


def test_the_audit_counts_rows_and_does_not_ask_where_they_stand(prepared):
    found = json.loads((prepared / "audit" / "audit.json").read_text())
    assert found["verdict"] != "fail"
    old = found["statistics"]["cities"]["old"]
    kept = sum(found["statistics"]["splits"][name]["cities"]["old"] for name in SPLITS)
    assert (old["buildings"], old["labelled"], old["area_km2"]) == (125, 120, None)
    assert kept + sum(old["left_out"].values()) == 125
    # The five unlabelled rows have 3 places or more, as the others: the shortest of them are left out as such.
    assert 0 < old["left_out"]["without_label"] <= 5 < old["left_out"]["few_points"]
    assert [track["name"] for track in old["tracks"]] == ["new.csv", "rows_easy.csv", "rows_hard.csv"]
    assert old["tracks"][1]["first_epoch"] == "2019-01-01"
    assert "rows_easy.csv" in (prepared / "audit" / "audit.html").read_text()


def test_profile_rows_alone_are_enough(tmp_path):
    folder = write(tmp_path / "raw" / "old", rows_a=lines(80, 1))
    ingest([folder], INGEST, tmp_path / "in")
    prepare(tmp_path / "in", PARAMS, tmp_path / "out")
    prepare(tmp_path / "in", PARAMS, tmp_path / "again")
    assert sha256_folder(tmp_path / "out") == sha256_folder(tmp_path / "again")
    splits = [load_shards(tmp_path / "out" / name) for name in SPLITS]
    assert all(len(split) for split in splits)
    folds = [PARAMS.model_copy(update={"folds": 2, "fold": fold}) for fold in range(2)]
    tested: list[str] = []
    for fold, params in enumerate(folds):
        prepare(tmp_path / "in", params, tmp_path / f"fold{fold}")
        tested += load_shards(tmp_path / f"fold{fold}" / "test").building_id.tolist()
    assert sorted(tested) == sorted(np.concatenate([split.building_id for split in splits]).tolist())


@pytest.mark.parametrize(("same", "sizes"), [("size", 2), ("file", 100)])
def test_too_few_buildings_to_split_say_what_counts_as_one(tmp_path, same, sizes):
    folder = write(tmp_path / "raw" / "old", rows_a=lines(40, 1, sizes))
    stated = {"rows_*.csv": {"profiles": PROFILES | {"same_building": same}}}
    ingest([folder], Ingest.model_validate({"products": stated}), tmp_path / "in")
    with pytest.raises(
        InputError, match=r"a block: [12] of these\. Rows of equal span and width do, unless profiles\.same"
    ):
        prepare(tmp_path / "in", PARAMS, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_given_twice_do_not_reach_two_splits(tmp_path):
    """Each row for a building of its own, though the file is there twice: the audit sees what splits share."""
    folder = write(tmp_path / "raw" / "old", rows_a=lines(60, 1), rows_b=lines(60, 1))
    stated = {"rows_*.csv": {"profiles": PROFILES | {"same_building": "row"}}}
    ingest([folder], Ingest.model_validate({"products": stated}), tmp_path / "in")
    with pytest.raises(InputError, match="twin_leak"):
        prepare(tmp_path / "in", PARAMS, tmp_path / "out")
    ingest([folder], INGEST, tmp_path / "in")
    prepare(tmp_path / "in", PARAMS, tmp_path / "out")


def test_a_run_that_was_interrupted_goes_on(ingested, prepared, tmp_path, caplog):
    plan = plan_tiles(ingested, PARAMS)
    prepare_profiles(plan.profiles[1])
    with caplog.at_level("INFO", "plumbline"):
        prepare(ingested, PARAMS, tmp_path / "out")
    assert "profile rows: going on, 1 of 3 portions are there from before" in caplog.text
    assert sha256_folder(tmp_path / "out") == sha256_folder(prepared)


def test_a_damaged_table_is_named(ingested, tmp_path):
    (tmp_path / "in" / "old").mkdir(parents=True)
    for name in ("city.json", "profiles.parquet"):
        content = (ingested / "old" / name).read_bytes()
        (tmp_path / "in" / "old" / name).write_bytes(content if name == "city.json" else content[:-100])
    with pytest.raises(InputError, match=r"profiles\.parquet: not readable .* Run `plumbline ingest` again"):
        prepare(tmp_path / "in", PARAMS, tmp_path / "out")
