"""Score predictions of a city by what has failed, and as a list to inspect where few buildings are damaged.

python -m benchmarks.heldout.mechanisms PREDICTIONS.csv LABELS.csv

Prints three tables in Markdown. The first has a row for each `mechanism` of the labels:

- `judged`: share with the status `ok`. The columns below are of these.
- `damaged`: number with a true severity of 0.5 permille or more. `accepted`: share of them with a quadrant that the
  labels accept (without a column `accepted`: their `quadrant`). `said`: their mean `quadrant_confidence`.
- `set`, `size`: share of the damaged with an accepted quadrant in `quadrants`, and how many are in there on average.
- `named`, `right`: share of the damaged with a `mechanism`, and share of these with the true one.
- `missed`: share of those with a true severity of 1.5 permille or more that has category 0.
- `coverage`, `error`: share of severities within their interval; mean absolute error, permille.

The second weights the judged buildings so that 2, 10 and 50 % are damaged, and adds the rate that the predictions are
made for:

- average precision (AP), and recall at a precision of 0.5, by each column to sort by.
- `false alarms`: share of the sound buildings with category 2 or above. `sound alarms`: share of the buildings with
  category 2 or above that is sound.
- calibration error (ECE) of `p_damaged`, if the predictions are made for that rate or do not say their rate.

The third counts what a user finds, without weights (`triage.Inspection`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.common import head, line, parse, parser, refusing
from benchmarks.heldout.scores import LOWEST_PERMILLE, cell
from benchmarks.heldout.triage import RATES, SCORES, Inspection, Triage, inspection, own_rate, triage
from plumbline.core.errors import InputError

ALL = "all"
HEAVY_PERMILLE = 1.5
"""Category 3, which nobody should miss."""
ALARMS = ("false alarms", "sound alarms", "ECE p_damaged")
"""Last columns of the second table."""
SAID = (
    "building_id",
    "status",
    "quadrant",
    "quadrant_confidence",
    "severity_permille",
    "severity_low",
    "severity_high",
    "burland_category",
)
TRUE = ("building_id", "severity_permille", "quadrant")


class Figures(NamedTuple):
    """Of one mechanism; NaN where there is no column, or no building, to take a figure of. See the module."""

    buildings: int
    judged: float
    damaged: int
    accepted: float
    said: float
    set: float
    size: float
    named: float
    right: float
    heavy: int
    missed: float
    coverage: float
    error: float


def read_beside(predictions: Path, labels: Path) -> pd.DataFrame:
    """Read predictions beside labels: all labelled buildings, and `true`, `true_accepted` and `true_mechanism`.

    Args:
        predictions: csv that `plumbline predict` wrote.
        labels: csv of a city.

    Raises:
        InputError: a file or a column is missing, or the two have no building in common.
    """
    said, true = _read(predictions, SAID), _read(labels, TRUE)
    accepted = true["accepted"] if "accepted" in true else true["quadrant"]
    known = pd.DataFrame(
        {
            "building_id": true["building_id"],
            "true": true["severity_permille"].astype(float),
            "true_accepted": accepted.fillna("").str.split("|"),
            "true_mechanism": true["mechanism"].fillna("") if "mechanism" in true else "",
        }
    )
    beside = known.merge(said, on="building_id", how="left")
    if beside["status"].isna().all():
        raise InputError(f"{predictions}: no building of {labels} in it. Give the labels of the same city.")
    return beside


def figures(beside: pd.DataFrame) -> Figures:
    """Take the figures of one table of `read_beside`."""
    judged = beside[beside["status"] == "ok"]
    damaged = judged[judged["true"] >= LOWEST_PERMILLE]
    heavy = judged[judged["true"] >= HEAVY_PERMILLE]
    sets, named = (damaged[name].dropna() if name in damaged else None for name in ("quadrants", "mechanism"))
    inside = (judged["severity_low"] <= judged["true"]) & (judged["true"] <= judged["severity_high"])
    hit = [quadrant in true for quadrant, true in zip(damaged["quadrant"], damaged["true_accepted"], strict=True)]
    held = size = share = right = float("nan")
    if sets is not None:
        chosen = sets.str.split("|")
        held = _mean(
            [bool({*some} & {*true}) for some, true in zip(chosen, damaged["true_accepted"][sets.index], strict=True)]
        )
        size = _mean(chosen.map(len))
    if named is not None:
        share = len(named) / len(damaged) if len(damaged) else float("nan")
        right = _mean(named == damaged["true_mechanism"][named.index])
    return Figures(
        len(beside),
        len(judged) / len(beside),
        len(damaged),
        _mean(hit),
        _mean(damaged["quadrant_confidence"].dropna()),
        held,
        size,
        share,
        right,
        len(heavy),
        _mean(heavy["burland_category"] == 0),
        _mean(inside),
        _mean((judged["severity_permille"] - judged["true"]).abs()),
    )


def by_mechanism(beside: pd.DataFrame) -> dict[str, Figures]:
    """Take the figures of all buildings, and of each mechanism that the labels name."""
    groups = {str(name): group for name, group in beside.groupby("true_mechanism") if name}
    return {ALL: figures(beside)} | {name: figures(group) for name, group in groups.items()}


def by_rate(beside: pd.DataFrame) -> list[Triage]:
    """Take the figures of the judged buildings at each rate, the predictions' own one included."""
    judged = beside[beside["status"] == "ok"]
    own = own_rate(judged)
    rates = RATES if own is None or np.isclose(RATES, own, rtol=0.01).any() else (*RATES, own)
    return [triage(judged, rate) for rate in rates]


