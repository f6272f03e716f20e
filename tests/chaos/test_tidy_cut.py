"""The tidying of a registry killed before each of its steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.test_promotion_cut import KILLED, told_by


@pytest.mark.chaos
def test_a_tidying_cut_at_every_step(tmp_path: Path) -> None:
    found = told_by("tests.chaos.tidyings", tmp_path)
    steps = [one["before"] for one in found]
    # It did see the work: the versions, the files, the runs.
    assert sum("model_versions" in step for step in steps) == 2
    assert sum(step.startswith("os.remove") for step in steps) >= 4
    assert sum(step.startswith("DELETE FROM runs") for step in steps) == 2
    assert {one["ended"] for one in found} == {KILLED}
    assert {one["served"] for one in found} == {"five"}
    assert {tuple(one["back"]) for one in found} == {("four", "three")}
    assert not any(one["returned"] for one in found)
    assert {(one["versions"], one["folders"]) for one in found} == {(3, 3)}
