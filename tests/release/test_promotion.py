"""The champion changes only for an unharmed package that nothing speaks against."""

from __future__ import annotations

import fcntl
import shutil
import threading
from pathlib import Path

import pytest
import yaml

from plumbline.core.errors import GateRefused, InputError
from plumbline.export.package import verify_package
from plumbline.release.promotion import is_champion, promote, rollback
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_model
from plumbline.release.versions import figures
from tests.refusals import refuses
from tests.release.conftest import MakePackage, after
from tests.tiny import PARAMS, run_cli
from tests.words import METRICS, read_words


def agree(candidate: Path, champion: Path) -> None:
    """Nothing against the candidate."""


def never(candidate: Path, champion: Path) -> None:
    raise AssertionError("there is nothing to compare with")


def refuse(candidate: Path, champion: Path) -> None:
    raise GateRefused("severity_mae of int8 on all: 0.4, at most 0.3", key="champion.rule_failed")


def test_a_package_is_the_champion_while_it_and_the_copy_of_it_are_unharmed(
    registry: Registry, make_package: MakePackage
) -> None:
    one, two = make_package("one"), make_package("two")
    assert not is_champion(one)
    assert not promote(one, never).former
    assert is_champion(one)
    assert not is_champion(two)
    assert not promote(one, never).changed
    assert len(registry.versions()) == 1
    (resolve_model("champion") / "model.onnx").write_text("changed")
    assert not is_champion(one)
    assert promote(one, never).changed
    assert is_champion(one)
    (one / "model.onnx").write_text("changed")
    with refuses("package.changed_file", one / "model.onnx"):
        is_champion(one)


def test_figures_hashes_and_origin_go_on_record(registry: Registry, make_package: MakePackage) -> None:
    promote(make_package("one"), never)
    client = registry.server.client
    (item,) = client.search_model_versions("name='plumbline'")
    assert item.tags["data_hash"] == "d" * 64
    assert (item.tags["run_key"], item.tags["lock_md5"]) == ("c" * 64, "e" * 32)
    assert client.get_run(item.run_id).data.metrics == dict(figures(METRICS))


@pytest.mark.parametrize("name", ["champion", "package"])  # an option here, an argument there
def test_a_name_of_nothing_is_refused(registry: Registry, name: str) -> None:
    with refuses(f"{name}.missing", f"{name}: "):
        resolve_model(name)


@after(1)
def test_candidate_and_champion_are_compared_in_that_order(registry: Registry, make_package: MakePackage) -> None:
    seen = []
    promote(make_package("two"), lambda *folders: seen.append([read_words(f) for f in folders]))
    assert seen == [["two", "one"]]


REFUSED = {
    "worse": (lambda make: make("two"), GateRefused, "champion.rule_failed"),
    "damaged": (lambda make: damaged(make("two")), InputError, "package.changed_file"),
    "failed": (lambda make: make("two", verdict="fail"), GateRefused, "gate.not_passed"),
}


def damaged(package: Path) -> Path:
    (package / "model.onnx").write_text("onE")
    return package


@after(1)
@pytest.mark.parametrize("reason", REFUSED)
def test_a_refused_candidate_leaves_the_registry_as_it_was(
    registry: Registry, make_package: MakePackage, reason: str
) -> None:
    before = Registry().versions()
    make, error, key = REFUSED[reason]
    with refuses(key, error=error):
        promote(make(make_package), refuse)
    assert Registry().versions() == before


@after(1)
def test_a_promotion_that_another_machine_overtook_says_so(registry: Registry, make_package: MakePackage) -> None:
    """On another machine no lock of this one is seen, only the registry."""
    two, three = make_package("two"), make_package("three")

    def compare(candidate: Path, champion: Path) -> None:
        quicker = Registry(uri=registry.server.uri)
        quicker.set_champion(quicker.register(three, verify_package(three)).number)

    won = verify_package(three).version
    with refuses("champion.changed_meanwhile", two, won):
        promote(two, compare)
    present = registry.champion()
    assert present is not None
    assert present.version == won
    assert promote(two, agree).former == present  # compared with the right one, it may be


