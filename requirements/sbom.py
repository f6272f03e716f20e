"""Write the bill of materials of a lock file: `python requirements/sbom.py LOCK OUT`,
CycloneDX 1.6 in JSON.

The same lock file gives the same bytes: no time, and a serial number made from the content.
A version has many files; their hashes stay in the lock file, whose own hash is noted.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

from packaging.markers import Marker
from pins import read_lock

ROOT = Path(__file__).parents[1]
OWN = "plumbline"
DOCKERFILE = ROOT / "deploy/Dockerfile.serve"


def image_environment() -> dict[str, str]:
    """Return the image's markers: Linux, and the newest release of the Python that its
    Dockerfile names."""
    (version,) = re.findall(
        r"^ARG BASE=python:(\d+\.\d+)-slim$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE
    )
    system = {
        "os_name": "posix",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
    }
    runs = {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
    return {**system, **runs, "python_version": version, "python_full_version": f"{version}.99"}


def bill(lock: bytes, lock_name: str, version: str) -> dict[str, Any]:
    """Return the CycloneDX document of Plumbline with the libraries that the image gets
    from a lock file."""
    image = image_environment()
    pins = [
        pin
        for pin in read_lock(lock.decode())
        if not pin.marker or Marker(pin.marker).evaluate(image)
    ]
    pinned = {pin.name: (pin.version, pin.askers) for pin in pins}
    digest = hashlib.sha256(lock).hexdigest()
    own = f"pkg:generic/{OWN}@{version}"  # not pypi: there, this name is another project's
    refs = {OWN: own} | {name: f"pkg:pypi/{name}@{found}" for name, (found, _) in pinned.items()}
    needs: dict[str, list[str]] = {ref: [] for ref in refs.values()}
    for name, (_, askers) in pinned.items():
        for asker in askers & refs.keys():
            needs[refs[asker]].append(refs[name])
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{own}#{digest}')}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": OWN,
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [
                {"name": "plumbline:lock", "value": lock_name},
                {"name": "plumbline:lock:sha256", "value": digest},
            ],
        },
        "components": [
            {
                "type": "library",
                "bom-ref": refs[name],
                "name": name,
                "version": found,
                "purl": refs[name],
            }
            for name, (found, _) in sorted(pinned.items())
        ],
        "dependencies": [
            {"ref": ref, "dependsOn": sorted(asked)} for ref, asked in sorted(needs.items())
        ],
    }


def main(lock: Path, out: Path) -> None:
    """Write the document."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"', pyproject, re.MULTILINE)
    document = bill(lock.read_bytes(), f"{lock.parent.name}/{lock.name}", version)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
