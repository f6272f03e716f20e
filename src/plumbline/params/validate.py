"""Hold the parameters of evidence, gates and package."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Annotated, Literal

from pydantic import Field, field_validator

from plumbline.core.errors import ParameterError
from plumbline.core.strain import MECHANISMS
from plumbline.params.section import Checks, Section

HIGHER_IS_BETTER = {
    "quadrant_accuracy": True,
    "quadrant_macro_f1": True,
    "quadrant_accuracy_at_70": True,
    "expected_calibration_error": False,
    "severity_mae": False,
    "severity_r2": True,
    "category_accuracy": True,
    "interval_coverage": True,
    "interval_coverage_gap": False,
    "interval_width": False,
    "missed_share": False,
    "damage_calibration_2": False,
    "damage_calibration_10": False,
    "damage_calibration_50": False,
    "judged_share": True,
    "judged_quadrant_accuracy": True,
    "judged_severity_mae": False,
    "parity_probability": False,
    "parity_severity_permille": False,
    "novelty_change": False,
    "size_bytes": False,
    "weight_bytes": False,
    "size_ratio": False,
}
"""Metrics that a rule may name, as `validate.metrics` measures them, and which way is
better. A ratio is to `float32`. Latency is absent: it differs from run to run."""
SLICES = (
    "all",
    "worst",
    *(
        f"{kind}:*"
        for kind in (
            "city",
            "points",
            "area",
            "category",
            "resolved",
            "difficulty",
            "mechanism",
            "accepted",
        )
    ),
    "points:0-9",
    "points:10-19",
    "points:20-49",
    "points:50+",
    "area:0-100",
    "area:100-250",
    "area:250-600",
    "area:600+",
    *(f"category:{number}" for number in range(5)),
    "resolved:yes",
    "resolved:no",
    "difficulty:easy",
    "difficulty:medium",
    "difficulty:hard",
    *(f"mechanism:{name}" for name in MECHANISMS),
    "accepted:1",
    "accepted:2+",
)
"""Those that every run has, as `validate.slices` makes them, and words for several: `worst`
for all, `KIND:*` for all of a kind. `city:NAME` is known when the cities are."""
CITY = "city:"
OF_QUADRANTS = (
    "quadrant_accuracy",
    "quadrant_macro_f1",
    "expected_calibration_error",
    "quadrant_accuracy_at_70",
)
"""Metrics over the buildings that have a quadrant."""
OF_BUILDINGS = (
    *OF_QUADRANTS,
    "severity_mae",
    "severity_r2",
    "category_accuracy",
    "interval_coverage",
    "interval_width",
    "missed_share",
)
"""Metrics over buildings, which slices have too: two artifacts' are compared on resamples of
them."""
OF_BASELINE = tuple(name for name in OF_BUILDINGS if not name.startswith("interval_"))
"""An engineer's least squares give no interval."""


def _known(name: str, names: Collection[str]) -> str:
    """Return `found` if it is known.

    Raises:
        ValueError: it is not; the message names those that are spelt most like it, or all
            where none is near.
    """
    if name in names:
        return name
    near = get_close_matches(name, names, n=3, cutoff=0.5)
    raise ValueError(
        f"no such name; nearest: {', '.join(near)}" if near else f"one of {', '.join(names)} needed"
    )


