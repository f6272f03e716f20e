"""A file of points is opened no more often than has to be, and recognised once."""

import io
import json
import pickle
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from plumbline.params import Ingest, Product
from plumbline.sources.city import tiles as tables
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.parts import plan_parts, read_part
from plumbline.sources.points import read
from plumbline.sources.points.recognise import recognise
from tests.sources.make import rows, squares, text, zipped
from tests.sources.points.write_mintpy import Stack

SCRIPT = Path(__file__).with_name("count_opens.py")


WHOLE, CUT = 2**28, 1_000
"""Bytes of a part."""


def seen_from(east: float) -> str:
    """Points with a line of sight of their own."""
    los = {"los_east": f"{east}", "los_north": "0", "los_up": f"{(1 - east**2) ** 0.5:.4f}"}
    return text([{**row, **los, "temporal_coherence": "0.9"} for row in rows(60)])


def make_city(root: Path) -> Path:
    folder = root / "town"
    folder.mkdir()
    (folder / "a.csv").write_text(seen_from(0.62))
    zipped(folder / "b.zip", {"b.csv": seen_from(-0.62)})
    table = pacsv.read_csv(io.BytesIO(seen_from(0.5).encode()))
    pq.write_table(table, folder / "c.parquet", row_group_size=20)
    squares().to_crs("EPSG:4326").to_file(folder / "footprints.geojson")
    (folder / "labels.csv").write_text("building_id,severity_permille,quadrant\nH0,1.2,NE\n")
    return folder


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return make_city(tmp_path)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_city(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def opens(made: Path) -> dict[tuple[str, str, int], dict[str, int]]:
    """Name of a file or folder, and bytes of a part -> how often each file was opened."""
    Stack().write(made.parent / "stack" / "timeseries.h5")
    files = [("read", made / name, WHOLE) for name in ("a.csv", "b.zip", "c.parquet")]
    files.append(("read", made.parent / "stack" / "timeseries.h5", WHOLE))
    asked = [*files, ("points", made, WHOLE), ("points", made.parent / "stack", WHOLE)]
    asked += [("ingest", made, size) for size in (WHOLE, CUT)]
    command = [sys.executable, SCRIPT, json.dumps([(way, str(path), size) for way, path, size in asked])]
    done = subprocess.run(command, cwd=made.parent, capture_output=True, text=True, check=True)
    counted = json.loads(done.stdout.splitlines()[-1])
    return {(way, path.name, size): found for (way, path, size), found in zip(asked, counted, strict=True)}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("a.csv", 3),  # first bytes, first lines, rows
        ("b.zip", 4),  # first bytes, directory, first lines, rows
        ("c.parquet", 1),  # first bytes; Arrow opens it itself
    ],
)
def test_reading_opens_a_file_for_what_it_needs_alone(opens, name, most):
    assert opens["read", name, WHOLE] == {name: most}


@pytest.mark.heavy
def test_a_folder_of_points_looks_once_more_into_a_zip(opens, made):
    assert opens["points", made.name, WHOLE] == {"a.csv": 3, "b.zip": 5, "c.parquet": 1}


@pytest.mark.heavy
def test_a_stack_of_mintpy_is_opened_to_see_what_it_is_and_each_of_its_files_once(opens):
    beside = ("geometryGeo.h5", "temporalCoherence.h5")
    assert opens["read", "timeseries.h5", WHOLE] == {"timeseries.h5": 2, **dict.fromkeys(beside, 1)}
    # In a folder those beside it are looked at too, to see that they are no products.
    assert opens["points", "stack", WHOLE] == {"timeseries.h5": 2, **dict.fromkeys(beside, 3)}


@pytest.mark.parametrize("workers", [1, 2])
def test_ingest_recognises_each_product_once_however_many_parts_it_has(city, tmp_path, monkeypatch, workers):
    asked: Counter[str] = Counter()

    def counting(path, *args):
        asked[path.name] += 1
        return recognise(path, *args)

    monkeypatch.setattr(tables, "recognise", counting)
    monkeypatch.setattr(read, "recognise", counting)
    monkeypatch.setattr(read, "PART_BYTES", 2_000)
    ingest([city], Ingest(), tmp_path / "out", workers=workers)
    assert asked == {"a.csv": 1, "b.zip": 1, "c.parquet": 1}


def test_parts_go_to_other_processes_and_are_read_there(city, monkeypatch):
    (city / "d.csv").write_text(seen_from(0.4).replace(",", ";"))
    monkeypatch.setattr(read, "PART_BYTES", 10_000)
    plan = plan_parts([city], Ingest(products={"d.*": Product(track="d")}))
    sent = pickle.loads(pickle.dumps(plan.parts))
    assert sent == plan.parts
    assert {part.file.path.name for part in sent} == {"a.csv", "b.zip", "c.parquet", "d.csv"}
    for part in sent:
        read_part(part)
        assert (part.folder / "part.json").exists()
