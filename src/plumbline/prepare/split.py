"""Split by whole blocks and folds, with one ground in one split."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
import pyproj
from numpy.typing import NDArray
from scipy.cluster.hierarchy import DisjointSet

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.params import Prepare
from plumbline.sources.footprints.area import one_crs


class Blocks(NamedTuple):
    """K blocks with B buildings."""

    number: NDArray[np.intp]
    """(B,) block of each building; numbered by city, within it by the text `x/y` of the
    block's place."""
    city: NDArray[np.intp]
    """(K,) number of each block's city, ascending."""
    size: NDArray[np.intp]
    """(K,) buildings in each block."""


def number_blocks(centre: NDArray[np.float64], city: NDArray[np.str_], block_m: float) -> Blocks:
    """Find the block of each building: the square of its city's grid that contains its centre.

    A block contains its western and southern edge. Cities are separate, whatever their coordinates:
    two of one name are one city, and two of different names share no block.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        block_m: side of a block, m.
    """
    cells = pandas.DataFrame(
        np.floor(centre / block_m).astype(np.int64), columns=["x", "y"]
    ).assign(city=city)
    groups = cells.groupby(["city", "x", "y"])
    blocks = groups.size().rename("size").reset_index()
    # The order decides the shuffle, and so the split: that of the text, as it was from the
    # first data set on.
    blocks["place"] = blocks["x"].astype(str) + "/" + blocks["y"].astype(str)
    blocks = blocks.sort_values(["city", "place"])
    rank = np.empty(len(blocks), np.intp)
    rank[blocks.index] = np.arange(len(blocks))
    of_city = np.unique(blocks["city"].to_numpy(), return_inverse=True)[1]
    return Blocks(
        rank[groups.ngroup().to_numpy()],
        np.asarray(of_city, np.intp),
        blocks["size"].to_numpy(np.intp),
    )


def fold_blocks(
    centre: NDArray[np.float64], city: NDArray[np.str_], folds: int, block_m: float, seed: int
) -> NDArray[np.int64]:
    """Return the fold (B,) of each building, 0 to `folds` - 1; blocks are kept whole.

    City after city, the blocks are dealt from the largest down (chance decides between
    equals), each to the fold with the fewest buildings so far. No two folds differ by more
    than the buildings of the largest block (Graham 1969).

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        folds: how many.
        block_m: side of a block, m.
        seed: of the order of equals.

    Raises:
        InputError: there are fewer blocks than folds.
    """
    blocks = number_blocks(centre, city, block_m)
    if len(blocks.size) < folds:
        raise InputError(
            f"prepare.folds: {folds} found, but the buildings are in {len(blocks.size)} blocks of "
            f"{block_m:g} m. Ask for fewer folds, or give smaller blocks (prepare.block_m) or "
            "more buildings.",
            key="folds.too_many",
        )
    chance = np.random.default_rng(seed).permutation(len(blocks.size))
    counts = [0] * folds
    fold = np.empty(len(blocks.size), dtype=np.int64)
    for number in np.lexsort((chance, -blocks.size, blocks.city)):
        fold[number] = counts.index(min(counts))
        counts[fold[number]] += int(blocks.size[number])
    return fold[blocks.number]


TEST = "test"


def split(centre: NDArray[np.float64], city: NDArray[np.str_], params: Prepare) -> NDArray[np.str_]:
    """Return the name of the split of each building, as set in section `prepare`.

    With `params.folds`, fold number `params.fold` is the test split and the other splits
    share the rest: the test splits of all folds contain every building once.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        params: `split`, `block_m`, `seed`, `folds` and `fold` of it count.

    Raises:
        InputError: there are too few blocks for the splits or the folds.
    """
    if not params.folds:
        return split_blocks(centre, city, params.split, params.block_m, params.seed)
    test = fold_blocks(centre, city, params.folds, params.block_m, params.seed) == params.fold
    shares = {name: share for name, share in params.split.items() if name != TEST}
    result = np.full(len(city), TEST, dtype=f"<U{max(map(len, params.split))}")
    result[~test] = split_blocks(centre[~test], city[~test], shares, params.block_m, params.seed)
    return result


