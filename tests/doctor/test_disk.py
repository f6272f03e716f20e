"""The disk: a limit that no disk meets, a run that no disk holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from plumbline.doctor.machine import check_disk, last_run
from plumbline.doctor.probes import Place, State, size
from tests.doctor.conftest import PLACE, faults


def small(free_bytes: int) -> Place:
    return Place(PLACE.commands, PLACE.seconds, free_bytes)


def test_room_enough(project: Path) -> None:
    found = list(check_disk(small(0)))
    assert {item.state for item in found} == {State.OK}
    assert any("no run recorded" in item.found for item in found)


def test_less_free_than_there_shall_be(project: Path) -> None:
    assert "Free some" in faults(check_disk, small(10**18))


def test_a_run_larger_than_the_disk(project: Path) -> None:
    Path("dvc.lock").write_text(
        "schema: '2.0'\nstages:\n  train:\n    cmd: a\n    outs:\n    - {path: data/train, size: 900000000000000000}\n"
        "  package:\n    cmd: a\n    outs:\n    - {path: data/package, size: 5}\n"
    )
    assert last_run() == 9 * 10**17 + 5
    said = faults(check_disk, small(0))
    assert "as much as the last run made: 1800000000.0 GB" in said  # in the cache and in data


@pytest.mark.parametrize("text", ["", "stages: [", "stages: {train: 3}", "nothing"])
def test_a_record_that_says_nothing(project: Path, text: str) -> None:
    Path("dvc.lock").write_text(text)
    assert last_run() == 0


def test_a_place_that_takes_no_file(project: Path) -> None:
    Path("data").touch()
    assert "nothing can be written to data" in faults(check_disk, small(0))


def test_sizes() -> None:
    assert [size(n) for n in (0, 999, 1000, 2_500_000, 10**9, 10**15)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "2.5 MB",
        "1.0 GB",
        "1000000.0 GB",
    ]