@after(1)
def test_the_second_of_two_promotions_is_compared_with_the_first_champion(
    registry: Registry, make_package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, three = make_package("two"), make_package("three")
    seen: list[str] = []
    is_comparing, is_other_at_lock = threading.Event(), threading.Event()
    lock = fcntl.flock

    def lock_and_show(place: int, operation: int) -> None:
        if is_comparing.is_set():  # the first holds the lock: this is the other, which now waits for it
            is_other_at_lock.set()
        lock(place, operation)

    def compare(candidate: Path, champion: Path) -> None:
        is_comparing.set()
        is_other_at_lock.wait()

    monkeypatch.setattr(fcntl, "flock", lock_and_show)
    first = threading.Thread(target=promote, args=(two, compare))
    first.start()
    is_comparing.wait()
    promote(three, lambda _, champion: seen.append(read_words(champion)))
    first.join()
    assert seen == ["two"]


@after(3)
def test_rollback_walks_back_through_the_champions(registry: Registry) -> None:
    three, two, one = registry.versions()
    assert [rollback().champion.version for _ in range(2)] == [two.version, one.version]
    with refuses("champion.none_before"):
        rollback()
    again = promote(Path("package_three"), agree, allow_former=True)
    assert again.champion.number == three.number
    assert rollback().champion.version == one.version


@after(2)
def test_a_rollback_that_was_cut_spoils_no_later_one(
    registry: Registry, make_package: MakePackage, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, _ = registry.versions()
    with monkeypatch.context() as patch:
        patch.setattr(type(registry.server.client), "set_registered_model_alias", _interrupt)
        with pytest.raises(KeyboardInterrupt):  # after its tags
            rollback()
    promote(make_package("three"), agree)
    assert rollback().champion.version == two.version


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


@after(4)
def test_rollback_goes_back_to_a_version_that_is_named(registry: Registry) -> None:
    four, three, two, one = registry.versions()
    done = rollback(to=two.version)
    assert (done.champion.number, done.former) == (two.number, four)
    assert not rollback(to=two.version).changed
    # What stood between is no longer gone back to, and comes back only on purpose.
    with refuses("champion.not_former", three.version, one.version):
        rollback(to=three.version)
    for words in ("three", "four"):
        with refuses("package.former_champion", "--again", error=GateRefused):
            promote(Path(f"package_{words}"), agree)
    assert rollback().champion.number == one.number
    with refuses("champion.none_before"):
        rollback(to=two.version)


@after(2)
def test_rollback_refuses_damaged_files(registry: Registry) -> None:
    two, one = registry.versions()
    (registry.folder(one) / "model.onnx").write_text("onE")
    with refuses("package.changed_file", "model.onnx"):
        rollback()
    assert registry.champion() == two


@after(1)
def test_lost_files_of_the_champion_are_told_and_mended_by_promoting_again(
    registry: Registry, make_package: MakePackage
) -> None:
    (lost,) = registry.versions()
    shutil.rmtree(registry.folder(lost))
    with refuses("registry.files_missing"):
        resolve_model("champion")
    with refuses("registry.files_missing"):
        promote(make_package("two"), agree)
    promote(Path("package_one"), never)
    assert read_words(resolve_model("champion")) == "one"


def test_the_champion_is_that_of_the_project_here(registry: Registry, make_package: MakePackage) -> None:
    """By `package.name` of its parameters; a package of another name is registered, and said to be of no use here."""
    package = make_package("one")
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
    assert "this project's" not in run_cli("release", "promote", package, cwd=Path.cwd()).err
    assert resolve_model("champion").is_dir()
    Path("params.yaml").write_text(yaml.safe_dump({**PARAMS, "package": {"name": "rome"}}))
    with refuses("champion.missing"):
        resolve_model("champion")
    ended = run_cli("release", "promote", package, cwd=Path.cwd())
    assert "its name is plumbline, under which it is registered; this project's is rome" in ended.err


@after(2)
def test_a_machine_on_an_old_commit_does_not_bring_an_old_champion_back(registry: Registry) -> None:
    old = Path("package_one")
    with refuses("package.former_champion", old, error=GateRefused):
        promote(old, agree)
    assert read_words(resolve_model("champion")) == "two"
    assert promote(old, agree, allow_former=True).changed
    assert not promote(old, agree).changed
