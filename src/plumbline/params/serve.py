"""Hold the parameters of `adapt`, `score` and `tidy`, which are no stages."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, field_validator

from plumbline.params.section import Checks, Fraction, Positive, Section
from plumbline.params.train import MAX_THREADS, Train


class Adapt(Section):
    """What an adapter may change of a trained model, and how it is fitted to a few labels."""

    rank: int = Field(default=4, ge=4, le=16)
    """Rank of the low-rank changes (Hu et al. 2022)."""
    unfreeze_at: Fraction = 0.5
    """Share of the epochs after which small parameters are trained as well, as a whole."""
    epochs: int = Field(default=40, ge=1, le=10_000)
    learning_rate: Positive = 0.002
    weight_decay: float = Field(default=0.1, ge=0, le=10)
    """Pulls every change towards none, that is to the base."""
    batch_size: int = Field(default=25, ge=1, le=65536)
    min_labels: int = Field(default=20, ge=5)
    """Labelled buildings that can be judged, at least."""
    min_lora_labels: int = Field(default=100, ge=5)
    """Smallest number of labels for low-rank changes: with 50 only the level gains."""
    min_interval_labels: int = Field(default=40, ge=10)
    """Smallest number of labels for a new interval: the share that it then covers varies by
    5 points from city to city."""
    min_temperature_labels: int = Field(default=40, ge=10)
    """Smallest number of buildings with a quadrant for a new temperature."""
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    threads: int = Field(default=0, ge=0, le=MAX_THREADS)
    """CPU threads; 0: all."""

    @property
    def late_epoch(self) -> int:
        """First epoch, counted from 0, in which parameters are changed as a whole."""
        return round(self.unfreeze_at * self.epochs)

    def as_train(self) -> Train:
        """Return the settings of the optimisation that fits the changes, in the form that
        training takes."""
        return Train(
            epochs=self.epochs,
            patience=self.epochs,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            batch_size=self.batch_size,
            schedule="cosine",
            warmup_share=0.1,
            quadrant_weight=1.0,
            severity_weight=2.0,
            augment=True,
            seed=self.seed,
            threads=self.threads,
        )


class Drift(Section):
    """Bounds beyond which a delivery differs from the training data; see docs/score.md."""

    min_buildings: int = Field(default=100, ge=1)
    """Smallest number of prepared buildings for which drift is measured."""
    confidence: float = Field(default=0.99, gt=0.5, lt=1)
    """That a delivery without drift is not said to have any, for each kind of figure."""
    max_distance: Fraction = 0.3
    """Kolmogorov-Smirnov distance of a column from the nearest training city, less what
    chance can make of it."""
    max_psi: Positive = 0.25
    """Population stability index of the same; both must be exceeded."""
    max_novel_share: Fraction = 0.2
    """Buildings unlike any in training, of those that were prepared."""
    max_abstained_rise: Fraction = 0.2
    """Rise of the share of buildings that are not judged, since the last delivery of the place."""
    max_output_psi: Positive = 0.25
    """Population stability index of the categories since the last delivery of the place."""


class Lend(Section):
    """How a drifted delivery lends its points to training, see `simulate.borrowed`."""

    band: Literal["C", "X"] = "C"
    copies: int = Field(default=1, ge=1, le=100)


COMPARISONS: dict[str, Callable[[Any, float], Any]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
CONDITION = re.compile(
    r"\s*(\w+)\s*(>=|<=|>|<)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*", re.ASCII
)
"""One column, one comparison, one number."""


class Condition(NamedTuple):
    """Condition of a rule: a comparison of a column of the predictions with a number."""

    column: str
    comparison: str
    """One of `COMPARISONS`."""
    limit: float


def parse_condition(text: str) -> Condition:
    """Return the parts of `COLUMN > NUMBER`.

    Raises:
        ValueError: the text has another form, or the number is not finite.
    """
    parts = CONDITION.fullmatch(text)
    if parts is None or not math.isfinite(float(parts[3])):
        raise ValueError(
            'one column, one of > >= < <=, and one number needed, as "p_damaged > 0.5"'
        )
    return Condition(parts[1], parts[2], float(parts[3]))


class Alarm(Section):
    """A rule: buildings that meet its condition for some deliveries in a row have an alarm;
    see docs/score.md."""

    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,40}$")
    when: str
    """`COLUMN > NUMBER` (or `>=`, `<`, `<=`), of a column of the predictions table that
    holds numbers."""
    ends: float | None = None
    """An alarm goes on while the condition holds with this number; None: with that of `when`."""
    in_a_row: int = Field(default=2, ge=1, le=100)
    """Deliveries in a row that must meet the condition before an alarm begins."""
    place: str | None = Field(default=None, pattern=r"^[^/]+$")
    """Folder of deliveries; None: all."""
    buildings: list[Annotated[str, Field(min_length=1)]] | None = Field(default=None, min_length=1)
    """Identifiers of a place; None: all buildings."""
    within: Path | None = None
    """Vector file of polygons: only buildings that reach into one count."""

    @field_validator("when")
    @classmethod
    def _is_condition(cls, text: str) -> str:
        parse_condition(text)
        return text

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        side, is_beyond = (
            ("above", operator.gt) if self.comparison[0] == ">" else ("below", operator.lt)
        )
        return [
            (
                is_beyond(self.bound, self.limit),
                f"ends {self.bound:g} is {side} the limit {self.limit:g} of when "
                f"({self.when.strip()}): an alarm "
                "would end as it begins. Give the limit, or a number on its harmless side",
                "alarm.ends_beyond_limit",
            ),
            (
                self.buildings is not None and self.within is not None,
                "buildings and within found; give one of them",
                "alarm.buildings_and_within",
            ),
            (
                self.buildings is not None and self.place is None,
                "buildings needs place: two places may call different buildings by one name",
                "alarm.no_place",
            ),
        ]

    @property
    def column(self) -> str:
        """Return the column of the predictions table."""
        return parse_condition(self.when).column

    @property
    def comparison(self) -> str:
        """Return one of `COMPARISONS`."""
        return parse_condition(self.when).comparison

    @property
    def limit(self) -> float:
        """Return the number of the condition."""
        return parse_condition(self.when).limit

    @property
    def bound(self) -> float:
        """Return the number with which an alarm goes on."""
        return self.limit if self.ends is None else self.ends

    def holds(self, values: Any, number: float) -> Any:
        """Return where values (B,) meet the comparison with a number; an empty one does not."""
        return COMPARISONS[self.comparison](values, number)


class Score(Section):
    """Deliveries to watch for, and what to do with each."""

    source: Path = Path("data/deliveries")
    """`SOURCE/PLACE/DELIVERY/`: a folder a place, and in it a folder a delivery with the
    products of all tracks."""
    out: Path = Path("data/score")
    """Gets `OUT/PLACE/DELIVERY-HASH/`."""
    footprints: dict[str, Path] = {}
    """Place -> footprints, for deliveries that bring none of their own."""
    damage_rates: dict[str, Annotated[float, Field(gt=0, lt=1)]] = {}
    """Place -> share of its buildings that are damaged; of others it is estimated for each
    delivery, and an alarm on `p_damaged` follows what chance makes of that."""
    causes: dict[str, Path] = {}
    """Place -> what may have caused damage there: a vector file of lines, polygons or
    points (docs/causes.md)."""
    damage_rate_by: Literal["city", "place"] = "place"
    """`city`: one estimated share for all buildings of a place; `place`: where damage
    gathers, the neighbours tell a share."""
    settle_s: float = Field(default=60.0, ge=0, le=86_400)
    """A delivery counts as complete once nothing in it has changed for so many seconds."""
    marker: str | None = Field(default=None, pattern=r"^[^/]+$")
    """Name of a file that whoever delivers writes last; without it in a delivery, that one
    is not complete."""
    drift: Drift = Drift()
    lend: dict[str, Lend] = {}
    """Place -> how its points are lent; as `Lend` says by itself for others."""
    alarms: list[Alarm] = []
    """Rules by which buildings have alarms."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        names = [rule.name for rule in self.alarms]
        twice = sorted({name for name in names if names.count(name) > 1})
        return [
            (
                twice,
                f"alarms: two rules have the name {', '.join(twice)}; give each its own",
                "alarm.same_name",
            )
        ]


class Tidy(Section):
    """What to keep on a system that runs for months; see docs/operations/retention.md."""

    former_champions: int = Field(default=5, ge=1, le=99)
    """Number of times in a row that `plumbline release rollback` can go back: their packages
    stay."""
    packages: int = Field(default=5, ge=0, le=10_000)
    """Newest packages of the registry that stay besides the champions, and any with an alias."""
    runs: int = Field(default=10, ge=1, le=10_000)
    """Newest commits of each branch whose results stay in DVC's cache of a worker's clone.
    And the newest records of training that stay in MLflow, however old."""
    days: float = Field(default=30.0, gt=0, le=3650)
    """Days after which what has ended goes: Prefect's records of runs, MLflow's of
    training, what interrupted work left in `.plumbline`."""
    log_mib: float = Field(default=20.0, gt=0, le=10_000)
    """MiB from which a log of the server or a worker is cut to its last half."""
