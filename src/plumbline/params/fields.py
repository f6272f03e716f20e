"""Define the parameters of restoration: the sections of `restoration/params.yaml`, named as
the stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from plumbline.params.ingest import Ingest
from plumbline.params.section import Checks, Fraction, Positive, Section
from plumbline.params.train import FitOptions

DOMAINS = ("plain", "noise", "atmosphere", "unwrapping", "sparse")
"""Kinds of degradation of a product; `plain` has a little of each, the others much of one."""
Domain = Literal["plain", "noise", "atmosphere", "unwrapping", "sparse"]
AdapterDomain = Literal["noise", "atmosphere", "unwrapping", "sparse"]


class BorrowedScenes(Section):
    """Scenes over a user's own points: their places, lines of sight and residuals, with a
    known movement put in."""

    points: list[Path] = Field(min_length=1)
    scenes: int = Field(ge=1, le=10_000)


class SimulateFields(Section):
    """Scenes of ground movement, seen by one to three tracks."""

    seed: int = Field(default=0, ge=0)
    cells: int = Field(default=96, ge=32, le=1024)
    """Number of cells along each side of a scene."""
    cell_m: Positive = 10.0
    scenes: dict[Domain, int]
    """Number of scenes of each domain; their difficulty is easy, medium and hard in turn."""
    borrowed: dict[str, BorrowedScenes] = {}


class Shares(Section):
    """Shares of the scenes by use; the remaining scenes are for training."""

    tune: Fraction = 0.08
    calibrate: Fraction = 0.08
    test: Fraction = 0.1

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        words = "tune, calibrate and test leave less than a tenth of the scenes to train on"
        return [(self.tune + self.calibrate + self.test >= 0.9, words, "shares.too_few_to_train")]


class PrepareFields(Section):
    """Settings that turn scenes into the network's inputs."""

    halo_m: float = Field(default=160.0, ge=0, le=2000)
    """Distance beyond a window up to which points are used, m."""
    shares: Shares = Shares()


class Denoiser(Section):
    """The network that takes noise off a field (`diffusers.UNet2DModel`), and the diffusion
    that it is trained for."""

    channels: list[Annotated[int, Field(ge=8, multiple_of=8)]] = Field(min_length=2, max_length=6)
    """Channels of each level; each level is half as fine as the one before."""
    layers: int = Field(default=1, ge=1, le=4)
    """Residual blocks of a level."""
    train_steps: int = Field(default=1000, ge=10, le=10_000)
    """Steps of the diffusion."""
    schedule: Literal["linear", "squaredcos_cap_v2"] = "squaredcos_cap_v2"


class TrainFields(FitOptions):
    """Training of the denoiser."""

    crop: int = Field(default=64, ge=16, le=512)
    """Cells of a side of a training example, cut from a scene at random."""
    crops_a_scene: int = Field(default=4, ge=1, le=1000)
    """Examples that each scene gives in an epoch."""
    loss: Literal["mse", "l1", "charbonnier"] = "mse"
    """Loss of the restored field. Only with `mse` is the samples' mean the expected field."""
    regression_share: Fraction = 0.1
    """Share of the examples that begin with noise alone, as the first step of restoring does."""
    tune_steps: int = Field(default=8, ge=1, le=1000)
    """Steps of restoring by which an epoch is judged."""


class AdapterFields(TrainFields):
    """Training of one low-rank adapter for each domain."""

    domains: list[AdapterDomain] = ["noise", "atmosphere", "unwrapping", "sparse"]
    rank: int = Field(default=8, ge=1, le=64)
    alpha: Positive = 8.0
    """The low-rank change counts `alpha / rank` times."""
    unfreeze_from: Fraction = 0.5
    """Share of the epochs after which `unfreeze` is trained as well."""
    unfreeze: list[str] = ["conv_in", "conv_out"]
    """Modules of the base that are trained late, by name."""
    crops_a_scene: int = Field(default=8, ge=1, le=1000)

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        return [
            *super().checks(),
            (
                self.devices * self.nodes > 1 or self.strategy != "auto",
                f"devices, nodes, strategy: {self.devices}, {self.nodes} and {self.strategy} "
                "found; adapters train "
                "in one process. Use 1, 1 and auto; train.devices may still be more",
                "adapter.several_processes",
            ),
        ]


