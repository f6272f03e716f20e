"""Which of a place's results is the last, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from plumbline.core.errors import InputError
from plumbline.core.files import write_json
from plumbline.serve.score.results import LATEST, MANIFEST, DeliveryResult, note_latest, read_result, results


def publish(out: Path, delivery: str, version: str = "1", **about: Any) -> DeliveryResult:
    """Write the manifest of a result; `about` has other values of its keys."""
    empty = ("inputs", "footprints", "statuses", "categories", "left_out", "changes", "files")
    usual = {"place": "town", "id": "ab" * 32, "model": {"name": "plumbline", "version": version}, "code": ""}
    usual |= {"observed": {"from": "2020-01-01", "to": "2022-01-01"}, "made": "2026-11-01T00:00:00+00:00"}
    usual |= {"tracks": [], "tiles": 1, "buildings": 1, "compared_with": None, "drift": "none"}
    one = DeliveryResult.model_validate(usual | {key: {} for key in empty} | {"delivery": delivery, **about})
    write_json(out / one.place / one.folder_name / MANIFEST, one.model_dump(mode="json"))
    return one


def latest(out: Path) -> dict[str, str]:
    note_latest(out, "town")
    told: dict[str, str] = json.loads((out / "town" / LATEST).read_text())
    return told


def test_a_delivery_that_was_judged_again_is_told_of_anew(tmp_path: Path):
    publish(tmp_path, "one")
    assert latest(tmp_path)["model_version"] == "1"
    publish(tmp_path, "one", version="2", made="2026-11-02T00:00:00+00:00")
    assert (latest(tmp_path)["model_version"], latest(tmp_path)["made"]) == ("2", "2026-11-02T00:00:00+00:00")
    written = (tmp_path / "town" / LATEST).stat().st_mtime_ns
    assert latest(tmp_path)["model_version"] == "2"
    assert (tmp_path / "town" / LATEST).stat().st_mtime_ns == written
    (tmp_path / "town" / LATEST).write_text('{"folder": "one-abababab"')  # cut
    assert latest(tmp_path)["model_version"] == "2"


@pytest.mark.parametrize("content", ['{"place": "to', "[]", "{}"])
def test_a_result_that_is_damaged_says_what_to_do(tmp_path: Path, content: str):
    one = publish(tmp_path, "one")
    (tmp_path / "town" / one.folder_name / MANIFEST).write_text(content)
    with pytest.raises(InputError, match=r"manifest\.json: .*Move the folder away"):
        results(tmp_path, "town")
    with pytest.raises(InputError, match=r"two-abababab/manifest\.json: no such file\.$"):
        read_result(tmp_path / "town" / "two-abababab")


@pytest.mark.parametrize("names", ["abc", "cab", "bca"])
def test_results_of_one_second_have_one_order(tmp_path: Path, names: str, monkeypatch: pytest.MonkeyPatch):
    for name in names:
        publish(tmp_path, name)
    listed = [tmp_path / "town" / f"{name}-abababab" / MANIFEST for name in names]
    monkeypatch.setattr(Path, "glob", lambda *_: iter(listed))
    assert [one.delivery for one in results(tmp_path, "town")] == ["a", "b", "c"]