def split_blocks(
    centre: NDArray[np.float64],
    city: NDArray[np.str_],
    shares: Mapping[Any, float],
    block_m: float,
    seed: int,
) -> NDArray[np.str_]:
    """Return the name of the split of each building.

    Each city's square blocks are shuffled and dealt, one at a time, to the split that is
    furthest below its share of buildings; so the splits have their shares of all buildings,
    and most cities are in each.

    Args:
        centre: (B, 2) easting and northing, m.
        city: (B,) name.
        shares: split -> share, any scale.
        block_m: side of a block, m.
        seed: of the shuffle.

    Raises:
        InputError: there are too few blocks: a split got none.
    """
    blocks = number_blocks(centre, city, block_m)
    names = list(shares)
    wanted = np.array([shares[name] for name in names]) / sum(shares.values())
    generator = np.random.default_rng(seed)
    assigned = np.zeros(len(names))
    choice = np.empty(len(blocks.size), dtype=np.intp)
    for of_city in np.split(np.arange(len(blocks.size)), np.flatnonzero(np.diff(blocks.city)) + 1):
        for number in generator.permutation(of_city):
            count = blocks.size[number]
            choice[number] = np.argmin((assigned + count / 2) / wanted)
            assigned[choice[number]] += count
    empty = [name for name, count in zip(names, assigned, strict=True) if not count]
    if empty:
        raise InputError(
            f"prepare.block_m: {len(blocks.size)} blocks of {block_m:g} m found, none is left for "
            f"the split {empty[0]}. Give smaller blocks or more buildings.",
            key="split.empty",
        )
    return np.array(names, dtype=str)[choice[blocks.number]]


Centres = NDArray[np.float64]
TOUCHING_M = 500.0
"""Largest distance between cities that are one place, m: the widest of usual blocks."""


def one_ground(
    centre: Mapping[str, Centres], crs: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Centres]]:
    """Name the place of each city, and return its buildings' centres in the CRS of the place.

    Copies of a borrowed city, a city that was borrowed from and its original, and one city
    delivered twice share buildings, or at least noise. What counts is whether the boxes
    around their centres meet, directly or by way of other cities.

    Args:
        centre: city -> (B, 2) easting and northing, m, on the ground (`sources.ground`).
        crs: city -> projected CRS of these.

    Returns:
        City -> name of its place, which is that of its first city; city -> (B, 2) centres
        in the CRS of that city.
    """
    occupied = [city for city, centres in centre.items() if len(centres)]
    boxes = {
        (city, target): _box(_project(centre[city], crs[city], target))
        for city in occupied
        for target in {crs[name] for name in occupied}
    }
    joined = DisjointSet(occupied)
    for first, second in combinations(occupied, 2):
        if _meet(boxes[first, crs[first]], boxes[second, crs[first]]):
            joined.merge(first, second)
    place = {city: city for city in centre}
    for group in joined.subsets():
        place_name = next(city for city in occupied if city in group)
        place |= dict.fromkeys(group, place_name)
    for city in occupied:
        if place[city] != city:
            log.info("%s is at the place of %s: both are split as one", city, place[city])
    return place, {**centre} | {
        city: _project(centre[city], crs[city], crs[place[city]]) for city in occupied
    }


def ground_crs(tiles: Iterable[tuple[str, Path]]) -> dict[str, str]:
    """Return the ground CRS of each city from its tiles' files; `tiles`: city and file of
    each tile.

    Raises:
        InputError: the tiles of a city name different ones.
    """
    named: dict[str, set[str]] = {}
    for city, path in tiles:
        named.setdefault(city, set()).add(read_json(path)["crs"])
    return {city: one_crs(sorted(names), f"footprints of {city}") for city, names in named.items()}


def _project(centre: Centres, source: str, target: str) -> Centres:
    if source == target:
        return centre
    to = pyproj.Transformer.from_crs(source, target, always_xy=True)
    return np.stack(to.transform(centre[:, 0], centre[:, 1]), axis=1)


def _box(centre: Centres) -> NDArray[np.float64]:
    """Return west, south, east, north; infinite or NaN if the CRS cannot show the place,
    which then meets nothing."""
    return np.concatenate([centre.min(axis=0), centre.max(axis=0)])


def _meet(first: NDArray[np.float64], second: NDArray[np.float64]) -> bool:
    return bool(
        (first[:2] <= second[2:] + TOUCHING_M).all()
        and (second[:2] <= first[2:] + TOUCHING_M).all()
    )