class Gate(Section):
    """One rule: a metric of an artifact on a slice, and one bound."""

    metric: str
    artifact: Literal["float32", "pruned", "fp16", "int8"]
    slice: str = "all"
    """A slice of `validate.slices`; or `worst`: all with at least `Gates.min_worst_slice`
    buildings, and `city:*`: all such cities."""
    min: float | None = None
    max: float | None = None
    max_drop_vs: Literal["float32", "champion", "baseline"] | None = None
    margin: float = 0.0
    """Margin of `max_drop_vs`, in the metric's unit: how much worse it may be; negative:
    how much better it must be."""
    confidence: float | None = Field(default=None, gt=0.5, lt=1)
    """Confidence of the one-sided bound of `max_drop_vs`; by default that of the section."""

    @field_validator("metric")
    @classmethod
    def _known_metric(cls, metric: str) -> str:
        return _known(metric, HIGHER_IS_BETTER)

    @field_validator("slice")
    @classmethod
    def _known_slice(cls, part: str) -> str:
        return part if part.startswith(CITY) else _known(part, (*SLICES, f"{CITY}NAME"))

    def checks(self) -> Checks:
        """Return the rules between its keys: one that proves nothing or has no figure is
        refused before hours of work depend on it."""
        bounds = [name for name in ("min", "max", "max_drop_vs") if getattr(self, name) is not None]
        over_buildings = self.metric in OF_BUILDINGS
        return [
            (
                len(bounds) != 1,
                f"one of min, max, max_drop_vs is needed, {' and '.join(bounds) or 'none'} found",
                "gate.not_one_bound",
            ),
            *(
                (
                    getattr(self, name) and self.max_drop_vs is None,
                    f"{name} goes with max_drop_vs",
                    "gate.no_comparison",
                )
                for name in ("margin", "confidence")
            ),
            (
                self.max_drop_vs == "champion"
                and (not over_buildings or self.artifact == "float32"),
                f"{self.metric} of {self.artifact} is not measured against the champion; "
                "accuracy metrics of the "
                "released artifacts (pruned, fp16, int8) are",
                "gate.not_against_champion",
            ),
            (
                self.max_drop_vs == "baseline" and self.metric not in OF_BASELINE,
                f"{self.metric} is not measured of the baseline; {', '.join(OF_BASELINE)} are",
                "gate.not_against_baseline",
            ),
            (
                self.max_drop_vs == self.artifact,
                f"{self.artifact} is compared with itself. Name another artifact, or reference",
                "gate.against_itself",
            ),
            (
                self.max_drop_vs and self.metric == "interval_coverage_gap",
                "interval_coverage_gap is not compared. Bound it by `max`, or compare "
                "interval_coverage",
                "gate.gap_compared",
            ),
            (
                self.confidence and not over_buildings,
                f"{self.metric} is not taken over buildings, so its drop has no bound. Leave "
                "confidence out",
                "gate.confidence_unused",
            ),
            (
                self.slice != "all" and not over_buildings,
                f"{self.metric} is of the whole, and {self.slice} has none. Leave slice out",
                "gate.slice_unused",
            ),
        ]


class Validate(Section):
    """Settings of measuring the evidence."""

    min_slice: int = Field(default=50, ge=1)
    """A slice with fewer test buildings is reported without a figure."""
    min_interval_slice: int = Field(default=200, ge=1)
    """`interval_coverage_gap` looks at slices with at least as many test buildings."""


class Gates(Section):
    """The rules, and what all of them go by."""

    rules: list[Gate] = Field(min_length=1)
    confidence: float = Field(default=0.95, gt=0.5, lt=1)
    """Confidence of the one-sided bound of a drop, where a rule gives no other."""
    min_worst_slice: int = Field(default=100, ge=1)
    """Smallest number of test buildings of a slice that a rule on `worst` or `city:*` looks at."""

    def check_cities(self, cities_of_run: Iterable[str]) -> None:
        """Refuse rules on a city that is not one of `known`.

        Raises:
            ParameterError: there is one; the message names the cities that are spelt most like it.
        """
        cities = sorted(f"{CITY}{name}" for name in cities_of_run)
        for number, rule in enumerate(self.rules):
            try:
                if rule.slice.startswith(CITY):
                    _known(rule.slice, (*cities, f"{CITY}*"))
            except ValueError as error:
                place = f"gate.rules.{number}.slice"
                raise ParameterError(
                    f"{place}: {rule.slice!r} found; {error}.", key="gate.unknown_city"
                ) from None


class Package(Section):
    """The released package."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = "plumbline"
