"""One whole run of the restoration pipeline, tiny but real, shared by every test that needs a model or a package."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from plumbline.params.fields import RestorationParams
from plumbline.params.load import load_restoration
from tests.tiny import STAGES, copy_registry, kept, run_cli

OPTIMISE = {
    **{"patience": 3, "learning_rate": 0.003, "batch_size": 4, "threads": 1, "accelerator": "cpu"},
    **{"crop": 32, "tune_steps": 2},
}
PARAMS: dict[str, Any] = {
    "family": "restoration",
    "simulate": {"seed": 1, "cells": 32, "scenes": {"plain": 12, "noise": 8, "unwrapping": 3}},
    "prepare": {"halo_m": 60.0, "shares": {"tune": 0.15, "calibrate": 0.25, "test": 0.34}},
    "model": {"channels": [8, 16], "train_steps": 40},
    "train": {"epochs": 1, "crops_a_scene": 2, **OPTIMISE},
    "adapt": {"epochs": 1, "crops_a_scene": 4, "domains": ["noise"], **OPTIMISE, "learning_rate": 0.02},
    "restore": {"steps": 3, "samples": 4},
    "compress": {"tried_steps": [1, 3]},
    "export": {"calibration_batches": 2},
    "validate": {
        "max_scenes": 8,
    },
    "gate": {
        "min_scenes": 2,
        "rules": [
            {"metric": "coverage", "artifact": "float32", "min": 0.2},
            {"metric": "crps_mm", "artifact": "fp16", "max_ratio_to": "float32", "bound": 1.1},
            {"metric": "crps_mm", "artifact": "float32", "max_ratio_to": "gaussian_process", "bound": 5.0},
            {
                "metric": "crps_mm",
                "artifact": "float32",
                "slice": "adapter:noise",
                "max_ratio_to": "base",
                "bound": 20.0,
            },
            {"metric": "parity_mm", "artifact": "fp16", "max": 2.0},
            {"metric": "crps_mm", "artifact": "fp16", "max_ratio_to": "champion", "bound": 1.05},
        ],
    },
}


@dataclass(frozen=True)
class TinyFields:
    """A project folder after the stage `package`. Tests read it; what they change, they copy first."""

    root: Path

    @property
    def params(self) -> RestorationParams:
        """Parameters of the run."""
        return load_restoration(self.root / "params.yaml")

    def data(self, stage: str) -> Path:
        """Output folder of a stage."""
        return self.root / "data" / stage

    @property
    def package(self) -> Path:
        """The model package."""
        return self.data("package")

    def copy(self, target: Path, *stages: str) -> Path:
        """A project folder of the test's own, with the outputs of these stages."""
        target.mkdir(exist_ok=True)
        shutil.copy(self.root / "params.yaml", target)
        for stage in stages:
            shutil.copytree(self.data(stage), target / "data" / stage)
        return target


def shared_fields() -> TinyFields:
    """The run, made by the commands a user would type, and kept for the next session."""
    return TinyFields(kept("tiny_fields", _make, Path(__file__)))


def _make(root: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.setattr("plumbline.fields.simulate.stage.SHOWCASE_CELLS", 64)
        (root / "params.yaml").write_text(yaml.safe_dump(PARAMS))
        copy_registry(root)
        patch.setattr("plumbline.core.jobs.cores", lambda: 1)  # starting processes takes longer than the work
        for stage in STAGES:
            ended = run_cli(stage, cwd=root)
            assert ended.code == 0, f"{stage}: {ended.err}"
