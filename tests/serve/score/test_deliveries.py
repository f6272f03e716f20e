"""Which deliveries are whole, and how they are known."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from plumbline.core.errors import InputError
from plumbline.params import Score, parse_params
from plumbline.serve.score.deliveries import Delivery, find_deliveries
from plumbline.serve.score.messages import unsent_aside
from plumbline.serve.score.run import is_aside, set_aside
from plumbline.serve.score.tiles import plan_reading
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
        import time

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


@pytest.mark.parametrize("name", ["b.csv.part", "b.zip.crdownload", "deep/b.TMP"])
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
    from plumbline.serve.score import deliveries

    source.write("town/one/a.csv")
    hashed: list[str] = []
    real = deliveries.sha256_file
    monkeypatch.setattr(deliveries, "sha256_file", lambda path: hashed.append(path.name) or real(path))
    first = source.look(0)
    assert source.look(0) == first
    assert hashed == ["a.csv"]
    source.notes.write_text("{")  # cut: everything is read again, and nothing is lost
    assert source.look(0)[0].id == first[0].id
    assert hashed == ["a.csv"] * 2


def test_a_file_or_folder_that_vanishes_during_a_look_holds_up_no_other(
    source: Source, monkeypatch: pytest.MonkeyPatch
):
    from plumbline.serve.score import deliveries

    for name in ("a", "b", "c"):
        source.write(f"town/{name}/x.csv", name)
    source.write("town/c/y.csv")
    real_hash, real_folders = deliveries.sha256_file, list(deliveries._folders(source.folder))

    def renamed(path: Path) -> str:
        if path.name == "y.csv":
            path.rename(path.with_name("z.csv"))
        return real_hash(path)

    monkeypatch.setattr(deliveries, "sha256_file", renamed)
    monkeypatch.setattr(deliveries, "_folders", lambda _: [*real_folders, ("town", source.folder / "town/gone")])
    assert [one.name for one in source.look(0)] == ["a", "b"]
    monkeypatch.undo()
    assert [(one.name, sorted(one.files)) for one in source.look(0)][-1] == ("c", ["x.csv", "z.csv"])


def test_a_delivery_that_may_not_be_read_holds_up_no_other(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    from plumbline.serve.score import deliveries

    for name in ("closed", "open"):
        source.write(f"town/{name}/x.csv", name)
    real = deliveries.sha256_file

    def refused(path: Path) -> str:
        if "closed" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    real_is_file = Path.is_file
    monkeypatch.setattr(deliveries, "sha256_file", refused)  # root may read everything
    monkeypatch.setattr(deliveries.log, "propagate", True)
    assert [one.name for one in source.look(0)] == ["open"]
    monkeypatch.setattr(Path, "is_file", lambda path: real_is_file(path) if "deep" not in path.parts else refused(path))
    source.write("town/closed/deep/y.csv")
    assert [one.name for one in source.look(0)] == ["open"]
    assert "closed: left for the next time, a file cannot be read" in caplog.text
    monkeypatch.undo()
    assert [one.name for one in source.look(0)] == ["closed", "open"]
    assert sorted(source.look(0)[0].files) == ["deep/y.csv", "x.csv"]


def test_a_folder_that_may_not_be_listed_is_not_taken_for_an_empty_one(
    source: Source, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    from plumbline.serve.score import deliveries

    for name in ("part/x.csv", "part/deep/y.csv", "open/x.csv"):
        source.write(f"town/{name}")
    real_scandir = os.scandir

    def scandir(path: str | os.PathLike[str]):
        if Path(path).name == "deep":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real_scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may list everything
    monkeypatch.setattr(deliveries.log, "propagate", True)
    assert [one.name for one in source.look(0)] == ["open"]
    assert "part: left for the next time, a file cannot be read" in caplog.text
    monkeypatch.undo()
    assert [one.name for one in source.look(0)] == ["open", "part"]


def test_a_name_that_is_no_text_is_set_aside_and_holds_up_no_other(source: Source):
    source.write("town/good/x.csv")
    bad = source.write("town/bad/x.csv").parent
    (bad / "x.csv").rename(os.fsdecode(os.fsencode(bad) + b"/M\xfcnchen.csv"))
    found = {one.name: one for one in source.look(0)}
    assert found["good"].id != found["bad"].id == source.look(0)[0].id
    params = parse_params(PARAMS | {"score": {"source": str(source.folder), "out": str(source.folder.parent / "out")}})
    with pytest.raises(InputError, match=r"'M\\udcfcnchen\.csv': a name that is not UTF-8") as refused:
        plan_reading(found["bad"], {}, params.ingest)
    set_aside(found["bad"], refused.value, params)
    assert (is_aside(found["bad"], params), is_aside(found["good"], params)) == (True, False)
    (message,) = unsent_aside(params.score.out)
    assert "not UTF-8" in message.body


def test_a_source_that_is_not_there_is_named(source: Source):
    with pytest.raises(InputError, match=r"score\.source: no folder"):
        source.look()
