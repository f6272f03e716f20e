"""Old copies of a registry, and machines that have missed a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.table import Fault
from tests.chaos.test_promotion_cut import told_by


@pytest.mark.chaos
def test_an_old_commit_and_an_old_registry(tmp_path: Path, fault: Fault) -> None:
    fault.key, fault.name = "09-old-registry", "a machine that missed a release; an old registry"
    found = told_by("tests.chaos.backups", tmp_path)
    assert found["release"] == "changed: new"
    assert found["old commit"] == "exit code 3: new"
    fault.saw("the package of an old commit is refused (exit code 3): it returns only by `--again`")
    fault.holds("the champion is not demoted")
    assert found["old registry"] == "as it was: old"
    assert found["old registry, next run"] == "changed: new"
    fault.holds("with an old registry, the next run promotes its package again")
    assert found["old files, old package"] == "exit code 3"
    assert found["old files, next run"] == "changed: new"
    fault.holds("if the champion's files are gone, no other takes its place, and its next run brings them back")
