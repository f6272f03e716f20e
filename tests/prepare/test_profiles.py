import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.compass import QUADRANTS
from plumbline.params import Ingest, Prepare
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, names
from plumbline.prepare.features.sequences import UNDEFINED
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.profiles import (
    LEAST_SLOPE_SE,
    LIKELY_SLOPE_SE,
    MIN_SLOPES,
    integrate_slope,
    profile_buildings,
    profile_labels,
    profile_sequences,
    rows_left_out,
)
from plumbline.prepare.stage import prepare
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.profile_rows import Profiles, read_profiles
from tests.prepare.made import SMALL, SPLITS, simulate_small
from tests.refusals import refuses

SPAN, WIDTH = 24.0, 10.0


def made(rows, severity=np.nan, location=-1, span=SPAN):
    """Profiles of rows of (distance, slope)."""
    counts = [len(distance) for distance, _ in rows]
    return Profiles(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        distance=np.concatenate([distance for distance, _ in rows]),
        slope=np.concatenate([slope for _, slope in rows]),
        span_m=np.full(len(rows), span),
        width_m=np.full(len(rows), WIDTH),
        severity=np.full(len(rows), severity),
        location=np.full(len(rows), location, np.int64),
        line=np.arange(1, len(rows) + 1),
    )


def column(sequences, columns, name):
    part = {id(DISTANCE): sequences.distance, id(SLOPE): sequences.slope, id(GEOMETRY): sequences.geometry}[id(columns)]
    return part[:, names(columns).index(name)]


def sequences_of(profiles, max_points=128):
    ids = np.array([f"p{i}" for i in range(len(profiles))])
    return profile_sequences(
        profiles, ids, years=2.0, judged=rows_left_out(profiles, Prepare()).judged, max_points=max_points, city="old"
    )


@given(st.lists(st.floats(0, SPAN), min_size=2, max_size=30), st.floats(-3, 3), st.floats(-0.3, 0.3))
def test_a_slope_that_is_linear_is_integrated_exactly(places, level, bend):
    """The trapezoidal rule has no error there: level * d + bend * d^2 / 2, about its mean."""
    distance = np.sort(places)
    change, error = integrate_slope(distance, level + bend * distance)
    exact = level * distance + bend * distance**2 / 2
    np.testing.assert_allclose(change, exact - exact.mean(), atol=1e-9)
    assert (error > 0).all()


@given(st.lists(st.floats(0, SPAN), min_size=1, max_size=12), st.integers(0, 99))
def test_the_error_is_that_of_a_sum_of_slopes_that_err_alike(places, seed):
    """The integral is linear in the slopes: each slope's share shows where it alone is 1."""
    distance, slope = np.sort(places), np.random.default_rng(seed).normal(0, 1, len(places))
    shares = np.stack([integrate_slope(distance, row)[0] for row in np.eye(len(distance))], axis=1)
    change, error = integrate_slope(distance, slope)
    np.testing.assert_allclose(change, shares @ slope, atol=1e-9)
    spread = np.sqrt((shares**2).sum(axis=1))
    widest = int(np.argmax(spread))
    scale = error[widest] / max(spread[widest], LEAST_SLOPE_SE)
    if error[widest] > LEAST_SLOPE_SE:
        np.testing.assert_allclose(error, np.maximum(scale * spread, LEAST_SLOPE_SE), rtol=1e-6)
    else:
        assert (error == LEAST_SLOPE_SE).all()
    if 1 < len(distance) < MIN_SLOPES and spread[widest] > 1:
        assert scale == pytest.approx(LIKELY_SLOPE_SE)


def test_places_are_on_the_long_axis_and_seen_from_above():
    distance = np.linspace(0, SPAN, 9)
    found = profile_buildings(made([(distance, 0 * distance)] * 2))
    np.testing.assert_allclose(found.scatterers.xy[:9, 0], distance - SPAN / 2)
    assert (found.scatterers.xy[:, 1] == 0).all()
    np.testing.assert_array_equal(found.scatterers.los, np.tile([0, 0, 1], (18, 1)))
    np.testing.assert_array_equal(found.scatterers.building, np.repeat([0, 1], 9))
    np.testing.assert_array_equal(found.frame.side, [[SPAN, WIDTH]] * 2)
    np.testing.assert_array_equal(found.area, [SPAN * WIDTH] * 2)


@pytest.mark.parametrize("distance", [np.array([8, 10, 14, 17, 20 * (1 + 5e-7)]) / 20, np.linspace(4, 5, 5)])
def test_places_count_from_the_end_or_are_centred(distance):
    """A distance that was rounded beyond the span counts from the end all the same: else the building would jump."""
    found = profile_buildings(made([(distance * SPAN, 0 * distance)]))
    np.testing.assert_allclose(found.scatterers.xy[:, 0], (distance - np.floor(distance[0]) - 0.5) * SPAN)


@given(st.floats(-5, 5))
def test_a_constant_slope_is_a_rigid_tilt_and_no_damage(tilt):
    distance = np.linspace(1, 23, 12)
    sequences = sequences_of(made([(distance, np.full(12, tilt))]))
    np.testing.assert_allclose(column(sequences, SLOPE, "differential_displacement"), 0, atol=1e-5)
    np.testing.assert_allclose(column(sequences, GEOMETRY, "tilt_x"), tilt, atol=1e-4)


