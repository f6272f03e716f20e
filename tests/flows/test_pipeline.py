"""The whole flow as a user starts it, on its embedded server or on one that is there, over stages that take no time."""

from __future__ import annotations

import json
import signal
import sqlite3
from pathlib import Path
from uuid import uuid4

import pytest

from tests.flows.conftest import STAGES, Project, Server, stage_process
from tests.waiting import until_gone

FLOW = ("-m", "flows.pipeline")
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_home")]


def test_a_run_releases_and_recomputes_only_what_changed(project: Project, prefect_server: Server) -> None:
    code, said = project.run(*FLOW)
    assert code == 0, said
    heard = [said.index(f"{stage} says hello") for stage in STAGES]
    assert heard == sorted(heard)
    assert said.index("package says hello") < said.index("promoted") < said.index("predict says hello")
    closing = said[said.index("metric ") :]
    for line in ("gate: pass", "champion: abc123", "data/predict/predictions.gpkg", "data/predict/map.html"):
        assert line in closing
    assert "severity MAE (permille)" in closing
    assert "12,345" in closing

    # What follows needs no server of its own, which would take ten seconds to start.
    assert Path(".plumbline/server.pid").read_text()
    project.environment["PREFECT_API_URL"] = prefect_server.url

    # A gate that refuses: Failed, named, released nothing, and the evidence is kept.
    project.behave(gate={"fail_gate": True}, approve={"exit": 3})
    code, said = project.run(*FLOW)
    assert code == 3, said
    assert not Path(".plumbline/server.pid").exists()
    assert "failed: approve refused: severity_mae of int8 on all: 0.4, at most 0.3. What was packaged last" in said
    assert "gate: fail" in said
    assert "promoted" not in said
    assert "Traceback" not in said
    assert json.loads(Path("data/gate/gate.json").read_text())["verdict"] == "fail"
    assert Path("data/package/manifest.json").exists()

    # As it was before: everything comes from the cache.
    project.behave()
    code, said = project.run(*FLOW)
    assert code == 0, said
    assert "says hello" not in said
    assert "this run: nothing was recomputed" in said
    assert "promoted" in said


def copy_row(database: sqlite3.Connection, table: str, where: str, **changes: str) -> None:
    """Another row like the one there is, but for some columns."""
    found = database.execute(f"SELECT * FROM {table} WHERE {where}")
    row = dict(zip([column[0] for column in found.description], found.fetchone(), strict=True)) | changes
    kept = {key: value for key, value in row.items() if key != "created"}
    marks = ", ".join("?" * len(kept))
    database.execute(f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", tuple(kept.values()))


@pytest.mark.chaos
def test_a_killed_run_leaves_nothing_behind_and_the_next_one_goes_on(project: Project) -> None:
    project.behave(train={"sleep": 3600})
    run = project.start(*FLOW)
    stage = stage_process("train")
    (server,) = Path(".plumbline/server.pid").read_text().split()
    run.kill()
    run.wait()
    until_gone(stage)
    with sqlite3.connect(".prefect/prefect.db") as record:
        copy_row(record, "flow", "name = 'pipeline'", id=str(uuid4()), name="score")
        flow = record.execute("SELECT id FROM flow WHERE name = 'score'").fetchone()[0]
        copy_row(record, "flow_run", "state_type = 'RUNNING'", id=str(uuid4()), flow_id=flow, idempotency_key="other")
    project.behave(train={"sleep": 0})
    code, said = project.run(*FLOW)
    assert code == 0, said
    assert "recomputed: train" in said
    until_gone(int(server))
    with sqlite3.connect(".prefect/prefect.db") as record:
        told = "SELECT flow.name, state_type FROM flow_run JOIN flow ON flow.id = flow_id ORDER BY flow_run.created"
        states = record.execute(told).fetchall()
    # A run of `score` may be at work beside it, and is left alone.
    assert sorted(states) == [("pipeline", "COMPLETED"), ("pipeline", "CRASHED"), ("score", "RUNNING")]


@pytest.mark.chaos
def test_a_terminated_run_ends_its_stage(project: Project) -> None:
    project.behave(simulate={"sleep": 3600})
    run = project.start(*FLOW)
    stage = stage_process("simulate")
    run.terminate()
    until_gone(stage)
    said, _ = run.communicate()  # to its end: the embedded server, which shares the pipe, has ended too
    assert run.returncode == 128 + signal.SIGTERM, said
