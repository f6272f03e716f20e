"""Files in, judgements and fields out."""

import io
import re
import sqlite3
from pathlib import Path

import geopandas
import jsonschema
import numpy as np
import pytest
import shapely
from pydantic import SecretStr

from plumbline.fields.simulate.scene import SceneAbout, make_scene, write_scene
from plumbline.serve.report.about import MAX_LETTERS
from plumbline.service import job_store as job_files
from plumbline.service.jobs import choose_kind
from plumbline.service.runner import LocalJob
from plumbline.service.settings import ServiceLimits
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.footprints.buildings import read_buildings
from tests.service.forked import ForkedJob
from tests.service.served import ended, files, is_problem, service

pytest.importorskip("fastapi")
rasterio = pytest.importorskip("rasterio")
ROOT = Path(__file__).parents[2]
GEOJSON = "application/geo+json"


@pytest.fixture(scope="module")
def served(package, fields_package, tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    with service(folder, package, fields_package, ServiceLimits(files=6, queue=3)) as client:
        yield client, folder


@pytest.fixture(scope="module")
def judged(served, city):
    """A job that judged the showcase."""
    client, _ = served
    answer = client.post("/v1/predict", files=files(city.products(), city.footprints), data={"damage_rate": "0.1"})
    assert answer.status_code == 202, answer.text
    job = answer.json()
    assert answer.headers["location"] == f"/v1/jobs/{job['id']}"
    assert job["status"] in ("queued", "running")
    assert client.get("/v1/jobs").json()[0]["id"] == job["id"]  # without tokens, everybody sees every job
    return ended(client, job["id"])


@pytest.mark.heavy
def test_results_come_in_each_format(served, judged):
    client, _ = served
    assert judged["status"] == "done", judged
    assert judged["started"] <= judged["finished"]
    where = f"/v1/jobs/{judged['id']}/result"
    for kind, suffix in (
        (GEOJSON, "geojson"),
        ("application/geopackage+sqlite3", "gpkg"),
        ("application/vnd.apache.parquet", "parquet"),
        ("text/csv", "csv"),
        ("text/html", "html"),
        ("application/pdf", "pdf"),
    ):
        answer = client.get(where, headers={"accept": kind})
        assert answer.headers["content-type"].split(";")[0] == kind
        assert answer.headers["vary"] == "Accept"  # a browser's cache holds each kind for itself
        assert client.get(where, params={"format": suffix}).content == answer.content
    assert len(re.findall(rb"/Type\s*/Page\b", answer.content)) > 20
    assert is_problem(client.get(where, headers={"accept": "image/tiff"}), 406, "result.other_format", GEOJSON)
    several = [("accept", "image/tiff"), ("accept", "text/csv;q=0.5"), ("accept", "text/html;q=0.9")]
    assert client.get(where, headers=several).headers["content-type"].split(";")[0] == "text/html"


@pytest.mark.heavy
def test_a_field_is_restored_with_its_buildings_by_points_that_are_read_once(served, tmp_path):
    client, folder = served
    write_scene(make_scene(SceneAbout("plain-00003", "plain", "easy", 3, 2, 32, 10.0)), tmp_path / "scene")
    points = sorted((tmp_path / "scene").glob("*.csv"))
    track = read_tracks(points)[0]
    middle = shapely.Point(np.median(track.easting), np.median(track.northing))
    footprint = geopandas.GeoDataFrame({"building_id": ["A"]}, geometry=[middle.buffer(40)], crs=track.crs)
    footprint.to_file(tmp_path / "f.gpkg")
    asked = {"num_inference_steps": "2", "samples": "2", "bbox": "-180,-90,180,90"}
    answer = client.post("/v1/restore", files=files(points, tmp_path / "f.gpkg"), data=asked)
    assert answer.status_code == 202, answer.text
    done = ended(client, answer.json()["id"])
    assert done["status"] == "done", done
    assert set(done["results"]) >= {"image/tiff", "image/png"}
    shown = client.get(f"/v1/jobs/{done['id']}/map").json()
    assert [one["name"] for one in shown["overlays"]][:2] == ["Up", "Up: uncertainty"]
    with rasterio.open(io.BytesIO(client.get(f"/v1/jobs/{done['id']}/result").content)) as source:
        assert source.descriptions[0] == "up_mm"
        assert np.isfinite(source.read(1)).any()
        assert source.tags()["PLUMBLINE_STEPS"] == "2"
    table = client.get(f"/v1/jobs/{done['id']}/result", params={"format": "geojson"}).json()
    assert table["features"][0]["properties"]["restored"]
    document = client.get("/openapi.json").json()
    content = document["paths"]["/v1/jobs/{job}/result"]["get"]["responses"]["200"]["content"]
    judged, restored = content[GEOJSON]["schema"]["oneOf"]
    jsonschema.validate(table, restored | {"components": document["components"]})
    with pytest.raises(jsonschema.ValidationError, match="is a required property"):
        jsonschema.validate(table, judged | {"components": document["components"]})
    (log,) = (path for path in folder.rglob(job_files.LOG) if done["id"] in path.parts)
    told = [line for line in log.read_text().splitlines() if " epochs, " in line]
    assert [path.name in line for path, line in zip(points, told, strict=True)] == [True] * len(points), told


@pytest.mark.heavy
def test_the_report_holds_the_buildings_that_are_named_and_causes_reach_the_job(served, city):
    client, folder = served
    known = read_buildings(city.footprints, "EPSG:3035", id_column=None, layer=None)["building_id"]
    for names, status in (([known[0], known[1]], "done"), ([known[0], "nobody"], "failed")):
        given = files(city.products(), city.footprints)
        given.append(("causes", ("tunnel.geojson", city.footprints.read_bytes())))
        about = {"project": "Tunnel B2", "client": "4711", "author": "M. Rossi", "address": "Via Roma 1\nUstica"}
        about["damage_rate_by"] = "city"
        job = ended(client, client.post("/v1/predict", files=given, data={"building": names, **about}).json()["id"])
        assert job["status"] == status, job
        if status == "done":
            report = client.get(f"/v1/jobs/{job['id']}/result", headers={"accept": "application/pdf"})
            assert len(re.findall(rb"/Type\s*/Page\b", report.content)) == 1 + 2 + 1
            assert b"may damage: Tunnel B2" in report.content
            assert b"M. Rossi" in report.content
            (log,) = (path for path in folder.rglob(job_files.LOG) if job["id"] in path.parts)
            assert "cause 1: the " in log.read_text()
        else:
            assert job["problem"]["key"] == "buildings.unknown_id"


@pytest.mark.heavy
def test_what_cannot_be_read_is_told_without_paths(served, city, tmp_path):
    client, folder = served
    (tmp_path / "cut.csv").write_bytes(city.products()[0].read_bytes()[:700])
    answer = client.post("/v1/predict", files=files([tmp_path / "cut.csv"], city.footprints))
    failed = ended(client, answer.json()["id"])
    assert failed["status"] == "failed"
    assert "cut.csv" in failed["problem"]["detail"]
    assert str(folder) not in failed["problem"]["detail"]
    assert is_problem(client.get(f"/v1/jobs/{failed['id']}/result"), 409, "job.not_done", "failed")


@pytest.mark.parametrize(
    ("path", "data", "key", "place"),
    [
        ("predict", {"clients": "1"}, "request.invalid", "clients`"),
        ("restore", {"steps": "1"}, "request.invalid", "steps`"),
        ("restore", {"damage_rate": "1"}, "request.invalid", "damage_rate`"),
        ("restore", {"num_inference_steps": "51"}, "request.invalid", "num_inference_steps"),
        ("restore", {"adapter": "none-such"}, "adapter.missing", "none-such"),
        ("restore", {"samples": "1"}, "request.invalid", "samples"),
        ("restore", {"bbox": "14,38,13,39"}, None, "WEST must be less than EAST"),
        ("predict", {"damage_rate": ["0.01", "0.02"]}, "request.repeated_field", "damage_rate"),
        ("predict?damage_rate=0.5", {}, "request.unknown_parameter", "damage_rate"),
        ("predict", {"damage_rate": "lots"}, "damage_rate.not_a_share", "`damage_rate` lots"),
        ("predict", {"min_quadrant_confidence": "1.2"}, "request.invalid", "min_quadrant_confidence"),
        ("predict", {"format": "xyz"}, "request.invalid", "format"),
        ("predict", {"id_column": "x" * 300}, "request.invalid", "id_column"),
        ("predict", {"since": "1577836800"}, None, "since"),
        ("predict", {"until": "2021-02-30"}, None, "2021-02-30"),
        ("predict", {"client": "x" * (MAX_LETTERS + 1)}, "request.invalid", "client`"),
        ("predict", {"since": "2022-01-01", "until": "2021-01-01"}, None, "2022-01-01 is after"),
    ],
)
def test_options_are_checked_before_a_job_is_made(served, city, path, data, key, place):
    client, folder = served
    before = set((folder / job_files.JOBS).iterdir())
    answer = client.post(f"/v1/{path}", files=files(city.products(), city.footprints), data=data)
    assert is_problem(answer, 422, key, place)
    assert set((folder / job_files.JOBS).iterdir()) == before


@pytest.mark.parametrize(
    ("query", "key", "place"),
    [
        ("fromat=csv", "request.unknown_parameter", "'fromat' in the address; known: format"),
        ("format=csv&format=pdf", "request.repeated_parameter", "'format'"),
    ],
)
def test_a_parameter_of_the_address_is_known_and_given_once(served, query, key, place):
    client, _ = served
    assert is_problem(client.get(f"/v1/jobs/{'0' * 32}/result?{query}"), 422, key, place)


@pytest.mark.heavy
def test_a_window_reaches_the_job(served, city):
    client, _ = served
    given = files(city.products(), city.footprints)
    failed = ended(client, client.post("/v1/predict", files=given, data={"until": "1999-12-31"}).json()["id"])
    assert failed["status"] == "failed"
    assert "0 of its" in failed["problem"]["detail"]
    assert "up to 1999-12-31" in failed["problem"]["detail"]
    bodies = client.get("/openapi.json").json()["components"]["schemas"]
    bodies = [one["properties"] for title, one in bodies.items() if title.endswith("Form")]
    assert len(bodies) == 3
    assert all(body[name]["format"] == "date" for body in bodies for name in ("since", "until"))


def test_the_page_names_every_field(served):
    client, _ = served
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    fields = {name for title, one in schemas.items() if title.endswith("Form") for name in one["properties"]}
    page = (ROOT / "docs" / "service.md").read_text()
    assert {"points", "num_inference_steps", "artifact"} <= fields
    assert [name for name in sorted(fields) if f"`{name}`" not in page] == []


def test_files_are_needed_and_few(served, city):
    client, folder = served
    before = set((folder / job_files.JOBS).iterdir())
    assert is_problem(client.post("/v1/predict", data={"damage_rate": "auto"}), 422, "request.invalid", "points")
    many = files([city.products()[0]] * 7, city.footprints)
    assert is_problem(client.post("/v1/predict", files=many), 413, "request.too_many_files", "8 files")
    same = files([city.products()[0]] * 2, city.footprints)
    assert is_problem(client.post("/v1/predict", files=same), 422, "request.repeated_file_name")
    two = files(city.products(), city.footprints, city.products()[0])
    assert is_problem(client.post("/v1/predict", files=two), 422, "footprints.not_one")
    assert set((folder / job_files.JOBS).iterdir()) == before
    assert list((folder / job_files.INCOMING).iterdir()) == []


@pytest.mark.heavy
def test_jobs_are_cancelled_removed_and_unknown(served, judged, city):
    client, folder = served
    waiting = [client.post("/v1/predict", files=files(city.products(), city.footprints)).json()["id"] for _ in range(2)]
    assert client.delete(f"/v1/jobs/{waiting[1]}").json()["status"] == "cancelled"
    client.delete(f"/v1/jobs/{waiting[0]}")
    for job in waiting:  # they stay on the list, as other ended jobs do, until they are removed
        assert ended(client, job)["status"] == "cancelled"
        assert not (folder / job_files.JOBS / job).exists()
        assert is_problem(client.get(f"/v1/jobs/{job}/result"), 409, "job.not_done", "cancelled")
        assert client.delete(f"/v1/jobs/{job}").json()["status"] == "cancelled"
        assert is_problem(client.get(f"/v1/jobs/{job}"), 404, "job.unknown")
    assert client.delete(f"/v1/jobs/{judged['id']}").json()["status"] == "done"
    assert is_problem(client.get(f"/v1/jobs/{judged['id']}"), 404, "job.unknown")
    assert not (folder / job_files.JOBS / judged["id"]).exists()
    assert is_problem(client.get("/v1/jobs/" + "0" * 32), 404, "job.unknown")
    assert is_problem(client.get("/v1/jobs/..%2f..%2fetc"), 404, None, "Not Found")
    assert is_problem(client.get("/v1/jobs/nothex"), 404, "job.unknown")


@pytest.mark.heavy
def test_each_token_sees_its_own_jobs_alone(city, package, fields_package, tmp_path):
    mine, other = ({"authorization": f"Bearer a-token-of-many-letters-{name}"} for name in "ab")
    tokens = tuple(SecretStr(one["authorization"].removeprefix("Bearer ")) for one in (mine, other))
    given = files(city.products(), city.footprints)
    with service(tmp_path, package, fields_package, tokens=tokens) as client:
        ours = [client.post("/v1/predict", files=given, headers=mine).json()["id"] for _ in range(2)]
        theirs = client.post("/v1/predict", files=given, headers=other).json()["id"]
        listed = client.get("/v1/jobs", headers=mine).json()
        assert [job["id"] for job in listed] == ours[::-1]
        assert listed[0]["name"] == ", ".join([city.footprints.name, *(path.name for path in city.products())])
        assert [job["id"] for job in client.get("/v1/jobs", headers=other).json()] == [theirs]
        for end in ("", "/result", "/map"):
            assert is_problem(client.get(f"/v1/jobs/{theirs}{end}", headers=mine), 404, "job.unknown")
        assert is_problem(client.delete(f"/v1/jobs/{theirs}", headers=mine), 404, "job.unknown")
        assert client.get(f"/v1/jobs/{theirs}", headers=other).json()["status"] in ("queued", "running")
        assert is_problem(client.get("/v1/jobs"), 401, "request.no_token")


@pytest.mark.heavy
def test_a_full_queue_and_a_locked_list_are_told(city, package, fields_package, tmp_path):
    with service(tmp_path / "s", package, fields_package, ServiceLimits(queue=0)) as client:
        answer = client.post("/v1/predict", files=files(city.products(), city.footprints))
        assert is_problem(answer, 429, "jobs.queue_full")
        assert int(answer.headers["retry-after"]) > 0
        held = sqlite3.connect(tmp_path / "s" / job_files.DATABASE, isolation_level=None)
        held.execute("BEGIN EXCLUSIVE")
        try:
            assert is_problem(client.delete("/v1/jobs/" + "0" * 32), 503, "jobs.locked")
        finally:
            held.rollback()
            held.close()
        assert is_problem(client.delete("/v1/jobs/" + "0" * 32), 404, "job.unknown")


@pytest.mark.heavy
def test_a_job_too_large_or_too_slow_is_ended(city, package, fields_package, tmp_path):
    for limits, key, job in (
        (ServiceLimits(points=10), "points.too_many", ForkedJob),
        (ServiceLimits(footprints=3), "footprints.too_many", ForkedJob),
        (ServiceLimits(job_minutes=0.001), "job.too_long", LocalJob),
    ):
        with service(tmp_path / key, package, fields_package, limits, job) as client:
            answer = client.post("/v1/predict", files=files(city.products(), city.footprints))
            failed = ended(client, answer.json()["id"])
            assert (failed["status"], failed["problem"]["key"]) == ("failed", key)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("*/*", GEOJSON),
        ("text/html, text/csv;q=0.2", "text/html"),
        ("text/csv;q=0.2, text/html", "text/html"),
        ("text/html;q=0.2, text/csv; Q=0.9", "text/csv"),
        ("text/csv, text/html", "text/csv"),
        ("text/*", "text/csv"),
        ("image/tiff, */*;q=0.1", GEOJSON),
        ("image/tiff", None),
        (f"{GEOJSON};q=0, */*;q=0.1", "text/csv"),
        ("text/csv;q=0", None),
        ("*/*;q=0.0", None),
        ("", None),
    ],
)
def test_the_kind_of_content_is_the_one_that_the_header_prefers(accept, wanted):
    assert choose_kind(accept, [GEOJSON, "text/csv", "text/html"], GEOJSON) == wanted
