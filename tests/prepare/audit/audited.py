"""Splits and a report that pass the audit, for tests to spoil."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from plumbline.core.strain import category
from plumbline.params import Audit
from plumbline.prepare.audit import AuditResult, audit
from plumbline.prepare.features.sequences import UNDEFINED, Sequences, only
from tests.prepare.features.test_sequences import make

SIZES = {"train": 400, "test": 120}


def make_split(name: str, count: int, seed: int, city: str = "a") -> Sequences:
    """Buildings of one distribution with consistent labels."""
    rng = np.random.default_rng(seed)
    made = make(rng.integers(5, 16, count).tolist(), seed)
    severity = np.exp(rng.uniform(np.log(0.1), np.log(6), count)).astype(np.float32)
    quadrant = np.where(category(severity) > 0, np.arange(count) % 4, UNDEFINED)
    arrays = {**made.__dict__, "city": np.full(count, city), "severity": severity, "quadrant": quadrant}
    arrays["accepted"] = only(quadrant)
    arrays["building_id"] = np.array([f"{name}{i}" for i in range(count)])
    return Sequences(**arrays)


def make_splits() -> dict[str, Sequences]:
    """What is learnt from, and what is tested on."""
    return {name: make_split(name, count, seed) for seed, (name, count) in enumerate(SIZES.items())}


def make_track(name: str = "up", **changed: Any) -> dict[str, Any]:
    """The report of a good track."""
    record = {"points": 850, "epochs": 100, "first_epoch": "2020-01-01", "last_epoch": "2022-12-31"}
    return {"name": name, **record, "noise_mm": 2.5, "speed_p99_mm_yr": 6.0, **changed}


def make_report(track: dict[str, Any] | None = None, **changed: Any) -> dict[str, Any]:
    """A report of one good city with two tracks; `track` and `changed` change the first track and the city."""
    city = {
        "buildings": 1000,
        "labelled": 900,
        "left_out": {"insufficient_points": 140, "without_label": 100},
        "area_km2": 2.0,
        "tracks": [make_track(**(track or {})), make_track("down")],
        **changed,
    }
    return {"cities": {"a": city}, "blocks": {name: [f"a/{name}/{i}" for i in range(3)] for name in SIZES}}


@dataclass(frozen=True)
class Shards:
    """What the audit needs of a sharded split."""

    parts: list[Sequences]


def run(splits: Any = None, report: Any = None) -> AuditResult:
    """The audit of good splits and a good report, but for what is given."""
    splits = make_splits() if splits is None else splits
    return audit(splits, make_report() if report is None else report, Audit())


def rule(result: AuditResult, name: str):
    """The finding of one rule."""
    (found,) = [finding for finding in result.rules if finding.name == name]
    return found
