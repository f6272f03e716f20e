"""`params.yaml` as typed, validated sections, named as the stages."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from plumbline.errors import InputError

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
ColumnRole = Literal[
    "point_id", "easting", "northing", "latitude", "longitude", "height",
    "los_east", "los_north", "los_up", "incidence", "heading", "coherence", "rmse",
]  # fmt: skip


class Section(BaseModel):
    """A section: unknown keys are refused, nothing changes after loading, NaN is no number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class City(Section):
    """One invented city and the satellite over it."""

    band: Literal["C", "X"]
    """C: Sentinel-1 like, few points a building. X: TerraSAR-X like, many."""
    buildings: int = Field(ge=4, le=2_000_000)
    seed: int = Field(ge=0)
    years: float | None = Field(default=None, ge=0.5, le=10)
    """Length of its observation, where it differs from `simulate.years`."""
    revisit_days: int | None = Field(default=None, ge=1, le=60)
    """Days between regular epochs; drawn from those of the band, unless given."""


class Borrowed(Section):
    """A city of the user's own points and footprints, into which labelled damage is put."""

    folder: Path
    """Holds point products of any known format and one file of footprints."""
    band: Literal["C", "X"] = "C"
    """Says how far positions are off, and the wavelength."""
    seed: int = Field(default=0, ge=0)
    copies: int = Field(default=1, ge=1, le=100)
    """Draws of damage over the same points."""
    damaged: Fraction | None = None
    """Share of buildings with a local failure, where it differs from `simulate.damaged`."""
    buffer_m: float = Field(default=2.0, ge=0, le=20)
    """As `prepare.buffer_m`."""
    products: dict[str, Product] = {}
    """As `ingest.products`."""


class Simulate(Section):
    """Invented cities: `cities` are labelled for training; `showcase` is predicted at the end of a run."""

    cities: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], City] = Field(min_length=1)
    borrowed: dict[Annotated[str, Field(pattern=r"^[a-z0-9_]+$")], Borrowed] = {}
    """Further cities for training, whose points and footprints are real."""
    showcase: City
    years: float = Field(default=2.5, ge=0.5, le=10)
    """Length of the observation."""
    damaged: Fraction = 0.8
    """Share of buildings with a local failure; the others move as a whole, or over a tunnel, only."""

    @model_validator(mode="after")
    def _names_of_their_own(self) -> Self:
        twice = sorted(self.cities.keys() & self.borrowed.keys())
        if twice:
            raise ValueError(f"cities and borrowed both name {', '.join(twice)}; give one another name")
        return self


class Units(Section):
    """What the numbers of a table described by `columns` are in; nothing is guessed."""

    displacement: Literal["mm", "cm", "m"]
    """Of the epochs, and of `rmse`."""
    angle: Literal["deg"] | None = None
    """Of the columns `incidence` and `heading`."""


Format = Literal["egms", "egms-l3", "depsi", "stamps", "mintpy", "columns"]
FORMATS: tuple[str, ...] = get_args(Format)
"""Names of the formats of points."""


