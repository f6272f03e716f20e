"""What Docker and Kubernetes pools are made from, as far as it can be checked without either."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prefect.utilities.templating import apply_values
from prefect.workers.base import BaseJobConfiguration

from flows.orchestration.job_templates import template
from flows.orchestration.pools import read_pools
from flows.versioning.stage_runner import STAGES, StageFailedError
from tests.deploy.restricted import broken_rules
from tests.flows.conftest import IDENTITY, ROOT

NAMES = sorted(path.stem for path in (ROOT / "deploy/pools").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", NAMES)
def test_prefect_resolves_a_run_from_the_template(name: str) -> None:
    made = template(name)
    jsonschema.Draft7Validator.check_schema(made["variables"])

    # As a worker does for each run: a run's own values over the template's.
    defaults = BaseJobConfiguration._get_base_config_defaults(made["variables"]["properties"])
    run: Any = apply_values(made["job_configuration"], {**defaults, "image": "other"})
    assert run["env"]["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    pool = next(pool for pool in read_pools() if name.endswith(pool.name))
    assert run["env"]["PLUMBLINE_STAGES"] == " ".join(pool.makes)
    assert "other" in json.dumps(run)
    assert made["variables"]["properties"]["image"]["default"] not in json.dumps(run)
    if name.startswith("kubernetes"):
        pod = run["job_manifest"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert ("nvidia.com/gpu" in container["resources"]["limits"]) == name.endswith("gpu")
        assert container["resources"]["limits"]["memory"]  # Prefect's own stay
        assert "{{" not in json.dumps(pod["containers"][0]["resources"])
        assert broken_rules(pod) == []


def test_the_pools_share_out_all_stages() -> None:
    made = {
        clone: [stage for pool in read_pools() if pool.clone is clone for stage in pool.makes]
        for clone in (True, False)
    }
    assert sorted(made[True]) == sorted([*STAGES, "predict", "restore"])
    assert sorted(made[False]) == sorted(
        [*STAGES, "predict", "restore"]
    )  # a retraining in the project's folder makes all


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("type: docker\nvalues: {image: 5}", r"\$\.image: 5 is not of type 'string'"),
        ("type: docker\nvalues: {gpus: all}", "'gpus' was unexpected"),
        ("values: {}", "type"),
        ("type: [", "expected"),
    ],
)
def test_a_value_that_prefect_has_no_place_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, told: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    monkeypatch.setattr("flows.orchestration.job_templates.FOLDER", tmp_path)
    with pytest.raises(StageFailedError, match=told) as caught:
        template("mine")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("volume", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_entrypoint_makes_a_clone_once_and_runs_in_it(tmp_path: Path, volume: bool) -> None:
    """The shell script of the images, run here; where the clone's folder is a volume, with what a file system has.

    There it calls DVC, which loads for a second, and else a program that writes down what is asked of it.
    """
    origin, home = tmp_path / "origin", tmp_path / "work/a clone"
    origin.mkdir()
    (tmp_path / "work").mkdir()
    if volume:
        (home / "lost+found").mkdir(parents=True)
        (home / ".new").mkdir()  # of a start that was cut short
    (origin / ".dvc").mkdir()
    (origin / ".dvc/config").write_text("[core]\n    analytics = false\n")
    (origin / ".gitignore").write_text("/src/plumbline/serve/map/page/\n")
    page = tmp_path / "page"
    page.mkdir()
    for name in ("app.js", "app.css"):
        (page / name).write_text(name)
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "one"]):
        subprocess.run(["git", *IDENTITY, *command], cwd=origin, check=True)
    program = tmp_path / "dvc"
    program.write_text('#!/bin/sh\nfor last; do :; done\necho "url = $last" >> .dvc/config.local\n')
    program.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent if volume else tmp_path}:{os.environ['PATH']}",
        "PLUMBLINE_HOME": str(home),
        "PLUMBLINE_DVC_REMOTE": "s3://bucket/dvc",
        "PLUMBLINE_DVC_ENDPOINT": "http://127.0.0.1:9",
        "PLUMBLINE_MAP_PAGE": str(page),
    }
    command = ["sh", str(ROOT / "deploy/entrypoint.sh"), "sh", "-c", "pwd; echo $PYTHONPATH"]
    missing = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert missing.returncode != 0
    assert "the repository to clone" in missing.stderr
    environment["PLUMBLINE_REPOSITORY"] = str(origin)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == [str(home), f"{home}/src:{home}"]
    told = (home / ".dvc/config.local").read_text()
    assert "url = s3://bucket/dvc" in told
    assert "url = http://127.0.0.1:9" in told
    status = subprocess.run(["git", "status", "--porcelain"], cwd=home, capture_output=True, text=True, check=True)
    assert status.stdout in ("", "?? .dvc/config.local\n")
    names = [".dvc", ".git", ".gitignore", *(["lost+found"] if volume else []), "src"]
    assert sorted(path.name for path in home.iterdir()) == names
    copy = home / "src/plumbline/serve/map/page"
    assert {path.name: path.read_text() for path in copy.iterdir()} == {"app.js": "app.js", "app.css": "app.css"}
    (home / "kept").touch()
    subprocess.run(command, env=environment | {"PLUMBLINE_REPOSITORY": "/gone"}, check=True, capture_output=True)
    assert (home / "kept").exists()
    assert yaml.safe_load((ROOT / "deploy/pools.yaml").read_text())