class Restoring(Section):
    """How fields are sampled, in calibration and test as for users."""

    steps: int = Field(default=5, ge=1, le=1000)
    samples: int = Field(default=8, ge=2, le=256)
    """Multiples of 8 give each of four mirror images its pairs of opposite noise."""
    eta: float = Field(default=1.0, ge=0, le=1)
    """Share of fresh noise at each step: 0 none (DDIM), 1 as much as in training (DDPM)."""


class CompressFields(Section):
    """Fewer steps, where that costs nothing."""

    tried_steps: list[Annotated[int, Field(ge=1, le=1000)]] = [2, 5, 10, 25, 50]
    max_loss: Fraction = 0.02
    """Relative rise of the root mean square error, at most, over that of the most steps."""


class ExportFields(Section):
    """One denoising step as ONNX."""

    opset: int = Field(default=18, ge=18, le=20)
    """Operator set of the ONNX files, as in section `export` of the other family."""
    calibration_batches: int = Field(default=4, ge=1)
    """Number of training batches from which the ranges of int8 are calibrated."""


class FieldGate(Section):
    """One rule: a metric of an artifact on a slice, and one bound."""

    metric: Literal[
        "rmse_mm",
        "psnr_db",
        "ssim",
        "gradient_error_mm_m",
        "crps_mm",
        "coverage",
        "parity_mm",
        "size_bytes",
    ]
    artifact: Literal["float32", "fp16", "int8"]
    slice: str = "all"
    """`all`; `domain:NAME`, `density:low`, `density:high`; with an adapter, `adapter:NAME`."""
    min: float | None = None
    max: float | None = None
    max_ratio_to: Literal["gaussian_process", "champion", "float32", "base"] | None = None
    """Denominator of the ratio of means; its one-sided confidence bound may not exceed
    `bound`. `base`: the model without the adapter, on a slice of that adapter."""
    bound: Positive | None = None

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        bounds = [
            name for name in ("min", "max", "max_ratio_to") if getattr(self, name) is not None
        ]
        return [
            (
                len(bounds) != 1,
                f"one of min, max, max_ratio_to is needed, {' and '.join(bounds) or 'none'} found",
                "gate.not_one_bound",
            ),
            (
                (self.bound is None) != (self.max_ratio_to is None),
                "bound goes with max_ratio_to, and max_ratio_to with bound",
                "gate.no_comparison",
            ),
            (
                self.max_ratio_to is not None
                and self.metric not in ("rmse_mm", "gradient_error_mm_m", "crps_mm"),
                f"max_ratio_to bounds what is better if it is smaller; {self.metric} needs min "
                "or max",
                "gate.ratio_of_larger_is_better",
            ),
        ]


class ValidateFields(Section):
    """Settings of measuring the evidence."""

    steps: int = Field(default=0, ge=0, le=1000)
    """Number of steps with which test scenes are restored; 0: the default of `restore`."""
    samples: int = Field(default=0, ge=0, le=256)
    max_scenes: int = Field(default=40, ge=2)
    """Largest number of scenes of each domain that are restored."""


class FieldGates(Section):
    """The rules, and what all of them go by."""

    rules: list[FieldGate] = Field(min_length=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of the one-sided bound of a ratio."""
    min_scenes: int = Field(default=8, ge=2)
    """Smallest number of test scenes of a slice that has a figure for a rule."""


class PackageFields(Section):
    """The released package."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = "plumbline-restoration"


class RestorationParams(Section):
    """The whole file."""

    family: Literal["restoration"]
    simulate: SimulateFields
    ingest: Ingest = Ingest()
    prepare: PrepareFields = PrepareFields()
    model: Denoiser
    train: TrainFields
    adapt: AdapterFields
    restore: Restoring = Restoring()
    compress: CompressFields = CompressFields()
    export: ExportFields = ExportFields()
    validate_: ValidateFields = Field(default=ValidateFields(), alias="validate")
    gate: FieldGates
    package: PackageFields = PackageFields()

    def checks(self) -> Checks:
        """Return the rules between its sections."""
        levels, most = len(self.model.channels), self.simulate.cells
        for name, cells in {
            "simulate.cells": most,
            "train.crop": self.train.crop,
            "adapt.crop": self.adapt.crop,
        }.items():
            multiple = 2 ** (levels - 1)
            yield (
                cells % multiple,
                f"{name}: {cells} found; {levels} levels need a multiple of {multiple}",
                "cells.no_multiple",
            )
            yield (
                cells > most,
                f"{name}: {cells} found, and scenes have {most} (simulate.cells)",
                "cells.beyond_scene",
            )
