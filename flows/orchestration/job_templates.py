"""Make job templates of Docker and Kubernetes pools: Prefect's own, with the values of
deploy/pools filled in.

`python -m flows.orchestration.job_templates NAME` prints one, for `prefect work-pool create
--type TYPE --base-job-template FILE`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import prefect
import yaml

from flows.versioning.stage_runner import BAD_INPUT, StageFailedError

FOLDER = Path("deploy/pools")
# Prefect's list of all kinds of workers, by which its server shows forms without their
# packages being installed.
KINDS = (
    Path(prefect.__file__).parent
    / "server/api/collections_data/views/aggregate-worker-metadata.json"
)


def template(name: str) -> dict[str, Any]:
    """Return the whole template of deploy/pools/NAME.yaml.

    Raises:
        StageFailedError: there is no such file, or a value that Prefect's schema of this
            kind of worker refuses.
    """
    path = FOLDER / f"{name}.yaml"
    try:
        entry: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        kind, values = entry["type"], entry["values"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        raise StageFailedError(
            f"{path}: {error}", BAD_INPUT, key="job_template.unreadable"
        ) from error
    template: dict[str, Any] = json.loads(KINDS.read_text(encoding="utf-8"))[f"prefect-{kind}"][
        kind
    ]["default_base_job_configuration"]
    schema = template["variables"]
    try:
        jsonschema.validate(values, {**schema, "additionalProperties": False})
    except jsonschema.ValidationError as error:
        raise StageFailedError(
            f"{path}: {error.json_path}: {error.message}", BAD_INPUT, key="job_template.bad_value"
        ) from error
    for key, value in values.items():
        schema["properties"][key]["default"] = value
    if "pod" in entry or "container" in entry:
        pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
        _merge(pod["containers"][0], entry.get("container", {}))
        _merge(pod, entry.get("pod", {}))
    return template


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def main(arguments: list[str]) -> int:
    """Print the template that the one argument names."""
    try:
        if len(arguments) != 1:
            names = ", ".join(sorted(path.stem for path in FOLDER.glob("*.yaml")))
            raise StageFailedError(
                f"Say one of: {names}", BAD_INPUT, key="job_template.unknown_pool"
            )
        sys.stdout.write(json.dumps(template(arguments[0]), indent=2) + "\n")
    except StageFailedError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
