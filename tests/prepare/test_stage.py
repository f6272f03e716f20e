import json
from pathlib import Path

import numpy as np
import pandas
import pytest

from plumbline.errors import InputError
from plumbline.files import sha256_folder
from plumbline.params import Ingest, Prepare, Simulate
from plumbline.prepare.sequences import UNDEFINED, Sequences
from plumbline.prepare.stage import prepare
from plumbline.simulate.stage import simulate
from plumbline.sources.ingest import ingest

SPLITS = {"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2}
PARAMS = Prepare(block_m=40, split=SPLITS)
CITIES = {"c": {"band": "C", "buildings": 50, "seed": 1}, "x": {"band": "X", "buildings": 30, "seed": 2}}


@pytest.fixture(scope="module")
def ingested(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("city")
    simulate(Simulate.model_validate({"cities": CITIES, "showcase": {"band": "C", "buildings": 4, "seed": 3},
                                      "years": 1.0}), root / "simulated")  # fmt: skip
    ingest(sorted((root / "simulated" / "cities").iterdir()), Ingest(), root / "ingested")
    return root / "ingested"


@pytest.fixture(scope="module")
def prepared(ingested, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("out") / "prepared"
    prepare(ingested, PARAMS, out)
    return out


def test_every_building_is_in_one_split_or_counted_as_dropped(prepared):
    splits = [Sequences.load(prepared / name) for name in SPLITS]
    ids = np.concatenate([split.building_id for split in splits])
    assert len(set(ids)) == len(ids)
    report = json.loads((prepared / "audit.json").read_text())
    assert list(report["splits"]) == list(SPLITS)
    assert [report["splits"][name]["buildings"] for name in SPLITS] == [len(split) for split in splits]
    for city, content in CITIES.items():
        kept = sum((split.city == city).sum() for split in splits)
        assert kept + sum(report["dropped"][city].values()) == content["buildings"]
    assert sum(map(len, splits)) > 50


def test_labels_are_the_citys_and_undefined_below_category_1(prepared, ingested):
    truth = pandas.concat([pandas.read_parquet(path) for path in ingested.glob("*/labels.parquet")])
    truth = truth.set_index("building_id")
    for name in SPLITS:
        split = Sequences.load(prepared / name)
        wanted = truth.loc[split.building_id]
        np.testing.assert_allclose(split.severity, wanted["severity_permille"], rtol=1e-6)
        assert ((split.quadrant == UNDEFINED) == (split.severity < 0.5)).all()
        defined = split.quadrant >= 0
        named = np.array(["NE", "NW", "SW", "SE"])[split.quadrant[defined]]
        assert named.tolist() == wanted["quadrant"][defined].tolist()


def test_what_is_prepared_is_finite_and_within_the_limits(prepared):
    for name in SPLITS:
        split = Sequences.load(prepared / name)
        assert split.length.min() >= PARAMS.min_points
        assert split.length.max() <= PARAMS.max_points
        for part in (split.distance, split.slope, split.geometry, split.severity):
            assert np.isfinite(part).all()


def test_the_same_input_gives_the_same_bytes(prepared, ingested, tmp_path):
    prepare(ingested, PARAMS, tmp_path / "again")
    assert sha256_folder(tmp_path / "again") == sha256_folder(prepared)


def test_a_city_without_the_buildings_it_needs_leaves_the_old_output(ingested, tmp_path):
    out = tmp_path / "out"
    prepare(ingested, PARAMS, out)
    before = sha256_folder(out)
    with pytest.raises(InputError, match="block_m"):
        prepare(ingested, Prepare(block_m=1e7, split=SPLITS), out)
    with pytest.raises(InputError, match="split"):
        prepare(ingested, Prepare(min_points=1000, block_m=40, split=SPLITS), out)
    assert sha256_folder(out) == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("exists", [True, False])
def test_no_city_is_refused(tmp_path, exists):
    folder = tmp_path / "ingested"
    if exists:
        folder.mkdir()
    with pytest.raises(InputError, match=r"ingested: no city found\. Run `plumbline ingest` first"):
        prepare(folder, PARAMS, tmp_path / "out")
    assert not (tmp_path / "out").exists()
