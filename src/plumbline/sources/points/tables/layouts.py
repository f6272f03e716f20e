"""Declare the published layouts of tables of points: the role, unit and sign of each column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

CUT_LETTERS = 10
"""A Shapefile's columns have no longer names."""
LONGITUDE, LATITUDE = ("geometry_longitude", "lon", "longitude"), ("geometry_latitude", "lat", "latitude")
EASTING, NORTHING = ("geometry_easting", "easting", "x"), ("geometry_northing", "northing", "y")
LINE_OF_SIGHT = ("los_east", "los_north", "los_up")


@dataclass(frozen=True)
class Layout:
    """A layout of a table with a row a point and a column an epoch; names are in small letters."""

    name: str
    """As `format` in `ingest.products` names it."""
    called: str
    marks: tuple[str, ...]
    """Columns that make it this layout, all of which are there."""
    days: tuple[str, ...]
    """How columns of epochs are named, as `strptime`; the first that finds two epochs counts."""
    unit: str | None
    """Of displacements: mm, cm or m. None: the layout does not say it, so it is asked."""
    positive: Literal["towards"] | None
    """Of displacements, as in `ingest.products`. None: asked."""
    point_id: tuple[str, ...] = ()
    height: tuple[str, ...] = ("height", "geometry_height")
    """An attribute counts before the geometry's z, which many programs write as 0."""
    coherence: tuple[str, ...] = ()
    component: tuple[float, float, float] | None = None
    """East, north, up of what is measured, where two passes were decomposed on cells; else the line of sight."""
    has_vector: bool = False
    """Whether it has the line of sight: `los_east`, `los_north`, `los_up`, from ground to satellite."""
    one_of: tuple[str, ...] = ()
    """Further columns, one of which is there."""
    lacks: tuple[str, ...] = ()
    """Columns that would make it another layout."""
    only_days: bool = False
    """Whether all of its columns are epochs, but those of places."""

    @property
    def has_view(self) -> bool:
        """Whether the layout itself gives the line of sight."""
        return self.has_vector or self.component is not None


LAYOUTS = (
    # TRE ALTAMIRA, description of SqueeSAR's shapefiles (treuropa.com, "Map visualization"); MintPy, save_qgis.py.
    Layout(
        name="squeesar",
        called="SqueeSAR of TRE ALTAMIRA, and MintPy's save_qgis",
        marks=("code", "vel", "v_stdev", "coherence"),
        days=("D%Y%m%d",),
        unit="mm",
        positive="towards",
        point_id=("code",),
        coherence=("coherence",),
    ),
    # TRE ALTAMIRA, description of vertical and east-west components (quoted by DIVEG of Denmark's mapping agency).
    Layout(
        name="squeesar-up",
        called="SqueeSAR, vertical component",
        marks=("code", "vel_v", "v_stdev_v"),
        days=("D%Y%m%d",),
        unit="mm",
        positive="towards",
        point_id=("code",),
        component=(0.0, 0.0, 1.0),
        lacks=("vel_e",),
    ),
    Layout(
        name="squeesar-east",
        called="SqueeSAR, east-west component",
        marks=("code", "vel_e", "v_stdev_e"),
        days=("D%Y%m%d",),
        unit="mm",
        positive="towards",
        point_id=("code",),
        component=(1.0, 0.0, 0.0),
        lacks=("vel_v",),
    ),
    # StaMPS, ps_export_gis.m: ph_mm of ps_plot, days as yyyymmdd behind a D.
    Layout(
        name="stamps-gis",
        called="StaMPS, ps_export_gis",
        marks=("code", "lon", "lat", "height", "coherence", "vlos"),
        days=("D%Y%m%d",),
        unit="mm",
        positive="towards",
        point_id=("code",),
        coherence=("coherence",),
    ),
    # SARvey, sarvey_export.py. `dem` is the height of the terrain model; `dem_error`, of unstated sign, is not added.
    Layout(
        name="sarvey",
        called="SARvey, sarvey_export",
        marks=("point_id", "velocity", "coherence", "omega", "st_consistency"),
        days=("D%Y%m%d",),
        unit="mm",
        positive=None,
        point_id=("point_id",),
        height=("dem", "geometry_height"),
        coherence=("coherence",),
    ),
    # SARPROZ manual, 1.4.10.3 Sparse Data Export. It does not say how days are written: these are the ways of MATLAB's
    # datestr, and the year of two digits in front that a public script in R expects of such files.
    Layout(
        name="sarproz",
        called="SARPROZ, sparse data export",
        marks=("id", "lat", "lon", "svet", "lvet", "coher"),
        days=("%Y%m%d", "%d-%b-%Y", "%Y-%m-%d", "%Y/%m/%d", "%y/%m/%d", "%y-%m-%d", "%y.%m.%d"),
        unit="mm",
        positive=None,
        point_id=("id",),
        coherence=("coher",),
    ),
    # SARscape, attributes of the PS shapefile (ENVI's support pages): neither unit nor sign, and of LOS_Az and LOS_In
    # not from where they count.
    Layout(
        name="sarscape",
        called="SARscape, PS and SBAS shapes",
        marks=("velocity", "coherence", "los_az", "los_in"),
        days=("D_%Y%m%d",),
        unit=None,
        positive=None,
        height=("z", "geometry_height"),
        coherence=("coherence",),
    ),
    # PyGMTSAR, Stack_export.py, export_stack_geojson: any grid of the user's, so neither unit nor sign are known.
    Layout(
        name="pygmtsar",
        called="PyGMTSAR, export_stack_geojson",
        marks=("geometry_longitude", "geometry_latitude"),
        days=("%Y-%m-%d",),
        unit=None,
        positive=None,
        height=("geometry_height",),
        only_days=True,
    ),
    # NGU, "Beskrivelse av parametre" and "How does the InSAR map service work". EGMS has the same names, and metres.
    Layout(
        name="insar-norway",
        called="InSAR Norway (csv)",
        marks=("mean_velocity", *LINE_OF_SIGHT),
        days=("%Y%m%d",),
        unit="mm",
        positive="towards",
        point_id=("pid", "point id", "point_id", "code", "id"),
        coherence=("temporal_coherence",),
        has_vector=True,
        one_of=LATITUDE,
        lacks=("easting", "northing"),
    ),
)


def find_column(header: Iterable[str], names: Iterable[str]) -> str | None:
    """Return the first column with one of the names, as the header writes it; None without any.

    Capital letters do not matter, and a Shapefile may have cut the name.

    Args:
        header: names of all columns.
        names: in small letters; the first that is found counts.
    """
    written: Mapping[str, str] = {name.lower(): name for name in reversed(list(header))}
    for name in names:
        for known in (name, name[:CUT_LETTERS]):
            if known in written:
                return written[known]
    return None
