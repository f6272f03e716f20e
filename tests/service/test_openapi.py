"""What the service says of itself to programs, and that a client made from it works."""

import importlib
import subprocess
import sys

import httpx
import pytest

from plumbline.serve.columns import DECLARED
from plumbline.serve.report.about import ReportTexts
from plumbline.service.guard import OPEN
from tests.service.served import process, service
from tests.waiting import PATIENCE_S, until

pytest.importorskip("fastapi")


@pytest.fixture(scope="module")
def document(package, fields_package, tmp_path_factory):
    with service(tmp_path_factory.mktemp("service"), package, fields_package) as client:
        yield client.get("/openapi.json").json()


def test_tokens_and_refusals_are_documented(document):
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Details"}}}
    assert "detail" in document["components"]["schemas"]["Details"]["properties"]
    for path, methods in document["paths"].items():
        for about in methods.values():
            refused = {status: one["content"] for status, one in about["responses"].items() if status >= "400"}
            assert all(content == problem for content in refused.values())
            assert ("401" in refused) == (about.get("security") == [{"bearer": []}]) == (path not in OPEN)
            assert ("404" in refused) == ("{" in path)


def test_files_are_binary(document):
    def kinds(part):
        found = [part] if isinstance(part, dict) and "contentMediaType" in part else []
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return found + [one for each in inner for one in kinds(each)]

    files = [one for name in ("PredictForm", "RestoreForm") for one in kinds(document["components"]["schemas"][name])]
    assert [one["format"] for one in files] == ["binary"] * 7


def test_each_column_of_the_answer_is_described(document):
    columns = document["components"]["schemas"]["Building"]["properties"]
    assert list(columns) == [column.name for column in DECLARED]
    for column in DECLARED:
        described = columns[column.name]
        assert (described["title"], described["description"]) == (column.title, column.sentence)
        assert described.get("x-unit", "") == column.unit
        assert {"str": "string", "float64": "number"}.get(column.dtype, "integer") in described["type"]
    fields = document["components"]["schemas"]["PredictForm"]["properties"]
    for name, field in ReportTexts.model_fields.items():
        assert field.description in fields[name]["description"]
        assert fields[name]["maxLength"]


@pytest.mark.heavy
def test_a_generated_client_uploads_and_reads(package, city, tmp_path, monkeypatch):
    pytest.importorskip("openapi_python_client", reason="`make load` installs openapi-python-client")
    secret = tmp_path / "token"
    secret.write_text("a-token-of-many-letters")
    secret.chmod(0o600)
    with process(tmp_path / "service", package, "--token-file", str(secret)) as (begun, address):
        generate = [sys.executable, "-m", "openapi_python_client", "generate", "--fail-on-warning", "--meta", "none"]
        where = ["--url", f"{address}/openapi.json", "--output-path", str(tmp_path / "made")]
        subprocess.run([*generate, *where], check=True)
        monkeypatch.syspath_prepend(tmp_path)
        jobs, models, types = (importlib.import_module(f"made.{name}") for name in ("api.jobs", "models", "types"))
        for name in ("predict", "get_job", "get_result", "list_jobs"):
            importlib.import_module(f"made.api.jobs.{name}")
        client = importlib.import_module("made.client").AuthenticatedClient(
            address, secret.read_text(), timeout=httpx.Timeout(PATIENCE_S)
        )

        def upload(*paths):
            return [types.File(path.open("rb"), path.name) for path in paths]

        body = models.PredictForm(points=upload(*city.products()), buildings=upload(city.footprints), damage_rate="0.1")
        job = jobs.predict.sync(client=client, body=body)
        until(lambda: jobs.get_job.sync(job.id, client=client).status == "done", "the end of the job", needs=begun)
        assert [one.id for one in jobs.list_jobs.sync(client=client)] == [job.id]
        table = jobs.get_result.sync(job.id, client=client, format_=models.GetResultFormatType0.CSV)
        assert table.payload.readline().startswith(b"building_id,status,")
        refused = jobs.get_job.sync("0" * 32, client=client)
        assert (refused.status, refused.title) == (404, "Not found")