def tables(mechanisms: dict[str, Figures], rates: list[Triage], found: Inspection) -> str:
    """Write the three tables in Markdown."""
    lines = [head("mechanism", *Figures._fields)]
    for name, one in mechanisms.items():
        lines.append(line(name, *(f"{value}" if isinstance(value, int) else cell(value) for value in one)))
    lines += ["", head("rate", *(f"{what} {name}" for what in ("AP", "recall") for name in SCORES), *ALARMS)]
    for rate in rates:
        values = *rate.average_precision.values(), *rate.recall.values(), *rate[3:]
        lines.append(line(f"{rate.rate:.3g}", *map(cell, values)))
    lines += ["", head(*(name.replace("_", " ") for name in Inspection._fields)), line(*found)]
    return "\n".join(lines)


def _read(path: Path, needed: Sequence[str]) -> pd.DataFrame:
    if not path.is_file():
        raise InputError(f"{path}: no such file.")
    # "none" and the like are words here; only an empty cell is none.
    table = pd.read_csv(path, dtype={"building_id": str}, keep_default_na=False, na_values=[""])
    if missing := [name for name in needed if name not in table]:
        raise InputError(f"{path}: missing: {', '.join(missing)}.")
    return table


def _mean(values: Any) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def _smoke(folder: Path) -> tuple[Path, Path]:
    """Make a small city, and judge it by the package of this repository."""
    from benchmarks.heldout.judge import predicted
    from benchmarks.makers.ninth.city import make_city
    from plumbline.sources.city.files import find_files

    make_city(folder / "city", "X", 40, 1)
    city = find_files(folder / "city")
    predicted(city, "pretrained").to_csv(folder / "predictions.csv", index=False)
    return folder / "predictions.csv", folder / "city" / "labels.csv"


def main(argv: Sequence[str] | None = None) -> None:
    """Score and print."""
    asked = parser("heldout.mechanisms", __doc__)
    asked.add_argument("predictions", type=Path, nargs="?", metavar="PREDICTIONS.csv")
    asked.add_argument("labels", type=Path, nargs="?", metavar="LABELS.csv")
    given = parse(asked, argv)
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and given.labels is None:
            given.predictions, given.labels = _smoke(Path(scratch))
        if given.predictions is None or given.labels is None:
            asked.error("the following arguments are required: PREDICTIONS.csv LABELS.csv")
        beside = read_beside(given.predictions, given.labels)
        mechanisms, rates = by_mechanism(beside), by_rate(beside)
    print(tables(mechanisms, rates, inspection(beside)))


if __name__ == "__main__":
    main()
