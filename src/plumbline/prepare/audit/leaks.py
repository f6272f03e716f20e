"""The same building, block or measurements in two splits: a model that is tested on what it has seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from plumbline.prepare.audit.accumulators import Hash, hash_names
from plumbline.prepare.audit.summary import Summary, parts_of

EXAMPLES = 1000
"""Most shared hashes that are looked up again by name."""


@dataclass(frozen=True)
class Leak:
    """What two splits share, or one split holds more than once (then both names are equal)."""

    splits: tuple[str, str]
    count: int
    example: str


def building_leaks(splits: Mapping[str, Any], summaries: Mapping[str, Summary]) -> list[Leak]:
    """Buildings (city and identifier) of two splits, or twice in one; looked up by name, so that no hash misleads."""
    hashes = {name: summary.names_hash for name, summary in summaries.items()}
    leaks = []
    for name, own in hashes.items():
        again = np.unique(own[1:][own[1:] == own[:-1]])
        named = _names(splits[name], again)
        repeated = sorted(key for key in set(named) if named.count(key) > 1)
        if repeated:
            leaks.append(Leak((name, name), len(again), _say(repeated[0])))
    for one, other in combinations(hashes, 2):
        shared = _shared(hashes[one], hashes[other])
        both = sorted(set(_names(splits[one], shared)) & set(_names(splits[other], shared)))
        if both:
            leaks.append(Leak((one, other), len(shared), _say(both[0])))
    return leaks


def twin_leaks(summaries: Mapping[str, Summary]) -> list[Leak]:
    """Buildings of different names whose geometry and fits are equal to the last bit: one building given twice."""
    hashes = {name: summary.geometry_hash for name, summary in summaries.items()}
    leaks = []
    for name, own in hashes.items():
        again = int((own[1:] == own[:-1]).sum())
        if again:
            leaks.append(Leak((name, name), again, ""))
    for one, other in combinations(hashes, 2):
        shared = len(_shared(hashes[one], hashes[other]))
        if shared:
            leaks.append(Leak((one, other), shared, ""))
    return leaks


def block_leaks(blocks: Mapping[str, Iterable[Any]]) -> list[Leak]:
    """Blocks that two splits share; `blocks`: split -> names of its blocks."""
    named = {split: {str(block) for block in found} for split, found in blocks.items()}
    leaks = []
    for one, other in combinations(named, 2):
        both = named[one] & named[other]
        if both:
            leaks.append(Leak((one, other), len(both), min(both)))
    return leaks


def _shared(one: Hash, other: Hash) -> Hash:
    """Hashes in both of two ascending arrays, each once."""
    many, few = (one, other) if len(one) >= len(other) else (other, one)
    if not len(few):
        return few
    at = np.minimum(np.searchsorted(many, few), len(many) - 1)
    return np.unique(few[many[at] == few])


def _names(sequences: Any, wanted: Hash) -> list[tuple[str, str]]:
    """City and identifier of the buildings with these hashes (the first `EXAMPLES` of them)."""
    if not len(wanted):
        return []
    few = wanted[:EXAMPLES]
    found = []
    for part in parts_of(sequences):
        city, ids = np.asarray(part.city, np.str_), np.asarray(part.building_id, np.str_)
        rows = np.flatnonzero(np.isin(hash_names(city, ids), few))
        found += [(str(city[row]), str(ids[row])) for row in rows]
    return found


def _say(key: tuple[str, str]) -> str:
    return f"{key[1]} of {key[0]}"
