"""Packages of two families in one registry: each with a name and a champion of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

from plumbline.release.names import DEFAULT_NAME, RESTORATION_NAME, verify_package
from plumbline.release.promotion import is_champion, promote
from plumbline.release.registry import Registry
from plumbline.release.resolve import resolve_fields, resolve_model
from plumbline.release.versions import is_whole
from tests.refusals import refuses
from tests.release.conftest import MakePackage
from tests.tiny_fields import TinyFields


def test_each_family_has_its_champion(registry: Registry, make_package: MakePackage, tiny_fields: TinyFields) -> None:
    buildings = make_package("one")
    promote(buildings, lambda *_: None)
    promote(tiny_fields.package, lambda *_: None)
    assert is_champion(buildings)
    assert is_champion(tiny_fields.package)
    champions = {name: Registry(name).champion() for name in (DEFAULT_NAME, RESTORATION_NAME)}
    assert [champion and champion.version for champion in champions.values()] == [
        verify_package(package).version for package in (buildings, tiny_fields.package)
    ]
    assert verify_package(resolve_fields("champion")) == verify_package(tiny_fields.package)
    assert verify_package(resolve_model("champion", DEFAULT_NAME)) == verify_package(buildings)


def test_a_package_of_fields_is_whole_until_it_is_harmed(tmp_path: Path, tiny_fields: TinyFields) -> None:
    copy = shutil.copytree(tiny_fields.package, tmp_path / "package")
    assert is_whole(copy)
    adapter = next(copy.glob("adapters/*/*.safetensors"))
    adapter.write_bytes(adapter.read_bytes()[:-1])
    assert not is_whole(copy)
    with refuses("package.changed_file", adapter.name):
        verify_package(copy)


def test_a_package_of_an_unknown_family_is_refused(tmp_path: Path, tiny_fields: TinyFields) -> None:
    copy = shutil.copytree(tiny_fields.package, tmp_path / "package")
    manifest = copy / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"family": "restoration"', '"family": "weather"'))
    with refuses("package.unknown_family", copy, "weather"):
        verify_package(copy)
