"""Derive the alarms of a place from its published results, and write `alarms.csv`.

The file is made of all results in the order of their observations each time one is added.
So it is the same after a run that was killed, for deliveries that arrive in another order,
and after one that was judged again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import geopandas
import numpy as np
import pandas as pd

from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file, sha256_file, write_json
from plumbline.params import Params
from plumbline.params.serve import Alarm
from plumbline.serve.columns import DAMAGE_COLUMNS, has_answer
from plumbline.serve.predictions import read_predictions
from plumbline.serve.score.changes import same_ground
from plumbline.serve.score.results import (
    ALARMS,
    DERIVED,
    PREDICTIONS,
    DeliveryResult,
    read_record,
    results,
)
from plumbline.serve.score.rules import chosen_by, hash_area, read_area, warn_of_unmet

NEW, GOES_ON, ENDED = "new", "goes_on", "ended"
STATE_ORDER = (NEW, ENDED, GOES_ON)
"""States in the order in which `alarms.csv` lists the alarms of a delivery."""
COLUMNS = ("building_id", "rule", "state", "since", "ended", "column", "value", "limit", "delivery")


class Watch:
    """State of a rule at a place, from delivery to delivery."""

    def __init__(self, rule: Alarm) -> None:
        self.rule = rule
        self.row: dict[str, int] = {}
        """Building without an alarm -> deliveries in a row, up to now, that met the condition."""
        self.since: dict[str, str] = {}
        """Building with an alarm -> date of the delivery at which it began."""

    def apply(
        self, values: pd.Series, date: str, moved: Iterable[str] = ()
    ) -> Iterator[tuple[str, str, str]]:
        """Apply the rule to the next delivery; yield building, state and beginning of each
        of its alarms.

        Args:
            values: of the rule's column, by building; a building without a value keeps its
                alarm and row.
            date: of the delivery's last observation.
            moved: buildings whose name was that of another building before. Their alarm and
                row end, and no alarm begins with the same delivery.
        """
        ended = set()
        for name in moved:
            self.row.pop(name, None)
            if name in self.since:
                ended.add(name)
                yield name, ENDED, self.since.pop(name)
        for name, since in list(self.since.items()):
            if name in values.index and not self.rule.holds(values[name], self.rule.bound):
                yield name, ENDED, self.since.pop(name)
            else:
                yield name, GOES_ON, since
        matching = values.index[np.asarray(self.rule.holds(values, self.rule.limit), bool)]
        interrupted = [name for name in self.row if name in values.index and name not in matching]
        for name in interrupted:
            del self.row[name]
        for name in matching:
            if name in self.since:
                continue
            self.row[name] = self.row.get(name, 0) + 1
            if self.row[name] >= self.rule.in_a_row and name not in ended:
                del self.row[name]
                self.since[name] = date
                yield name, NEW, date


def update_alarms(params: Params, place: str) -> None:
    """Write `alarms.csv` of a place, unless it is of these rules and results already;
    remove it without rules.

    Raises:
        InputError: a result is damaged, or the disk refused.
    """
    out = params.score.out
    path, record = out / place / ALARMS, out / DERIVED / f"{place}.json"
    rules = [rule for rule in params.score.alarms if rule.place in (None, place)]
    delivery_results = results(out, place) if rules else []
    if not delivery_results:
        path.unlink(missing_ok=True)
        record.unlink(missing_ok=True)
        return
    derived: dict[str, Any] = {
        "format": 1,
        "rules": [
            {**rule.model_dump(mode="json"), "area": hash_area(rule, params)} for rule in rules
        ],
        "results": [
            [r.folder_name, r.observed["to"], r.made, r.files.get(PREDICTIONS)]
            for r in delivery_results
        ],
    }
    if path.is_file() and read_record(record) == {**derived, "sha256": sha256_file(path)}:
        return
    table = derive(rules, delivery_results, params)
    with atomic_file(path) as temporary:
        table.to_csv(temporary, index=False, float_format="%.6g")
    write_json(record, {**derived, "sha256": sha256_file(path)})


def derive(
    rules: list[Alarm], delivery_results: list[DeliveryResult], params: Params
) -> pd.DataFrame:
    """Apply rules to the results of a place, in order; return `COLUMNS`, the latest delivery first.

    Of several deliveries that were observed to the same day, a building's answer in the one
    judged last counts: they are one step, because they bring no later observation.
    """
    watches = [Watch(rule) for rule in rules]
    areas = {rule.name: read_area(rule, params) for rule in rules if rule.within is not None}
    ground, rules_with_buildings = geopandas.GeoSeries(), set[str]()
    rows: list[tuple[Any, ...]] = []
    for step, (date, group) in enumerate(groupby(delivery_results, key=lambda r: r.observed["to"])):
        same_day = list(group)
        table = _join_tables(
            [_read_result(params.score.out / r.place / r.folder_name) for r in same_day]
        )
        moved = _find_moved(ground, table.geometry)
        ground = _update_footprints(ground, table.geometry)
        for number, watch in enumerate(watches):
            rule = watch.rule
            chosen = chosen_by(rule, table, areas)
            rules_with_buildings |= {rule.name} if chosen.any() else set()
            column = table[rule.column].to_numpy(float, na_value=np.nan)
            if (
                rule.column in DAMAGE_COLUMNS
            ):  # a building without an answer is to be looked at, and raises no alarm
                chosen &= has_answer(table)
            values = pd.Series(column, table.index)[chosen].dropna()
            for name, state, since in watch.apply(values, date, moved):
                value = np.nan if state == ENDED and name in moved else values.get(name, np.nan)
                sort_key = (
                    -step,
                    STATE_ORDER.index(state),
                    number,
                    -value if rule.comparison[0] == ">" else value,
                )
                ended = date if state == ENDED else None
                rows.append(
                    (
                        name,
                        rule.name,
                        state,
                        since,
                        ended,
                        rule.column,
                        value,
                        rule.limit,
                        same_day[-1].folder_name,
                        *sort_key,
                    )
                )
    warn_of_unmet(rules, rules_with_buildings, ground.index)
    keys = ["_step", "_state", "_rule", "_beyond", "building_id"]
    return pd.DataFrame(rows, columns=[*COLUMNS, *keys[:-1]]).sort_values(keys)[list(COLUMNS)]


def _find_moved(before: geopandas.GeoSeries, after: geopandas.GeoSeries) -> pd.Index:
    """Return the buildings that do not overlap the footprint of the same name before."""
    if not len(before):
        return pd.Index([])
    overlaps = same_ground(before, after)
    return overlaps.index[~overlaps.to_numpy(bool)]


def _update_footprints(
    before: geopandas.GeoSeries, after: geopandas.GeoSeries
) -> geopandas.GeoSeries:
    """Return the latest footprint of every building up to now, in the CRS of the first delivery."""
    if not len(before):
        return after
    latest = after.to_crs(before.crs)
    return geopandas.GeoSeries(
        pd.concat([before[~before.index.isin(latest.index)], latest]), crs=before.crs
    )


def _read_result(folder: Path) -> geopandas.GeoDataFrame:
    try:
        return read_predictions(folder / PREDICTIONS)
    except InputError as error:
        advice = "Bring the file back, or move the folder away; its delivery is then judged again."
        raise InputError(f"{error} {advice}", key=error.key) from error


def _join_tables(tables: list[geopandas.GeoDataFrame]) -> geopandas.GeoDataFrame:
    """Join the tables of one day, by building; the last one's answer counts."""
    joined = (
        pd.concat([table.to_crs(tables[-1].crs) for table in tables])
        if len(tables) > 1
        else tables[0]
    )
    return joined.drop_duplicates("building_id", keep="last").set_index("building_id")