class Product(Section):
    """What a product file does not say itself; see docs/formats.md for what each format needs."""

    format: Format | None = None
    """Reads the file as this format; left out, the content decides."""
    track: Annotated[str, Field(min_length=1)] | None = None
    """Name of the track, where it is not to be that of the file."""
    crs: str | None = None
    """CRS of the file's coordinates, for example `EPSG:32631`."""
    incidence_deg: float | None = Field(default=None, gt=0, lt=90)
    """Angle between the vertical and the line of sight, at the ground."""
    heading_deg: float | None = Field(default=None, ge=-360, le=360)
    """Direction of flight, clockwise from north; the antenna looks to the right."""
    component: Literal["up", "east"] | None = None
    """Of an EGMS L3 product."""
    geometry: str | None = None
    """Of MintPy: the geometry file, relative to the time series."""
    coherence: str | None = None
    """Of MintPy: the file of temporal coherence, relative to the time series."""
    columns: dict[ColumnRole, Annotated[str, Field(min_length=1)]] = {}
    """Of a table: what a column is -> its name in the file."""
    units: Units | None = None
    """Of a table."""
    positive: Literal["towards", "away"] | None = None
    """Of a table: positive displacements are towards the satellite, or away from it."""
    epochs: Annotated[str, Field(min_length=1)] | None = None
    """Of a table: how the columns of the epochs are named, `D%Y%m%d`; without `%`, what stands before YYYYMMDD."""
    separator: Literal[",", ";", "tab"] = ","
    """Of a table: what stands between cells."""
    decimal: Literal[".", ","] = "."
    """Of a table: the decimal sign."""

    @model_validator(mode="after")
    def _angles_together(self) -> Self:
        if not self.columns and (self.incidence_deg is None) != (self.heading_deg is None):
            raise ValueError("incidence_deg and heading_deg go together")
        return self

    @model_validator(mode="after")
    def _table_is_described(self) -> Self:
        has = self.columns.keys()
        if self.format == "columns" and not has:
            raise ValueError("format columns needs columns, which say what is what in the file")
        if not has:
            return self
        for key in ("units", "positive", "epochs"):
            if getattr(self, key) is None:
                raise ValueError(f"{key} must be stated with columns, it is never guessed")
        named = list(self.columns.values())
        if len(set(named)) < len(named):
            raise ValueError("columns: one column of the file cannot be two things")
        if self.separator == self.decimal:
            raise ValueError("separator and decimal cannot both be a comma")
        plane, globe = has & {"easting", "northing"}, has & {"latitude", "longitude"}
        if len(plane) + len(globe) != 2 or len(plane) == 1:
            raise ValueError("columns: easting and northing, or latitude and longitude are needed")
        if plane and self.crs is None:
            raise ValueError("crs must be stated with easting and northing")
        self._check_line_of_sight()
        return self

    def _check_line_of_sight(self) -> None:
        vector = self.columns.keys() & {"los_east", "los_north", "los_up"}
        angles = [("incidence", self.incidence_deg), ("heading", self.heading_deg)]
        ways = [(name in self.columns) + (constant is not None) for name, constant in angles]
        if (len(vector), ways) not in ((3, [0, 0]), (0, [1, 1])):
            raise ValueError(
                "the line of sight is needed once: columns los_east, los_north and los_up, or an incidence (column or "
                "incidence_deg) and a heading (column or heading_deg)"
            )
        if {"incidence", "heading"} & self.columns.keys() and (self.units is None or self.units.angle is None):
            raise ValueError("units.angle must be stated with a column of angles, it is never guessed")


class Ingest(Section):
    """What is read from the product files."""

    products: dict[str, Product] = {}
    """Patterns of file names (`*`, `?`, `[]`) -> what such files do not say themselves; the first that fits counts."""
    min_coherence: Fraction = 0.0
    """Points with a temporal coherence below are dropped, where the product gives one."""
    max_rmse_mm: Positive | None = None
    """Points whose fit leaves more are dropped, where the product gives a root mean square error."""
    tile_m: float = Field(default=2500.0, ge=100, le=1_000_000)
    """Side of the square tiles that points and buildings are stored and worked on by, m."""


class Audit(Section):
    """Bounds of the audit: beyond a `min_` or `max_` is a warning, beyond a `refuse_` stops the pipeline."""

    reference: str | None = None
    """`reference.json` of an earlier run, or a folder with one, to measure drift from."""
    sample: int = Field(default=20_000, ge=1000, le=1_000_000)
    """Buildings and scatterers of a split that quantiles, histograms and drift are taken from."""
    max_dropped_share: Fraction = 0.5
    """Of a track's points, by the quality filter."""
    min_assigned_share: Fraction = 0.01
    """Of a track's points, on a building."""
    max_left_out_share: Fraction = 0.9
    """Of a city's buildings, in no split."""
    min_labelled_share: Fraction = 0.2
    """Of a city's buildings."""
    min_epochs: int = Field(default=20, ge=1)
    min_years: float = Field(default=1.0, ge=0)
    """Length of a track."""
    min_period_share: Fraction = 0.8
    """Of its city's period, covered by a track."""
    max_gap_days: Positive = 120.0
    max_missing_share: Fraction = 0.3
    """Of a track's displacements."""
    max_duplicate_share: Fraction = 0.1
    """Of a track's points, at the position of another."""
    min_split: int = Field(default=30, ge=1)
    """Buildings of a split."""
    max_severity_permille: Positive = 20.0
    refuse_severity_permille: Positive = 100.0
    """A tenth of length: no standing structure, but a wrong unit."""
    min_damage_share: Fraction = 0.05
    """Of `train`: the rarer of damaged and undamaged."""
    min_category_share: Fraction = 0.02
    """Of `train`, each Burland category."""
    min_quadrant_share: Fraction = 0.1
    """Of the damaged buildings of `train`, each quadrant."""
    outlier_z: Positive = 10.0
    """Robust standard deviations from the median beyond which a value is an outlier."""
    max_outlier_share: Fraction = 0.05
    """Of a column."""
    max_skew: Positive = 20.0
    """Skewness of a column."""
    max_correlation: Fraction = 0.999
    """Of two columns."""
    max_psi: Positive = 0.25
    """Population stability index of a column; in small data, what chance alone would give counts if it is more."""
    refuse_psi: Positive | None = None
    """The same against `reference`; null: drift from it never stops the pipeline."""

    @model_validator(mode="after")
    def _warned_before_refused(self) -> Self:
        if self.refuse_severity_permille < self.max_severity_permille:
            raise ValueError("refuse_severity_permille must not be below max_severity_permille")
        if self.refuse_psi is not None and self.refuse_psi < self.max_psi:
            raise ValueError("refuse_psi must not be below max_psi")
        return self


