"""Define section `prepare`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from plumbline.params.section import Checks, Fraction, Positive, Section

SEQUENCES = ("buffer_m", "min_points", "max_points", "min_side_m", "max_side_m")
"""Parameters of `prepare` that decide which buildings and scatterers a model sees: in use
as in training."""
JUDGED = ("max_strain_error_permille", "min_quadrant_confidence")
"""Parameters of `prepare` that decide which of these buildings `predict` judges."""


class Audit(Section):
    """Bounds of the audit beyond which a figure stops the pipeline; from where one warns:
    `prepare.audit.rules`."""

    refuse_speed_mm_yr: Positive = 1000.0
    """Twice the fastest sinking known of a city, 500 mm/yr (Chaussard et al. 2021, JGR
    Solid Earth 126)."""
    refuse_noise_below_mm: float = Field(default=0.03, ge=0)
    """Median noise below which the audit refuses: at C band 0.4 degrees of phase. Metres
    read as mm have some 0.002 mm; 0: never."""
    refuse_noise_above_mm: Positive = 100.0
    """Three times that of random phase at L band. Millimetres read as metres have some 2000 mm."""
    refuse_severity_permille: Positive = 100.0
    """A tenth of length: no standing structure, but a wrong unit."""


class Prepare(Section):
    """Settings that turn points and footprints into sequences."""

    buffer_m: float = Field(default=2.0, ge=0, le=20)
    """A point this far outside of a footprint still belongs to it (position error), m."""
    min_points: int = Field(default=5, ge=3, le=1000)
    """A building with fewer usable points is not prepared. It is judged where as many are
    left when each track has taken one (`prepare.abstention`)."""
    max_strain_error_permille: Positive = 0.6
    """Largest standard error of the strain from the noise of the points alone
    (`prepare.abstention.strain_error`) with which `predict` judges a building. Others are
    prepared, trained on and measured: the bound of category 1 (0.5) is then less than one
    standard error, and errors of position and of the shape come on top."""
    min_quadrant_confidence: Fraction = 0.65
    """`predict` does not judge a building where the chance that it is damaged and its
    quadrant wrong is above one less this; 0 judges all
    (`prepare.abstention.has_no_probable_quadrant`)."""
    neighbours_m: float = Field(default=100.0, gt=0, le=10_000)
    """`predict` compares the settlement of a building with that of the others whose middles
    lie within this, m."""
    max_points: int = Field(default=128, ge=8, le=4096)
    """Longest sequence; a building with more points keeps a sample spread evenly along its
    long axis."""
    min_side_m: float = Field(default=2.0, ge=0, le=20)
    """A building whose shorter side is below is not judged: positions are less certain than
    its quadrants are wide."""
    max_side_m: float = Field(default=300.0, ge=20, le=10_000)
    """A building whose longer side is above is not judged: it is several, or joints let its
    parts move on their own."""
    block_m: Positive = 200.0
    """Side of the square blocks that are kept together when splitting, m."""
    split: dict[Literal["train", "tune", "calibrate", "test"], Positive] = {
        "train": 0.7,
        "tune": 0.1,
        "calibrate": 0.1,
        "test": 0.1,
    }
    """Shares of the buildings, which stay in whole blocks; normalised. `tune` chooses the
    checkpoint, `calibrate` sets temperature and interval."""
    folds: int = Field(default=0, ge=0, le=100)
    """Number of folds of whole blocks for cross-validation, of which `fold` is the test
    split; 0: none."""
    fold: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    audit: Audit = Audit()

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        missing = sorted({"train", "tune", "calibrate", "test"} - self.split.keys())
        return [
            (
                self.max_points < self.min_points,
                f"max_points: {self.max_points} found, which must not be below min_points: "
                f"{self.min_points}",
                "max_points.below_min_points",
            ),
            (
                self.folds == 1 or self.fold >= max(self.folds, 1),
                f"folds: {self.folds} with fold: {self.fold} found; 0 with fold 0, or 2 and more "
                "with a fold below it",
                "folds.bad_fold",
            ),
            (missing, f"split: no share found for {' and '.join(missing)}", "split.share_missing"),
        ]


def without_audit(content: Any) -> Any:
    """Return a recorded section `prepare` without the bounds of that run's audit, which
    decide nothing later."""
    return (
        {key: value for key, value in content.items() if key != "audit"}
        if isinstance(content, Mapping)
        else content
    )


def _dump(section: Prepare) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude={"audit"})


RecordedPrepare = Annotated[Prepare, BeforeValidator(without_audit), PlainSerializer(_dump)]
"""Section `prepare` as a package, a training or an adapter has recorded it."""
