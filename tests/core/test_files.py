import errno
import math
import os
import pickle
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plumbline.core.errors import InputError, NotWritable
from plumbline.core.files import (
    atomic_file,
    atomic_folder,
    check_writable,
    describe_write_error,
    here,
    make_full_disk_error,
    read_json,
    sha256_folder,
    write_bytes,
    write_json,
)
from tests.full_disk import largest_file
from tests.refusals import refuses


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_the_block_succeeds(tmp_path):
    target = tmp_path / "new" / "out.csv"
    with atomic_file(target) as temporary:
        assert temporary.suffix == ".csv"
        assert temporary.parent == target.parent
        temporary.write_text("whole")
        assert not target.exists()
    assert target.read_text() == "whole"
    assert names(target.parent) == ["out.csv"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
@pytest.mark.parametrize("fault", ["raises", "is interrupted", "leaves nothing"])
@pytest.mark.parametrize("before", [None, "old"])
def test_a_block_that_does_not_end_well_leaves_things_as_they_were(tmp_path, atomic, fault, before):
    target = tmp_path / "out.csv"
    old = target if atomic is atomic_file else target / "a"
    if before:
        old.parent.mkdir(exist_ok=True)
        old.write_text(before)

    def half() -> None:
        with atomic(target) as temporary:
            if fault == "leaves nothing":
                shutil.rmtree(temporary, ignore_errors=True)
                return
            (temporary if atomic is atomic_file else temporary / "new").write_text("half")
            raise KeyboardInterrupt if fault == "is interrupted" else RuntimeError

    with pytest.raises((RuntimeError, KeyboardInterrupt, FileNotFoundError)):
        half()
    assert names(tmp_path) == (["out.csv"] if before else [])
    assert not before or old.read_text() == before


def test_a_folder_takes_the_place_of_the_old_one_as_a_whole(tmp_path):
    target = tmp_path / "deep" / "out"
    for content in ("a", "b"):
        with atomic_folder(target) as temporary:
            (temporary / content).write_text(content)
            assert not (target / content).exists()
        assert names(target) == [content]
    assert names(target.parent) == ["out"]


def test_a_link_in_the_place_of_a_folder_goes_and_what_it_leads_to_stays(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file.txt").write_text("precious")
    for target in ("nowhere", "kept"):
        link = tmp_path / "link"
        link.symlink_to(tmp_path / target)
        with atomic_folder(link) as temporary:
            (temporary / "new.txt").touch()
        assert not link.is_symlink()
        assert names(link) == ["new.txt"]
        shutil.rmtree(link)
    assert names(tmp_path) == ["kept"]
    assert names(tmp_path / "kept") == ["file.txt"]


@pytest.mark.parametrize("name", ["file", ".", "..", "here/..", ""])
def test_a_folder_takes_no_files_place_nor_that_of_the_working_directory(tmp_path, monkeypatch, name):
    (tmp_path / "work" / "here").mkdir(parents=True)
    (tmp_path / "work" / "file").write_text("mine")
    monkeypatch.chdir(tmp_path / "work")
    with refuses("output.is_a_file" if name == "file" else "output.working_folder", name), atomic_folder(Path(name)):
        pytest.fail("the block was run")
    assert names(tmp_path / "work") == ["file", "here"]


@pytest.mark.parametrize("name", ["out", "model[1]"])
def test_what_a_killed_process_left_beside_a_folder_goes_with_the_next_attempt(tmp_path, name):
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / f".{name}.{ended.pid}.part").mkdir()  # as versions before named it
    (tmp_path / f".{name}.{here()}-{ended.pid}.part").mkdir()
    (tmp_path / f".{name}.{here()}-{os.getpid()}.part").mkdir()  # of another that had the number of this one
    (tmp_path / f".{name}.{here()}-{os.getpid()}.part" / "rubbish").touch()
    with atomic_folder(tmp_path / name) as temporary:
        assert names(temporary) == []
    assert names(tmp_path) == [name]


WRITE_ALSO = """
from pathlib import Path
from plumbline.core.files import atomic_folder
with atomic_folder(Path("out")) as part:
    (part / "other").touch()
"""


def test_what_a_process_of_another_container_is_at_work_on_stays(tmp_path):
    """Its number means another process here, or none."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace can be made here")
    with atomic_folder(tmp_path / "out") as mine:
        (mine / "mine").touch()
        subprocess.run([*alone, sys.executable, "-c", WRITE_ALSO], cwd=tmp_path, check=True)
        assert names(tmp_path / "out") == ["other"]
        assert names(mine) == ["mine"]
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["mine"]


PUT_OFTEN = """
import sys
from pathlib import Path
from plumbline.core.files import atomic_folder
for _ in range(100):
    with atomic_folder(Path("one")) as part:
        for name in "ab":
            (part / name).write_text(sys.argv[1])
"""


def test_several_that_write_one_folder_at_once_all_end_and_one_is_there(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", PUT_OFTEN, text], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        for text in ("first", "second", "third")
    ]
    assert [one.communicate()[1] for one in writers] == ["", "", ""]
    assert names(tmp_path) == ["one"]
    assert (tmp_path / "one" / "a").read_text() == (tmp_path / "one" / "b").read_text()


def test_json_without_nan(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"new": math.nan})
    assert read_json(path) == {"old": 1}
    assert names(tmp_path) == ["a.json"]


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', b"\xff\xfe", b"nothing"])
def test_what_is_not_json_is_an_input_error(tmp_path, content):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with refuses("file.missing" if content is None else "json.unreadable", path):
        read_json(path)


@pytest.fixture
def tree(tmp_path):
    root = tmp_path / "tree"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "sub" / "b.txt").write_text("b")
    return root


CHANGES = {
    "byte": lambda tree: (tree / "a.txt").write_text("A"),
    "name": lambda tree: (tree / "a.txt").rename(tree / "c.txt"),
    "moved": lambda tree: (tree / "a.txt").rename(tree / "sub" / "a.txt"),
    "added": lambda tree: (tree / "sub" / "c.txt").touch(),
    "removed": lambda tree: (tree / "a.txt").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_hash_of_a_folder_sees_every_change_of_its_content_alone(tree, tmp_path, change):
    before = sha256_folder(tree)
    tree = tree.rename(tmp_path / "elsewhere")
    assert sha256_folder(tree) == before
    CHANGES[change](tree)
    assert sha256_folder(tree) != before


def test_the_hash_of_a_folder_may_look_at_some_files_only(tree):
    before = sha256_folder(tree, "b*")
    (tree / "a.txt").write_text("changed")
    assert sha256_folder(tree, "b*") == before
    (tree / "sub" / "b.txt").write_text("changed")
    assert sha256_folder(tree, "b*") != before


NOWHERE = Path("/proc/plumbline")  # where even root can make nothing


@pytest.mark.parametrize("write", [atomic_file, atomic_folder])
@pytest.mark.parametrize("target", [NOWHERE / "x.csv", Path("/proc/x.csv")])
def test_where_nothing_can_be_written_the_given_path_is_named(write, target):
    with refuses("output.not_writable", target, "No such file", error=NotWritable) as refusal, write(target):
        pytest.fail("the block was run")
    assert ".part" not in str(refusal.value)


def test_a_file_can_be_tried_beforehand_and_leaves_nothing(tmp_path):
    check_writable(tmp_path / "out.csv")
    assert names(tmp_path) == []
    with refuses("output.not_writable", "/proc/out.csv", error=NotWritable):
        check_writable(Path("/proc/out.csv"))


def test_what_a_writer_says_is_told_by_the_name_that_was_given(tmp_path):
    target = tmp_path / "out.gpkg"
    with pytest.raises(RuntimeError) as raised, atomic_file(target) as temporary:
        raise RuntimeError(f"sqlite3_open({temporary}) failed")
    assert describe_write_error(raised.value, target) == f"sqlite3_open({target}) failed; is the disk full?"
    assert describe_write_error(PermissionError(errno.EACCES, "no", "x.part"), target) == "Permission denied"
    locked = RuntimeError("sqlite3_exec(CREATE TABLE ...) failed: database is locked")
    assert "its folder allows no locks, as some network drives" in describe_write_error(locked, target)


def fill_sqlite(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA max_page_count = 4")
        database.execute("CREATE TABLE t AS SELECT zeroblob(100000)")


def fill_elsewhere(path: Path) -> None:
    with Path("/dev/full").open("wb") as stream:
        stream.write(b"content")


FILLERS = {
    "text": (lambda path: path.write_text("x" * 100_000), "File too large"),
    "numpy": (lambda path: np.save(path, np.zeros(100_000)), "100000 requested and 4000 written"),
    "arrow": (
        lambda path: pq.write_table(pa.table({"a": np.random.default_rng(0).random(10_000)}), path),
        "File too large",
    ),
    "sqlite": (fill_sqlite, "database or disk is full"),
    "device": (fill_elsewhere, "No space left on device"),
    "copy": (lambda path: shutil.copyfile(subprocess.__file__, path), "File too large"),
}


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("kind", ["file", "folder", "file in folder"])
def test_a_full_disk_is_said_of_the_name_that_was_given_in_whatever_words_it_comes(tmp_path, filler, kind):
    fill, reason = FILLERS[filler]
    target = tmp_path / "out.npy"

    def write() -> None:
        if kind == "file":
            with atomic_file(target) as temporary:
                fill(temporary)
            return
        with atomic_folder(target) as folder:
            if kind == "folder":
                fill(folder / "a.npy")
            else:
                with atomic_file(folder / "a.npy") as temporary:
                    fill(temporary)

    header = 128  # of a file of NumPy's
    named = target / "a.npy" if kind == "file in folder" or (kind, filler) == ("folder", "copy") else target
    with refuses("disk.full", f"{named}: ", reason, error=NotWritable) as refusal, largest_file(32_000 + header):
        write()
    assert names(tmp_path) == []
    copy = pickle.loads(pickle.dumps(refusal.value))  # as worker processes send it
    assert (str(copy), copy.key) == (str(refusal.value), "disk.full")


@pytest.mark.parametrize("write", [atomic_file, atomic_folder])
@pytest.mark.parametrize(
    "error", [ValueError("wrong"), OSError(errno.EIO, "bad disk"), InputError("No space left on device is no column")]
)
def test_no_other_error_is_taken_for_a_full_disk(tmp_path, write, error):
    with pytest.raises(type(error)) as said, write(tmp_path / "out.csv"):
        raise error
    assert said.value is error
    assert make_full_disk_error(error) is None


def test_a_full_disk_is_found_behind_what_was_made_of_it():
    full = OSError(errno.ENOSPC, "No space left on device", "a.tmp", None, "runs/last.ckpt")
    made = RuntimeError("saving failed")
    made.__context__ = full  # raised while it was handled
    assert str(make_full_disk_error(made)).startswith(
        "runs/last.ckpt: could not be written (No space left on device). Make room"
    )
    assert str(make_full_disk_error(RuntimeError("(OperationalError) database or disk is full [SQL: …"))).startswith(
        "a disk cannot be written to (database or disk is full). Make room"
    )


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_bytes_are_written_with_the_rights_of_every_other_file(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_bytes(tmp_path / "a", b"abc")
        (tmp_path / "b").write_bytes(b"abc")
    finally:
        os.umask(before)
    assert (tmp_path / "a").read_bytes() == b"abc"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_full_disk_that_was_met_before_and_dealt_with_is_not_behind_an_error():
    """A cache that could not be written is no reason; `from None` says so."""
    found = []
    for cause in (True, False):
        try:
            try:
                raise OSError(errno.EROFS, "Read-only file system", "cache")
            except OSError as full:
                if cause:
                    raise ValueError("a bug") from full
                raise ValueError("a bug") from None
        except ValueError as error:
            found.append(make_full_disk_error(error) is not None)
    assert found == [True, False]