class Prepare(Section):
    """From points and footprints to sequences."""

    buffer_m: float = Field(default=2.0, ge=0, le=20)
    """A point this far outside of a footprint still belongs to it (position error), m."""
    min_points: int = Field(default=5, ge=3, le=1000)
    """A building with fewer usable points is not judged."""
    max_points: int = Field(default=128, ge=8, le=4096)
    """Longest sequence; a building with more points keeps a sample spread evenly over its footprint."""
    min_side_m: float = Field(default=2.0, ge=0, le=20)
    """A building whose shorter side is below is not judged: positions are less certain than its quadrants are wide."""
    max_side_m: float = Field(default=300.0, ge=20, le=10_000)
    """A building whose longer side is above is not judged: it is several, or joints let its parts move on their own."""
    block_m: Positive = 200.0
    """Side of the square blocks that are kept together when splitting, m."""
    split: dict[Literal["train", "tune", "calibrate", "test"], Positive] = {
        "train": 0.7, "tune": 0.1, "calibrate": 0.1, "test": 0.1,
    }  # fmt: skip
    """Shares of the blocks; normalised. `tune` chooses the checkpoint, `calibrate` sets temperature and interval."""
    folds: int = Field(default=0, ge=0, le=100)
    """For cross-validation: so many folds of whole blocks, of which `fold` is the test split; 0: none."""
    fold: int = Field(default=0, ge=0)
    seed: int = Field(default=0, ge=0)
    audit: Audit = Audit()

    @model_validator(mode="after")
    def _folds_and_splits(self) -> Self:
        if self.folds == 1 or self.fold >= max(self.folds, 1):
            raise ValueError(
                f"folds: {self.folds} with fold: {self.fold} found; 0 with fold 0, or 2 and more with a fold below it"
            )
        missing = {"train", "tune", "calibrate", "test"} - self.split.keys()
        if missing:
            raise ValueError(f"split: no share found for {' and '.join(sorted(missing))}")
        return self


class Model(Section):
    """The two-stream network."""

    channels: int = Field(default=48, ge=4, le=1024)
    """Channels of each convolution stream."""
    blocks: int = Field(default=2, ge=1, le=16)
    """Convolution blocks a stream."""
    kernel: int = Field(default=3, ge=1, le=31)
    heads: int = Field(default=4, ge=1, le=64)
    attention: Literal["none", "math", "sdpa"] = "sdpa"
    attention_layers: int = Field(default=2, ge=0, le=16)
    max_attention_length: int = Field(default=1024, ge=1)
    """Sequences longer than this pass without attention."""
    position: Literal["none", "learned", "sinusoidal", "auto"] = "auto"
    """Position in the sequence; `auto`: learned up to 64, sinusoidal for longer `prepare.max_points`."""
    hidden: int = Field(default=96, ge=4, le=4096)
    """Width of the layer before the heads."""
    dropout: float = Field(default=0.1, ge=0, lt=1)

    @model_validator(mode="after")
    def _kernel_is_odd(self) -> Self:
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel: {self.kernel} found, must be odd")
        if (2 * self.channels) % self.heads:
            raise ValueError(f"heads: {self.heads} found, must divide twice model.channels ({2 * self.channels})")
        return self


class Optimise(Section):
    """One run of optimisation."""

    epochs: int = Field(ge=1, le=10_000)
    patience: int = Field(ge=1, le=10_000)
    """Epochs without a better score before stopping; the rate halves after a third of them."""
    learning_rate: Positive
    weight_decay: float = Field(default=0.01, ge=0)
    batch_size: int = Field(default=128, ge=1, le=65536)


