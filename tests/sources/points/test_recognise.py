"""A file of points is recognised once, and its parts go to other processes."""

import io
import pickle
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


def seen_from(east: float) -> str:
    """Points with a line of sight of their own."""
    los = {"los_east": f"{east}", "los_north": "0", "los_up": f"{(1 - east**2) ** 0.5:.4f}"}
    return text([{**row, **los, "temporal_coherence": "0.9"} for row in rows(60)])


@pytest.fixture
def city(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "town"
    folder.mkdir()
    (folder / "a.csv").write_text(seen_from(0.62))
    zipped(folder / "b.zip", {"b.csv": seen_from(-0.62)})
    pq.write_table(pacsv.read_csv(io.BytesIO(seen_from(0.5).encode())), folder / "c.parquet")
    squares().to_crs("EPSG:4326").to_file(folder / "footprints.geojson")
    (folder / "labels.csv").write_text("building_id,severity_permille,quadrant\nH0,1.2,NE\n")
    return folder


def test_ingest_recognises_each_product_once_however_many_parts_it_has(city, tmp_path, monkeypatch):
    asked: Counter[str] = Counter()

    def counting(path, *args):
        asked[path.name] += 1
        return recognise(path, *args)

    monkeypatch.setattr(tables, "recognise", counting)
    monkeypatch.setattr(read, "PART_BYTES", 2_000)
    ingest([city], Ingest(), tmp_path / "out", workers=2)
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
