"""The bill of materials: that of the lock file, valid by CycloneDX's own schema, and carried by the wheel."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.locks import module, pinned

ROOT = Path(__file__).parents[1]
SBOM = ROOT / "src/plumbline/sbom/serve.cdx.json"
LOCK = ROOT / "requirements/serve.lock"


def test_it_is_valid_by_the_schema() -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(SBOM.read_text()) is None


def test_it_is_that_of_the_lock_file(tmp_path: Path) -> None:
    """`make sbom` renews it."""
    out = tmp_path / "made.json"
    subprocess.run([sys.executable, ROOT / "requirements/sbom.py", LOCK, out], check=True)
    assert out.read_text() == SBOM.read_text()
    found = [(one["name"], one["version"]) for one in json.loads(SBOM.read_text())["components"]]
    assert found == sorted(pinned("serve", module("sbom").image_environment()).items())
    assert {"uvloop"} < dict(found).keys()
    assert not {"colorama", "pywin32"} & dict(found).keys()  # of Windows alone


@pytest.mark.parametrize("path", sorted(SBOM.parent.glob("*.json")), ids=lambda path: path.name)
def test_the_wheel_carries_it(path: Path) -> None:
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["plumbline"]
    assert any(fnmatch(f"sbom/{path.name}", pattern) for pattern in data)