class Train(Optimise):
    """Training."""

    quadrant_weight: float = Field(default=1.0, ge=0)
    severity_weight: float = Field(default=2.0, ge=0)
    augment: bool = True
    """Mirror and turn each building's frame at random (the eight symmetries of the compass)."""
    padding: Literal["mask", "mean", "median", "last", "replicate"] = "mask"
    """What fills shorter sequences of a batch. The network masks it; see docs/padding.md."""
    perturb: Fraction = 0.5
    """Share of the examples that `point_dropout`, `track_dropout` and `noise` act on, where one of them is above 0."""
    point_dropout: float = Field(default=0.0, ge=0, lt=1)
    """Probability that a scatterer is left out; as many stay as the smallest building of the split has."""
    track_dropout: Fraction = 0.0
    """Probability that a building seen by several tracks loses one of them."""
    noise: float = Field(default=0.0, ge=0, le=10)
    """Standard deviation of what is added to each displacement, in its own standard errors."""
    balance: Literal["none", "weights", "oversample"] = "none"
    """How rare examples are helped: by their weight in the losses, or by being drawn more often."""
    balance_by: Literal["category", "quadrant", "both", "severity"] = "category"
    """What makes an example rare: its Burland category, its quadrant, both together, or the density of severities
    around its own. With `augment`, quadrants are turned into each other and balanced already."""
    balance_strength: Fraction = 1.0
    """Power of the rarity: 1 makes all classes count the same, 0 changes nothing, 0.5 is the square root."""
    gradient_clip: Positive = 1.0
    seed: int = Field(default=0, ge=0, le=2**32 - 1)
    threads: int = Field(default=0, ge=0)
    """CPU threads; 0: all."""


class Compress(Optimise):
    """Pruning with fine-tuning after it, and quantisation."""

    pruning_ratio: float = Field(default=0.5, ge=0, lt=1)
    """Share of channels removed."""
    pruning_steps: int = Field(default=1, ge=1, le=20)
    importance_batches: int = Field(default=10, ge=1)
    distil_weight: float = Field(default=1.0, ge=0)
    """Weight of following the unpruned network's answers while fine-tuning."""


class Export(Section):
    """ONNX and int8."""

    opset: int = Field(default=20, ge=18, le=22)
    calibration_batches: int = Field(default=8, ge=2)
    calibration_batch_size: int = Field(default=64, ge=1)


class Gate(Section):
    """One rule: a metric of an artifact on a slice, and one bound."""

    metric: str
    artifact: Literal["float32", "pruned", "int8"]
    slice: str = "all"
    min: float | None = None
    max: float | None = None
    max_drop_vs: Literal["float32", "champion", "baseline"] | None = None
    margin: float = 0.0
    """With `max_drop_vs`: how much worse may it be, in the metric's unit; negative: how much better it must be."""

    @model_validator(mode="after")
    def _one_bound(self) -> Self:
        bounds = [name for name in ("min", "max", "max_drop_vs") if getattr(self, name) is not None]
        if len(bounds) != 1:
            raise ValueError(f"one of min, max, max_drop_vs is needed, {' and '.join(bounds) or 'none'} found")
        if self.margin and self.max_drop_vs is None:
            raise ValueError("margin goes with max_drop_vs")
        return self


class Validate(Section):
    """The gates, and how the evidence is measured."""

    gates: list[Gate] = Field(min_length=1)
    min_slice: int = Field(default=50, ge=1)
    """A slice with fewer test buildings is reported without a figure."""
    latency_batch: int = Field(default=64, ge=1)


class Package(Section):
    """The released package."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")] = "plumbline"


class Params(Section):
    """The whole file."""

    simulate: Simulate
    ingest: Ingest
    prepare: Prepare
    model: Model
    train: Train
    compress: Compress
    export: Export
    validate_: Validate = Field(alias="validate")
    package: Package


def load_params(path: Path = Path("params.yaml")) -> Params:
    """Read and check `params.yaml`.

    Raises:
        InputError: the file is missing, is not YAML, or a key is unknown, missing, of the wrong type or out of
            range; the message names every such key, what was found and what is allowed.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file. Run from the project's root, or give --params FILE.") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not readable as YAML ({error}).") from None
    return parse_params(content, str(path))


def parse_params(content: Any, source: str = "params.yaml") -> Params:
    """Check the content of a params file; `source` names it in messages.

    Raises:
        InputError: as `load_params`.
    """
    try:
        return Params.model_validate(content)
    except ValidationError as error:
        lines = [f"{source}: {_explain(item)}" for item in error.errors()]
        raise InputError("\n".join(lines)) from None


def _explain(item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"]) or "the file"
    if item["type"] == "extra_forbidden":
        return f"{key}: unknown key. Remove it, or check its spelling."
    if item["type"] == "missing":
        return f"{key}: missing."
    found = "" if isinstance(item["input"], dict | list) else f"{item['input']!r} found; "
    return f"{key}: {found}{item['msg'].removeprefix('Value error, ')}."
