"""A project with a model package and a place for deliveries."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from plumbline.params import Params, parse_params
from tests.tiny import PARAMS, Tiny, run_cli

PLACE = "showtown"


class Town:
    """A project's folder, and the deliveries of one place."""

    def __init__(self, tiny: Tiny, folder: Path) -> None:
        self.tiny, self.folder = tiny, folder
        self.package = tiny.data("package")
        self.source, self.out = folder / "data" / "deliveries", folder / "data" / "score"
        (self.source / PLACE).mkdir(parents=True)
        self.settings()

    def settings(self, **section: object) -> None:
        """Write `params.yaml`, with these keys in the section `score`; its tiles are small."""
        content = PARAMS | {"ingest": {"tile_m": 100}, "score": {"settle_s": 0, **section}}
        (self.folder / "params.yaml").write_text(yaml.safe_dump(content))
        self.params: Params = parse_params(content)

    def deliver(self, name: str, last: str = "99999999", footprints: bool = True) -> Path:
        """Put the showcase's files into a new delivery, its series up to a day (YYYYMMDD)."""
        folder = self.source / PLACE / name
        folder.mkdir()
        for path in self.tiny.products():
            table = pd.read_csv(path, dtype=str)
            kept = [column for column in table if not column.isdigit() or column <= last]
            table[kept].to_csv(folder / path.name, index=False)
        if footprints:
            shutil.copy(self.tiny.footprints, folder)
        return folder

    def score(self, *more: object):
        return run_cli("score", "--model", self.package, *more, cwd=self.folder)

    def results(self) -> list[Path]:
        return sorted(path.parent for path in self.out.glob(f"{PLACE}/*/manifest.json"))

    @property
    def footprints(self) -> Path:
        return self.tiny.footprints


def days(tiny: Tiny) -> list[str]:
    """Epochs of the showcase's first product."""
    return [name for name in pd.read_csv(tiny.products()[0], nrows=0) if name.isdigit()]


def age(folder: Path, seconds: float) -> None:
    """Set the times of writing back; that of change stays, as the file system keeps it."""
    for path in folder.rglob("*"):
        then = path.stat().st_mtime - seconds
        os.utime(path, (then, then))


@pytest.fixture
def town(tiny: Tiny, tmp_path: Path) -> Iterator[Town]:
    np.random.default_rng(0)
    yield Town(tiny, tmp_path)
