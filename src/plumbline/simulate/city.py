"""Simulate one invented city, from its seed to its folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np

from plumbline.params import City, Simulate
from plumbline.simulate.radar.acquisition import BANDS, draw_acquisitions
from plumbline.simulate.radar.series import draw_reference
from plumbline.simulate.random_numbers import Entropy, city_entropy, general_generator
from plumbline.simulate.site import Site, part_count, place
from plumbline.simulate.structure.layout import draw_town
from plumbline.simulate.structure.truth_files import BETWEEN_FEATURES, FOOTPRINTS_BEGIN, FOOTPRINTS_END, LABELS_HEADER
from plumbline.simulate.structure.tunnels import draw_tunnels

FOOTPRINTS = "footprints.geojson"


def radius_jobs(name: str, city: City) -> Iterator[tuple[Entropy, int, int]]:
    """Return the arguments of `part_radius` for each part; the radii are needed before the first part is placed."""
    for number in range(part_count(city.buildings)):
        yield city_entropy(name, city), city.buildings, number


def draw_site(name: str, city: City, slot: int, radius: float, params: Simulate) -> Site:
    """Draw the site that the parts of a city share.

    Args:
        name: the city's name; building ids start with it, and it takes part in the seed.
        city: band, number of buildings and seed.
        slot: the city's number, which gives it a place and track numbers of its own.
        radius: of the largest district, m.
        params: section `simulate`: how long cities are observed, and what fails in them.
    """
    rng = general_generator(city_entropy(name, city))
    ascending, descending = draw_acquisitions(
        rng, BANDS[city.band], slot, city.years or params.years, city.revisit_days
    )
    start = np.datetime64("2018-01-01") + int(rng.integers(0, 4 * 365))
    east, north, up = rng.normal(0, (0.8, 0.8, 1.5)).tolist()
    town = draw_town(rng, city.buildings, radius)
    return Site(
        name=name,
        entropy=city_entropy(name, city),
        band=city.band,
        tracks=(ascending, descending),
        references=(draw_reference(rng), draw_reference(rng)),
        start=start,
        velocity=(east, north, up),
        town=town,
        tunnels=tuple(draw_tunnels(rng, town.extent)),
        place=place(slot),
        damaged=params.damaged,
        mechanisms=params.mechanisms,
    )


def part_files(folder: Path, site: Site, labels: str, number: int) -> list[Path]:
    """Return the files of part `number`: both products, footprints, labels."""
    return [folder / f".{number:06d}.{name}" for name in _file_names(site, labels)]


def _file_names(site: Site, labels: str) -> list[str]:
    return [site.product(0).file_name, site.product(1).file_name, FOOTPRINTS, labels]


class CityWriter:
    """Files of a city, to which the files of its parts are appended in order."""

    def __init__(self, folder: Path, site: Site, labels: str) -> None:
        """In the folder `folder`, which exists; `labels` names the file of labels."""
        self._folder, self._site, self._labels = folder, site, labels
        self._stack = ExitStack()
        self._streams: list[IO[bytes]] = []

    def __enter__(self) -> CityWriter:
        site = self._site
        begin = [site.product(0).header, site.product(1).header, FOOTPRINTS_BEGIN.encode(), LABELS_HEADER.encode()]
        for name, text in zip(_file_names(site, self._labels), begin, strict=True):
            stream = self._stack.enter_context((self._folder / name).open("wb"))
            stream.write(text)
            self._streams.append(stream)
        return self

    def append(self, number: int) -> None:
        """Take in the files of part `number`, and remove them."""
        files = part_files(self._folder, self._site, self._labels, number)
        for file, stream in zip(files, self._streams, strict=True):
            if stream is self._streams[2] and number:
                stream.write(BETWEEN_FEATURES.encode())
            with file.open("rb") as source:
                shutil.copyfileobj(source, stream, 2**20)
            file.unlink()

    def __exit__(self, *error: object) -> None:
        self._streams[2].write(FOOTPRINTS_END.encode())
        self._stack.close()
