"""Define section `simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from plumbline.params.ingest import Footprints, Product
from plumbline.params.section import Checks, Fraction, Section


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
    damaged: Fraction | None = None
    """Share of buildings with a local failure, where it differs from `simulate.damaged`."""
    movement: Literal["any", "town"] = "any"
    """Distribution of whole-building movement. any: up to 300 mm and 25 mm/m, for training.
    town: as in EGMS of a real town."""


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
    """Width of the buffer around footprints, m, as `prepare.buffer_m`."""
    products: dict[str, Product] = {}
    """Options of the products, as `ingest.products`."""
    footprints: dict[str, Footprints] = {}
    """Options of the footprints, as `ingest.footprints`."""


CITY_NAME = r"^[a-z0-9_]+$"
CityName = Annotated[str, Field(pattern=CITY_NAME)]
LENT = Path("data/borrowed")
"""Folder of the cities that deliveries have lent: `CITY/`, and `CITY.yaml` as an entry of
`simulate.borrowed`."""


class Mechanisms(Section):
    """How buildings fail: a share of the failures for each, in any proportion; see
    `structure.other_failures`."""

    corner: float = Field(default=0.45, ge=0)
    end: float = Field(default=0.13, ge=0)
    step: float = Field(default=0.13, ge=0)
    bowl: float = Field(default=0.19, ge=0)
    bending: float = Field(default=0.1, ge=0)
    twice: Fraction = 0.15
    """Share of the failing buildings in which something else fails as well."""

    @property
    def shares(self) -> tuple[float, ...]:
        """In the order of `strain.MECHANISMS`."""
        return self.corner, self.end, self.step, self.bowl, self.bending

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        return [
            (
                not sum(self.shares),
                "all shares are 0; use damaged: 0 for a city in which nothing fails",
                "mechanisms.all_zero",
            )
        ]


class Simulate(Section):
    """Invented cities: `cities` are labelled for training; `showcase` is predicted at the
    end of a run."""

    cities: dict[CityName, City] = Field(min_length=1)
    borrowed: dict[CityName, Borrowed] = {}
    """Further cities for training, whose points and footprints are real. Those in `LENT`
    are added to them."""
    showcase: City
    years: float = Field(default=2.5, ge=0.5, le=10)
    """Length of the observation."""
    damaged: Fraction = 0.8
    """Share of buildings with a local failure; the others move as a whole, or over a tunnel,
    only."""
    mechanisms: Mechanisms = Mechanisms()

    def checks(self) -> Checks:
        """Return the rules between its keys."""
        twice = sorted(self.cities.keys() & self.borrowed.keys())
        return [
            (
                twice,
                f"cities and borrowed both name {', '.join(twice)}; give one another name",
                "cities.same_name",
            )
        ]
