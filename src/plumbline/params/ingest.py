"""Section `ingest`."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from plumbline.params.section import Fraction, Positive, Section

ColumnRole = Literal[
    "point_id", "easting", "northing", "latitude", "longitude", "height",
    "los_east", "los_north", "los_up", "incidence", "heading", "coherence", "rmse",
]  # fmt: skip


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
