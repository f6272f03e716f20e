"""Which deliveries are whole, and how they are known."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from plumbline.params import Score, parse_params
from plumbline.serve.score import deliveries
from plumbline.serve.score.deliveries import Delivery, find_deliveries
from plumbline.serve.score.messages import unsent_aside
from plumbline.serve.score.results import ASIDE
from plumbline.serve.score.run import is_aside, set_aside
from plumbline.serve.score.tiles import plan_reading
from tests.refusals import refuses, warned
from tests.tiny import PARAMS


class Source:
    """A source, and a clock that stands `later` seconds after the present."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.notes = folder / "source", folder / "looks.json"
        self.later = 0.0

    def write(self, path: str, content: str = "x") -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def look(self, settle_s: float = 60.0, **more: str) -> list[Delivery]:
        params = Score.model_validate({"source": str(self.folder), "settle_s": settle_s, **more})
        return find_deliveries(params, self.notes, lambda: time.time() + self.later)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def test_one_that_was_just_written_is_left_until_it_has_come_to_rest(source: Source):
    source.write("town/one/a.csv")
    assert source.look() == []
    source.later = 61
    assert [one.name for one in source.look()] == ["one"]
    source.write("town/one/b.csv")
    source.later = 0
    assert source.look() == []


def test_a_clock_that_was_set_back_holds_up_nothing_for_as_long(source: Source):
    source.write("town/one/a.csv")
    source.later = -86_400  # the file is of tomorrow
    assert source.look() == []
    source.later += 61
    assert [one.name for one in source.look()] == ["one"]


def test_one_that_grows_is_never_taken_however_long_it_takes(source: Source):
    for size in range(1, 5):
        source.write("town/one/a.csv", "x" * size)
        source.later += 1000
        assert [one.name for one in source.look(5000)] == []


UNFINISHED = [
    *("b.csv.part", "b.zip.crdownload", "deep/b.TMP", "b.csv.aria2", "b.csv.partial~"),
    *("b.csv.6eF5b5da", ".b.csv.Xa12bC", ".rsync-partial/b.csv", ".~tmp~/b.csv", "b.csv.a1b2c3d4.partial"),
    *(".azDownload-6ac1e2d4-b.csv", "b.csv_.gstmp", ".in.b.csv.", ".b.csv.~3f2a"),
    *("b.csv.inprogress", ".b.csv.swp", ".nfs00000001"),
    *(".goutputstream-0A1B2C", ".fuse_hidden0000001200000001", ".com.google.Chrome.aB3dE9", ".syncthing.b.csv.tmp"),
]
FINISHED = [
    "b.csv",
    "b.csv.20240131",
    "2024-01-31/b.csv",
    ".DS_Store",
    "._b.csv",
    ".gitkeep",
    "b.v2.csv",
    "town.shp.xml",
    ".b.csv.backup",
    ".in.csv",
]


@pytest.mark.parametrize("name", FINISHED)
def test_a_usual_name_holds_up_nothing(source: Source, name: str):
    source.write("town/one/a.csv")
    source.write(f"town/one/{name}")
    assert len(source.look(0)) == 1


@pytest.mark.parametrize("name", UNFINISHED)
def test_names_of_unfinished_files_and_markers_are_heeded(source: Source, name: str):
    source.write("town/one/a.csv")
    assert len(source.look(0)) == 1
    unfinished = source.write(f"town/one/{name}")
    assert source.look(0) == []
    unfinished.unlink()
    assert source.look(0, marker="DONE") == []
    source.write("town/one/DONE")
    assert len(source.look(0, marker="DONE")) == 1


def test_a_delivery_is_what_is_in_it(source: Source):
    source.write("town/one/a.csv", "1")
    source.write("town/copy/a.csv", "1")
    source.write("town/one/.hidden")
    source.write("_records/x/a.csv")
    source.write("town/empty/.DS_Store")
    copy, one = source.look(0)
    assert (copy.name, one.name) == ("copy", "one")
    assert copy.id == one.id
    assert one.unchanged()
    source.write("town/one/a.csv", "2")
    assert not one.unchanged()
    assert source.look(0)[1].id != copy.id


def test_files_are_hashed_once_until_they_change(source: Source, monkeypatch: pytest.MonkeyPatch):
    source.write("town/one/a.csv")
    hashed: list[str] = []
    real = deliveries.sha256_file
    monkeypatch.setattr(deliveries, "sha256_file", lambda path: hashed.append(path.name) or real(path))
    first = source.look(0)
    assert source.look(0) == first
    assert hashed == ["a.csv"]
    for content in ("{", "[]", '{"town/one": 3}'):  # damaged: everything is read again, and nothing is lost
        source.notes.write_text(content)
        assert source.look(0)[0].id == first[0].id
    assert hashed == ["a.csv"] * 4


FAULTS = {
    "a file vanishes": (deliveries, "sha256_file", FileNotFoundError),
    "a file may not be read": (deliveries, "sha256_file", PermissionError),
    "a file may not be looked at": (Path, "is_file", PermissionError),
    "a folder may not be listed": (os, "scandir", PermissionError),  # it is not taken for an empty one
}


@pytest.mark.parametrize(("of", "name", "error"), FAULTS.values(), ids=FAULTS)
def test_a_delivery_that_cannot_be_read_is_left_and_holds_up_no_other(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, of: Any, name: str, error: Any
):
    for file in ("closed/x.csv", "closed/deep/y.csv", "open/x.csv"):
        source.write(f"town/{file}", file)
    real = getattr(of, name)

    def refused(path: str | Path) -> Any:  # root may read everything
        if "deep" in Path(path).parts:
            raise error(errno.EACCES, "no", str(path))
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(of, name, refused)
        patch.setattr(deliveries.log, "propagate", True)
        assert [one.name for one in source.look(0)] == ["open"]
    assert warned(caplog, "delivery.unreadable", "closed")
    closed, opened = source.look(0)
    assert (sorted(closed.files), opened.name) == (["deep/y.csv", "x.csv"], "open")


def test_a_name_that_is_no_text_is_set_aside_and_holds_up_no_other(source: Source):
    source.write("town/good/x.csv")
    bad = source.write("town/bad/x.csv").parent
    (bad / "x.csv").rename(os.fsdecode(os.fsencode(bad) + b"/M\xfcnchen.csv"))
    found = {one.name: one for one in source.look(0)}
    assert found["good"].id != found["bad"].id == source.look(0)[0].id
    params = parse_params(PARAMS | {"score": {"source": str(source.folder), "out": str(source.folder.parent / "out")}})
    with refuses("delivery.name_encoding", r"'M\udcfcnchen.csv'") as refused:
        plan_reading(found["bad"], {}, params.ingest)
    set_aside(found["bad"], refused.value, params)
    assert (is_aside(found["bad"], params), is_aside(found["good"], params)) == (True, False)
    (params.score.out / ASIDE / "town" / "other.json").write_text("{}")  # holds up no news
    (message,) = unsent_aside(params.score.out)
    assert "not UTF-8" in message.body


def test_a_place_that_may_not_be_listed_is_an_error(source: Source, monkeypatch: pytest.MonkeyPatch):
    source.write("closed/one/a.csv")
    real = Path.iterdir

    def refused(path: Path) -> Any:  # root may read everything
        if path.name == "closed":
            raise PermissionError(errno.EACCES, "no", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", refused)
    with pytest.raises(PermissionError, match="closed"):
        source.look(0)


def test_a_source_that_is_not_there_is_named(source: Source):
    with refuses("folder.missing", "score.source"):
        source.look()