class Alarms(NamedTuple):
    """Alarms of a place, as they were derived last."""

    rules: list[Alarm]
    delivery: str
    """Folder of the latest result."""
    observed_to: str
    table: pd.DataFrame
    """`COLUMNS`."""

    def now(self, rule: Alarm) -> pd.DataFrame:
        """Return the rows of the alarms of a rule that the latest delivery has."""
        table = self.table
        return table[
            (table["rule"] == rule.name)
            & (table["delivery"] == self.delivery)
            & (table["state"] != ENDED)
        ]

    def last(self, rule: Alarm) -> pd.DataFrame:
        """Return the latest row of every building that has ever had an alarm of a rule."""
        return self.table[self.table["rule"] == rule.name].drop_duplicates("building_id")


def read_alarms(out: Path, place: str) -> Alarms | None:
    """Read the alarms of a place; None if it has none, or a killed run has left them to the
    next."""
    path, derived = out / place / ALARMS, read_record(out / DERIVED / f"{place}.json")
    if derived is None or not path.is_file() or sha256_file(path) != derived["sha256"]:
        return None
    rules = [
        Alarm(**{key: value for key, value in rule.items() if key != "area"})
        for rule in derived["rules"]
    ]
    texts = dict.fromkeys(
        ("building_id", "rule", "state", "since", "ended", "column", "delivery"), str
    )
    # A building may be called NA.
    table = pd.read_csv(path, dtype=texts, keep_default_na=False, na_values=[""])
    latest_folder, observed_to = derived["results"][-1][:2]
    return Alarms(rules, latest_folder, observed_to, table)
