"""Write the bill of materials of a lock file: `python requirements/sbom.py LOCK OUT`, CycloneDX 1.6 in JSON.

The same lock file gives the same bytes: no time, and a serial number made from the content. A version has many files;
their hashes stay in the lock file, whose own hash is noted.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OWN = "plumbline"
PINNED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)")


def read_lock(text: str) -> dict[str, tuple[str, set[str]]]:
    """Name -> version and names of those that ask for it, of a lock file as pip-compile writes it."""
    found: dict[str, tuple[str, set[str]]] = {}
    name, in_via = "", False
    for line in text.splitlines():
        if match := PINNED.match(line):
            name, in_via = _normal(match[1]), False
            found[name] = (match[2], set())
        elif line.startswith("#"):
            name = ""  # the header, and what is not pinned
        elif name and (comment := line.strip()).startswith("#"):
            words = comment.lstrip("# ")
            in_via = in_via or words.startswith("via")
            asks = re.match(r"([A-Za-z0-9._-]+)", words.removeprefix("via").strip())
            if in_via and asks and asks[1] not in ("-c", "-r"):
                found[name][1].add(_normal(asks[1]))
    return found


def bill(lock: bytes, lock_name: str, version: str) -> dict[str, Any]:
    """CycloneDX document of Plumbline with the libraries of a lock file."""
    pinned = read_lock(lock.decode())
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
            {"type": "library", "bom-ref": refs[name], "name": name, "version": found, "purl": refs[name]}
            for name, (found, _) in sorted(pinned.items())
        ],
        "dependencies": [{"ref": ref, "dependsOn": sorted(asked)} for ref, asked in sorted(needs.items())],
    }


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main(lock: Path, out: Path) -> None:
    """Write the document."""
    pyproject = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (version,) = re.findall(r'^version = "(.+)"', pyproject, re.MULTILINE)
    document = bill(lock.read_bytes(), f"{lock.parent.name}/{lock.name}", version)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
