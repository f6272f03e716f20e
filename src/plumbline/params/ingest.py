"""Define section `ingest`."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, get_args

from pydantic import Field

from plumbline.params.section import Checks, Fraction, Positive, Section

ColumnRole = Literal[
    "point_id",
    "easting",
    "northing",
    "latitude",
    "longitude",
    "height",
    "los_east",
    "los_north",
    "los_up",
    "incidence",
    "heading",
    "coherence",
    "rmse",
]

PARAMS_FILE = (
    "a file my.yaml and add `--params my.yaml` (in the pipeline: into section ingest "
    "of params.yaml)"
)
"""File into which users write what a product does not state; messages begin with `Write … into`."""

Shift = Annotated[float, Field(ge=-1000, le=1000)]


class Units(Section):
    """Units of the numbers in a table that `columns` describes; units are never guessed."""

    displacement: Literal["mm", "cm", "m"]
    """Unit of the displacements of the epochs, and of `rmse`."""
    angle: Literal["deg", "rad"] | None = None
    """Unit of the columns `incidence` and `heading`."""


Format = Literal[
    "egms",
    "egms-l3",
    "depsi",
    "stamps",
    "mintpy",
    "licsbas",
    "columns",
    "squeesar",
    "squeesar-up",
    "squeesar-east",
    "stamps-gis",
    "sarvey",
    "sarproz",
    "sarscape",
    "pygmtsar",
    "insar-norway",
]
FORMATS: tuple[str, ...] = get_args(Format)
"""Names of the formats of points."""


class ProfileRows(Section):
    """Facts that profile rows (the first generation's `d0,s0,d1,s1,…,span,width`) lack;
    they are never guessed."""

    labelled: bool
    """True if each row ends with `severity,location`."""
    distance_unit: Literal["m", "cm", "mm"]
    """Unit of distances, span and width."""
    slope_unit: Literal["mm/m", "m/m"]
    severity_unit: Literal["permille", "percent", "strain"] | None = None
    """Unit of the severity in labelled rows; `strain` is m/m."""
    quadrants: dict[Annotated[int, Field(ge=0)], Literal["NE", "NW", "SW", "SE", "none"]] = {}
    """Code of a location in labelled rows -> its quadrant where distances ascend from west
    to east, or `none`."""
    years: Annotated[float, Field(gt=0, le=100)] | None = None
    """Length of the time in which the slopes came about; or its days, `first` and `last`."""
    first: date | None = None
    last: date | None = None
    same_building: Literal["size", "row", "file"] = "size"
    """Rows of one building, which go into one split together: the rows of a city that are
    equal in span and width (a building that was given at several levels of difficulty),
    each row alone, or all rows of a file."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        of_labels = (self.severity_unit is not None, bool(self.quadrants))
        times = (self.years is not None, self.first is not None, self.last is not None)
        return [
            (
                self.labelled and of_labels != (True, True),
                "labelled rows need severity_unit, and quadrants, which say what the codes of "
                "locations mean (code -> NE, NW, SW, SE or none); they are never guessed",
                "labels.meaning_missing",
            ),
            (
                not self.labelled and any(of_labels),
                "severity_unit and quadrants are of labelled rows; leave them out, or: labelled: "
                "true",
                "labels.not_labelled",
            ),
            (
                times not in ((True, False, False), (False, True, True)),
                "the time of the observation is needed once: years, or first and last; it is "
                "never guessed",
                "observation.not_given_once",
            ),
            (
                self.first is not None and self.last is not None and self.last <= self.first,
                f"last, {self.last}, is not after first, {self.first}",
                "observation.last_before_first",
            ),
        ]


class Product(Section):
    """Facts about points that their file lacks; see docs/formats.md for what each format needs."""

    format: Literal[Format, "profiles"] | None = None
    """Reads the file as this format; left out, the content decides."""
    track: Annotated[str, Field(min_length=1)] | None = None
    """Name of the track, where it is not to be that of the file."""
    crs: str | None = None
    """CRS of the file's coordinates, for example `EPSG:32631`."""
    incidence_deg: float | None = None
    """Angle between the vertical and the line of sight, at the ground; 5 to 85."""
    heading_deg: float | None = Field(default=None, ge=-360, le=360)
    """Direction of flight, clockwise from north."""
    look: Literal["right", "left"] = "right"
    """Side to which the antenna looks, seen in the direction of flight."""
    missing: list[float | str] | None = None
    """Numbers and texts that stand for no value; left out, numbers that repeat far off
    their series are found."""
    moved_m: tuple[Shift, Shift] | None = None
    """Metres east and north by which its points are moved, where they lie beside the footprints."""
    raised_m: Shift | None = None
    """Metres by which its heights are raised, where they count from elsewhere than those of
    other tracks."""
    component: Literal["up", "east"] | None = None
    """Component of an EGMS L3 product."""
    geometry: str | None = None
    """Geometry file of MintPy, relative to the time series."""
    coherence: str | None = None
    """File of MintPy's temporal coherence, relative to the time series."""
    columns: dict[ColumnRole, Annotated[str, Field(min_length=1)]] = {}
    """Role of a column of a table -> its name in the file."""
    units: Units | None = None
    """Units of a table."""
    positive: Literal["towards", "away"] | None = None
    """Direction of positive displacements of a table: towards the satellite, or away from it."""
    epochs: Annotated[str, Field(min_length=1)] | None = None
    """Pattern of the names of a table's epoch columns: `D%Y%m%d`, `%Y{day0}`, `{decimal_year}` or
    `{days_since 2019-01-04}`; without `%` and braces, the prefix of YYYYMMDD."""
    separator: Literal[",", ";", "tab", "|"] = ","
    """Separator of a table's cells; by default the one that the header has most of."""
    decimal: Literal[".", ","] = "."
    """Decimal sign of a table; by default the one that its first rows show."""
    profiles: ProfileRows | None = None
    """Options of profile rows, which are no points."""

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        unused = sorted(self.model_fields_set - {"format", "profiles"})
        incidence = 45.0 if self.incidence_deg is None else self.incidence_deg
        radians = " (radians?)" if 0 < incidence < 1.5 else ""
        return [
            (
                self.format == "profiles" and self.profiles is None,
                "format profiles needs profiles, with what the rows lack",
                "profiles.missing",
            ),
            (
                self.profiles is not None and (self.format or "profiles") != "profiles",
                f"profiles describe profile rows; format {self.format} does not use them",
                "profiles.other_format",
            ),
            (
                self.profiles is not None and unused,
                f"profile rows do not use {', '.join(unused)}",
                "profiles.unused_keys",
            ),
            (
                not 5 <= incidence <= 85,
                f"incidence_deg: {incidence:g} found{radians}, 5 to 85 degrees are possible",
                "incidence.out_of_range",
            ),
            (
                not self.columns and (self.incidence_deg is None) != (self.heading_deg is None),
                "incidence_deg and heading_deg go together",
                "sight.half_given",
            ),
            (
                self.format == "columns" and not self.columns,
                "format columns needs columns, with the names of the columns in the file",
                "columns.missing",
            ),
            *(self._table_checks() if self.columns else ()),
        ]

    def _table_checks(self) -> Checks:
        """Return the rules for a table that `columns` describe."""
        has, named = self.columns.keys(), list(self.columns.values())
        plane, globe = has & {"easting", "northing"}, has & {"latitude", "longitude"}
        vector = has & {"los_east", "los_north", "los_up"}
        angles = [("incidence", self.incidence_deg), ("heading", self.heading_deg)]
        ways = [(name in has) + (constant is not None) for name, constant in angles]
        return [
            *(
                (
                    getattr(self, key) is None,
                    f"{key} must be stated with columns, it is never guessed",
                    "columns.fact_missing",
                )
                for key in ("units", "positive", "epochs")
            ),
            (
                len(set(named)) < len(named),
                "columns: one column of the file cannot be two things",
                "columns.used_twice",
            ),
            (
                "separator" in self.model_fields_set and self.separator == self.decimal,
                "separator and decimal cannot both be a comma",
                "columns.separator_is_decimal",
            ),
            (
                len(plane) + len(globe) != 2 or len(plane) == 1,
                "columns: easting and northing, or latitude and longitude are needed",
                "columns.no_coordinates",
            ),
            (
                plane and self.crs is None,
                "crs must be stated with easting and northing",
                "columns.no_crs",
            ),
            (
                (len(vector), ways) not in ((3, [0, 0]), (0, [1, 1])),
                "the line of sight is needed once: columns los_east, los_north and los_up, or an "
                "incidence (column or "
                "incidence_deg) and a heading (column or heading_deg)",
                "sight.not_given_once",
            ),
            (
                {"incidence", "heading"} & has and (self.units is None or self.units.angle is None),
                "units.angle must be stated with a column of angles, it is never guessed",
                "columns.no_angle_unit",
            ),
        ]


class Footprints(Section):
    """Facts about footprints that their file lacks; see docs/footprints.md."""

    id_column: Annotated[str, Field(min_length=1)] | None = None
    """Column that identifies a building, where it is not `building_id`."""
    layer: Annotated[str, Field(min_length=1)] | None = None
    """Name, of a file with several layers."""
    crs: Annotated[str, Field(min_length=1)] | None = None
    """CRS of the file's coordinates, for example `EPSG:4326`, where the file does not state it."""


class Ingest(Section):
    """Product files to read, and how to read them."""

    products: dict[str, Product] = {}
    """Patterns of file names (`*`, `?`, `[]`) -> what such files do not say themselves; the
    first that fits counts."""
    footprints: dict[str, Footprints] = {}
    """Options of files of footprints, by their name."""
    crs: Annotated[str, Field(min_length=1)] | None = None
    """Projected CRS in m that all is worked in, and north is that of; None: that of a
    city's first product."""
    min_coherence: Fraction = 0.0
    """Points with a temporal coherence below are dropped, where the product gives one."""
    max_rmse_mm: Positive | None = None
    """Points whose fit leaves more are dropped, where the product gives a root mean square
    error."""
    tile_m: float = Field(default=2500.0, ge=100, le=1_000_000)
    """Side of the square tiles that points and buildings are stored and worked on by, m."""