def test_a_hinge_shows_where_it_is():
    rng = np.random.default_rng(1)
    distance = np.linspace(0.5, 23.5, 40)
    slope = np.where(distance > 19, -3.0, 0.0) + rng.normal(0, 0.1, 40)
    sequences = sequences_of(made([(distance, slope)]))
    gradient = column(sequences, SLOPE, "gradient_x")
    x = column(sequences, DISTANCE, "x")
    assert (np.diff(x) > 0).all()
    assert gradient[-1] < gradient[x < 5].min()
    up = column(sequences, SLOPE, "differential_displacement")
    assert up[-1] - np.median(up[x < 3]) == pytest.approx(-3 * 4.5, abs=2)


def test_each_rule_leaves_out_its_rows():
    wide = np.linspace(0, SPAN, 6)
    level = (wide, 0 * wide)
    profiles = made([level, (np.zeros(4), np.zeros(4)), (np.full(6, 3.0), np.zeros(6)), level, level])
    profiles.width_m[3], profiles.span_m[4] = 0.5, 400.0
    found = rows_left_out(profiles, Prepare())
    assert found.judged.tolist() == [0]
    counts = {name: count for name, count in found.counts.items() if count}
    assert counts == dict.fromkeys(("too_small", "too_large", "few_points", "degenerate_points"), 1)


def test_short_rows_are_left_out_and_long_ones_thinned():
    rows = [(np.linspace(0, SPAN, n), np.zeros(n)) for n in (3, 8, 300)]
    sequences = sequences_of(made(rows), max_points=50)
    assert sequences.building_id.tolist() == ["p1", "p2"]
    assert sequences.length.tolist() == [8, 50]
    assert (sequences.quadrant == UNDEFINED).all()
    for name in ("distance", "slope", "geometry"):
        assert np.isfinite(getattr(sequences, name)).all()


def test_a_quadrant_is_known_from_category_1_on():
    row = (np.linspace(0, SPAN, 6), np.zeros(6))
    cases = (2.0, 2, 2), (2.0, -1, UNDEFINED), (0.25, 2, UNDEFINED), (np.nan, 2, UNDEFINED)
    for severity, location, quadrant in cases:
        labels = profile_labels(made([row], severity=severity, location=location))
        np.testing.assert_array_equal(np.ravel(labels), [severity, quadrant])


CODES = {0: "none", 1: "NE", 2: "NW", 3: "SW", 4: "SE"}
UNITS = {"distance_unit": "m", "slope_unit": "mm/m"}
LABELLED = {"labelled": True, "severity_unit": "permille", "quadrants": CODES}
PROFILES = {**UNITS, **LABELLED, "first": "2019-01-01", "last": "2022-01-01"}
YEARS = 1096 / 365.25
PRODUCTS = {
    "rows_*.csv": {"format": "profiles", "profiles": PROFILES},
    "new.csv": {"profiles": {**UNITS, "labelled": False, "years": 1}},
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
    bare = [",".join(line.split(",")[:-2]) for line in lines(5, 3)]
    old = write(root / "old", rows_easy=lines(60, 1), rows_hard=lines(60, 2), new=bare)
    with contextlib.chdir(root):
        ingest([*simulate_small(root / "simulated", 24), old], INGEST, root / "ingested")
    return root / "ingested"


@pytest.fixture(scope="module")
def prepared(ingested, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out") / "prepared"
    with contextlib.chdir(out.parent):
        prepare(ingested, SMALL, out)
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
        judged = rows_left_out(rows, SMALL).judged
        wanted = profile_sequences(
            rows, ids, years=YEARS, judged=judged, max_points=SMALL.max_points, city="old"
        ).rounded()
        location = np.array([QUADRANTS.index(CODES[code]) if code else -1 for code in rows.location.tolist()])
        severity, quadrant = profile_labels(replace(rows, location=location))
        assert 30 < len(judged) < 60
        for number, row in enumerate(judged):
            found, one = everything[ids[row]], wanted.take(np.array([number]))
            for array in ("offsets", "distance", "slope", "geometry", "city"):
                np.testing.assert_array_equal(getattr(found, array), getattr(one, array))
            assert (found.severity[0], found.quadrant[0], found.difficulty[0]) == (severity[row], quadrant[row], -1)
            assert found.mechanism[0] == -1
            np.testing.assert_array_equal(found.accepted[0], np.arange(4) == quadrant[row])
        seen += len(judged)
    assert len(everything) == seen
    quadrant = np.concatenate([part.quadrant for part in everything.values()])
    assert set(quadrant.tolist()) == {UNDEFINED, 0, 1, 2, 3}


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


@pytest.mark.parametrize(("same", "sizes", "blocks"), [("size", 2, 2), ("file", 100, 1)])
def test_too_few_buildings_to_split_say_what_counts_as_one(tmp_path, same, sizes, blocks):
    folder = write(tmp_path / "raw" / "old", rows_a=lines(40, 1, sizes))
    stated = {"rows_*.csv": {"profiles": PROFILES | {"same_building": same}}}
    ingest([folder], Ingest.model_validate({"products": stated}), tmp_path / "in")
    with refuses("split.empty", f": {blocks} blocks", "profiles.same_building"):
        prepare(tmp_path / "in", SMALL, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_rows_given_twice_do_not_reach_two_splits(tmp_path):
    """Each row for a building of its own, though the file is there twice: the audit sees what splits share."""
    folder = write(tmp_path / "raw" / "old", rows_a=lines(60, 1), rows_b=lines(60, 1))
    stated = {"rows_*.csv": {"profiles": PROFILES | {"same_building": "row"}}}
    ingest([folder], Ingest.model_validate({"products": stated}), tmp_path / "in")
    with refuses("audit.failed", "twin_leak"):
        prepare(tmp_path / "in", SMALL, tmp_path / "out")
    ingest([folder], INGEST, tmp_path / "in")
    prepare(tmp_path / "in", SMALL, tmp_path / "out")
