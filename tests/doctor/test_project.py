"""params.yaml and the disks, each really broken."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from plumbline.doctor.findings import CheckState
from plumbline.doctor.project import check_disk, check_params, last_run_bytes
from tests.doctor.conftest import faults, states


def test_parameters_of_a_project(project: Path) -> None:
    assert states(check_params) == [CheckState.OK]
    with (project / "params.yaml").open("a") as stream:
        stream.write("trian: {epochs: 5}\n")
    assert "trian: unknown key" in faults(check_params)


def test_a_file_for_params_is_no_project(folder: Path) -> None:
    """What an analyst is told to write, and to give `predict`, holds section `ingest` alone."""
    assert states(check_params) == [CheckState.NOTHING]
    path = folder / "params.yaml"
    path.write_text('ingest: {products: {"d*.csv": {incidence_deg: 39.3, heading_deg: 192.2}}}\n')
    assert states(check_params) == [CheckState.OK]
    path.write_text("ingest: {min_coherence: 7}\n")
    assert "ingest.min_coherence: 7 found" in faults(check_params)
    path.write_text("ingest: [\n")
    assert "not readable as YAML" in faults(check_params)


def test_room_on_the_disk(project: Path) -> None:
    assert set(states(partial(check_disk, 0))) == {CheckState.OK}
    assert "Free some" in faults(partial(check_disk, 10**18))
    Path(".dvc").mkdir()
    size = 9 * 10**17
    Path("dvc.lock").write_text(f"stages: {{train: {{outs: [{{size: {size}}}]}}, package: {{outs: [{{size: 5}}]}}}}")
    assert last_run_bytes() == size + 5
    assert "the last run made: 1800000000.0 GB" in faults(partial(check_disk, 0))  # in the cache and in data
    for unreadable in ("", "stages: [", "stages: {train: 3}", "nothing"):
        Path("dvc.lock").write_text(unreadable)
        assert last_run_bytes() == 0
    Path("data").touch()
    assert "nothing can be written to data" in faults(partial(check_disk, 0))
