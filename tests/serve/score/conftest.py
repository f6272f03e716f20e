"""A project with a model package and a place for deliveries."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from plumbline.params import Params, parse_params
from tests.tiny import PARAMS, City, Ended, Tiny, empty_registry, run_cli

PLACE = "showtown"


class Town:
    """A project's folder, and the deliveries of one place: the showcase, more or less of it."""

    def __init__(self, city: City, folder: Path, package: Path | None = None) -> None:
        self.folder, self.footprints, self.package = folder, city.footprints, package or city.data("package")
        self.products = {path.name: pd.read_csv(path, dtype=str) for path in city.products()}
        self.days = [name for name in next(iter(self.products.values())) if name.isdigit()]
        self.source, self.out = folder / "data" / "deliveries", folder / "data" / "score"
        (self.source / PLACE).mkdir(parents=True)
        self.settings()

    def settings(self, tile_m: float = 2500, **section: Any) -> Params:
        """Write `params.yaml`, with these keys in the section `score`."""
        content = PARAMS | {"ingest": {"tile_m": tile_m}, "score": {"settle_s": 0, **section}}
        (self.folder / "params.yaml").write_text(yaml.safe_dump(content))
        return parse_params(content)

    def deliver(
        self,
        name: str,
        last: str = "99999999",
        footprints: bool = True,
        every: int = 1,
        noise_mm: float = 0.0,
    ) -> Path:
        """Put the products into a new delivery: series up to a day (YYYYMMDD), one in so many points, more noise."""
        folder = self.source / PLACE / name
        folder.mkdir(parents=True)
        for product, table in self.products.items():
            kept = [column for column in table if not column.isdigit() or column <= last]
            chosen = table[kept][::every].copy()
            series = [column for column in kept if column.isdigit()]
            if noise_mm:
                noise = np.random.default_rng(0).normal(0, noise_mm, (len(chosen), len(series)))
                chosen[series] = (chosen[series].astype(float) + noise).round(2).astype(str)
            chosen.to_csv(folder / product, index=False)
        if footprints:
            shutil.copy(self.footprints, folder)
        return folder

    def score(self, *more: object, workers: int = 1) -> Ended:
        """The command; with one worker it starts no process, and without a registry it looks for no challenger.

        Both would load for seconds.
        """
        with pytest.MonkeyPatch.context() as patch:
            if not (self.folder / "mlflow.db").exists():
                patch.setattr("plumbline.cli.serve._find_challenger", lambda *_: None)
            return run_cli("score", "--model", self.package, "--workers", workers, *more, cwd=self.folder)

    def results(self) -> dict[str, Path]:
        """Name of the delivery -> folder of its result."""
        found = sorted(path.parent for path in self.out.glob(f"{PLACE}/*/manifest.json"))
        return {path.name.rsplit("-", 1)[0]: path for path in found}


@pytest.fixture
def town(city: City, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Town:
    """In a project whose maps are empty: to draw one takes a third of the time of a delivery."""
    monkeypatch.setattr("plumbline.serve.score.publish.write_map", lambda judged, tracks, path, *_, **__: path.touch())
    return Town(city, tmp_path, package)


@pytest.fixture
def trained_town(tiny: Tiny, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Town:
    """The same with an empty registry, and a package that judges nearly all: the shipped one finds the data noisy."""
    shutil.copy(empty_registry(tmp_path_factory), tmp_path)
    return Town(tiny, tmp_path)
