"""Measure drift, and record the challenger's answers.

Distances, not p values: with thousands of scatterers every difference is significant, and
with twenty buildings none is. A distance counts where it is large even after the largest
distance by chance is subtracted. With few buildings there is no verdict.

- Inputs: each watched column (`audit.conditions`) against each training city. A delivery is
  one place under one satellite, the training data are several, so it is the nearest city
  that counts: a column has drifted when it is far from all of them. Distance:
  Kolmogorov-Smirnov, the largest difference of the two cumulative distributions (0 to 1).
  What chance makes of it with probability a at most, in n and m buildings: `sqrt(ln(e / a)
  / 2 (1 / n + 1 / m))`, the inequality of Dvoretzky, Kiefer and Wolfowitz for two samples
  (Wei and Dudley 2012, Statistics and Probability Letters 82: 636-644; its constant is 2 in
  large samples, and e is safe in small ones). Scatterers of one building move together, so
  that buildings are the cases. The population stability index and its source:
  `audit.drift`.
- Shares: buildings unlike any in training, and the rise of abstentions. Lower ends of
  Wilson's (1927) intervals count.
- Outputs: categories and statuses against the delivery before. Never against training,
  where four of five buildings are damaged on purpose. A shift of these may be damage, and
  is for a person to look at: no cause to train anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from plumbline.core.console import log, warn
from plumbline.core.files import atomic_folder, write_json
from plumbline.params.serve import Drift, Score
from plumbline.prepare.audit.distributions import ColumnValues, shift, stability_index
from plumbline.serve.judgement import CityPredictions
from plumbline.serve.predictions import write_predictions
from plumbline.serve.score.changes import compare_predictions
from plumbline.serve.score.results import PREDICTIONS, SHADOW, DeliveryResult, now
from plumbline.serve.score.tiles import (
    DeliveryReading,
    counts_of,
    cut_tiles,
    judge_delivery,
    judge_tiles,
)
from plumbline.sources.city.causes import CausesFile

ABSTAINED = ("insufficient_points", "out_of_distribution")
NOVEL = "out_of_distribution"
Counts = Mapping[str, int]


def drift_of(
    delivered: ColumnValues,
    reference: Mapping[str, ColumnValues] | None,
    counts: Mapping[str, Counts],
    before: DeliveryResult | None,
    params: Drift,
) -> dict[str, Any]:
    """Return the content of `drift.json`.

    Args:
        delivered: the delivery's watched columns, of the buildings that could be prepared.
        reference: training city -> the same columns; None where the package has none.
        counts: `statuses` and `categories` of the delivery's answers, as in its manifest.
        before: the delivery that it is compared with.
        params: section `score.drift`.

    Returns:
        `verdict`: `drift` (inputs: train anew), `look` (outputs only), `none`, `too_few` or
        `no_reference`; `reasons` as sentences; and the figures.
    """
    statuses, categories = counts["statuses"], counts["categories"]
    shares, causes = _check_novelty(statuses, delivered.buildings, params)
    outputs, output_reasons = _compare_outputs(statuses, categories, before, params)
    content: dict[str, Any] = {
        "format": 1,
        "buildings": delivered.buildings,
        "shares": shares,
        "outputs": outputs,
    }
    features: dict[str, Any] = {}
    if delivered.buildings < params.min_buildings:
        verdict = "too_few"
        causes = [
            f"{delivered.buildings} buildings, {params.min_buildings} are needed to tell "
            "(score.drift.min_buildings)"
        ]
        output_reasons = []
    elif reference is None:
        verdict = "drift" if causes else "look" if output_reasons else "no_reference"
        causes.append(
            "the package says nothing of its training data (an older one): inputs were not compared"
        )
    else:
        features = {
            name: _compare_column(name, delivered, reference, params) for name in delivered.values
        }
        causes += [
            _format_drift(name, comparison)
            for name, comparison in features.items()
            if comparison["drifted"]
        ]
        verdict = "drift" if causes else "look" if output_reasons else "none"
    return {
        "verdict": verdict,
        "reasons": [*causes, *output_reasons],
        **content,
        "features": features,
    }


def _compare_column(
    name: str, delivered: ColumnValues, reference: Mapping[str, ColumnValues], params: Drift
) -> dict[str, Any]:
    """Compare one column with its nearest training city."""
    values, n_columns = delivered.values[name], len(delivered.values)
    cities = {
        city: columns for city, columns in reference.items() if len(columns.values.get(name, ()))
    }
    if not len(values) or not cities:
        return {"drifted": False, "missing": True}
    shifts = {
        city: shift(columns.values[name], values, columns.buildings, delivered.buildings, n_columns)
        for city, columns in cities.items()
    }
    nearest = min(shifts, key=lambda city: shifts[city].ks)
    ks, psi, psi_chance = shifts[nearest].ks, shifts[nearest].psi, shifts[nearest].psi_chance
    # Bonferroni: the confidence holds for all columns together.
    chance = by_chance(
        cities[nearest].buildings, delivered.buildings, (1 - params.confidence) / n_columns
    )
    return {
        "drifted": bool(
            ks - chance > params.max_distance and psi > max(params.max_psi, psi_chance)
        ),
        "nearest": nearest,
        "distance": ks,
        "distance_by_chance": chance,
        "psi": psi,
        "psi_by_chance": psi_chance,
        "wasserstein_sd": shifts[nearest].wasserstein_sd,
    }


def by_chance(n: int, m: int, probability: float) -> float:
    """Return the Kolmogorov-Smirnov distance that samples of n and m cases exceed with this
    probability by chance."""
    return math.sqrt(math.log(math.e / probability) / 2 * (1 / n + 1 / m))


def _format_drift(name: str, comparison: Mapping[str, Any]) -> str:
    distance, chance, nearest = (
        comparison[key] for key in ("distance", "distance_by_chance", "nearest")
    )
    return (
        f"{name}: {distance:.2f} from the nearest training city ({nearest}), by chance at most "
        f"{chance:.2f}; population stability index {comparison['psi']:.2g}"
    )


def _check_novelty(
    statuses: Counts, buildings: int, params: Drift
) -> tuple[dict[str, float], list[str]]:
    """Return the share of prepared buildings that are unlike the training data, and causes
    for a drift."""
    novel = int(statuses.get(NOVEL, 0))
    low = least_share(novel, buildings, params.confidence)
    share = novel / buildings if buildings else 0.0
    reasons = []
    if low > params.max_novel_share:
        reasons.append(
            f"{share:.0%} of {buildings} buildings are unlike any in training, surely more than "
            f"{low:.0%} (score.drift.max_novel_share {params.max_novel_share:g})"
        )
    return {"novel": share, "novel_at_least": low}, reasons


def least_share(count: int, total: int, confidence: float) -> float:
    """Return the one-sided lower bound of a share (Wilson 1927); 0 if the total is 0."""
    if not total:
        return 0.0
    interval = stats.binomtest(count, total, alternative="greater").proportion_ci(
        confidence, method="wilson"
    )
    return float(interval.low)


def _compare_outputs(
    statuses: Counts, categories: Counts, before: DeliveryResult | None, params: Drift
) -> tuple[dict[str, Any], list[str]]:
    if before is None:
        return {}, []
    figures: dict[str, Any] = {}
    reasons = []
    abstained, total = sum(statuses.get(name, 0) for name in ABSTAINED), sum(statuses.values())
    abstained_before = sum(before.statuses.get(name, 0) for name in ABSTAINED) / max(
        sum(before.statuses.values()), 1
    )
    low = least_share(abstained, total, params.confidence)
    figures |= {"abstained": abstained / max(total, 1), "abstained_before": abstained_before}
    if low - abstained_before > params.max_abstained_rise:
        reasons.append(
            f"{abstained / total:.0%} of the buildings are not judged, {abstained_before:.0%} "
            f"were in {before.folder_name}"
        )
    counts_now, counts_before = (
        [int(part.get(str(number), 0)) for number in range(5)]
        for part in (categories, before.categories)
    )
    if min(sum(counts_now), sum(counts_before)) >= params.min_buildings:
        psi, chance = _output_stability(counts_before, counts_now, params.confidence)
        figures |= {"categories_psi": psi, "categories_psi_by_chance": chance}
        if psi > max(params.max_output_psi, chance):
            reasons.append(
                f"categories {counts_now}, {counts_before} in {before.folder_name}: population "
                f"stability index {psi:.2g}"
            )
    return figures, reasons


def _output_stability(
    counts_before: Sequence[int], counts_now: Sequence[int], confidence: float
) -> tuple[float, float]:
    """Return the population stability index of two counts of categories, and its bound by
    chance; see `audit.drift`."""
    expected, actual = (
        (np.array(counts) + 0.5) / (sum(counts) + 0.5 * len(counts))
        for counts in (counts_before, counts_now)
    )
    chance = (1 / sum(counts_before) + 1 / sum(counts_now)) * float(
        stats.chi2.isf(1 - confidence, len(counts_now) - 1)
    )
    return stability_index(expected, actual), chance


RECORD, DIFFERENCES = "shadow.json", "differences.csv"


def shadow(
    reading: DeliveryReading,
    champion: CityPredictions,
    challenger: Path,
    *,
    workers: int | None,
    params: Score,
    causes: CausesFile | None = None,
) -> None:
    """Write `OUT/_shadow/PLACE/RESULT/VERSION/`: predictions, buildings with another
    answer, and counts.

    Before the champion's result is published, so that a killed run does it again; whatever
    goes wrong with the challenger is logged, and stops nothing. Shares of damaged buildings
    are found as for the champion, from the challenger's own answers.

    Args:
        reading: the delivery. champion: its predictions. challenger: its package. workers:
            see `score`.
        params: section `score`. causes: of damage at the place.
    """
    delivery = reading.delivery
    try:
        tiles = cut_tiles(reading, challenger)
        folder = params.out / SHADOW / delivery.place / delivery.result / tiles[0].version
        if folder.exists():
            return
        judge_tiles(tiles, workers)
        log.info(
            "%s/%s: the challenger %s judges too", delivery.place, delivery.result, tiles[0].version
        )
        challenger_table = judge_delivery(reading, tiles, params, causes).table
        differences = compare_predictions(champion.table, challenger_table)
        with atomic_folder(folder) as temporary:
            write_predictions(challenger_table, temporary / PREDICTIONS)
            # "before" are the champion's answers, "after" the challenger's.
            columns = {
                name: name.replace("_before", "_champion").replace("_after", "_challenger")
                for name in differences.table
            }
            differences.table.rename(columns=columns).to_csv(temporary / DIFFERENCES, index=False)
            record = {
                "format": 1,
                "place": delivery.place,
                "delivery": delivery.name,
                "id": delivery.id,
                "champion": champion.table["model_version"].iloc[0],
                "challenger": tiles[0].version,
                "differences": differences.counts,
                "answers": {
                    "champion": counts_of(champion.table),
                    "challenger": counts_of(challenger_table),
                },
                "made": now(),
            }
            write_json(temporary / RECORD, record)
        log.info(
            "%s/%s: challenger %s judges %d buildings otherwise",
            delivery.place,
            delivery.result,
            tiles[0].version,
            differences.counts["changed"],
        )
    except Exception as error:
        warn(
            "%s/%s: no answers of the challenger (%s)",
            *(delivery.place, delivery.result, error),
            key="challenger.failed",
        )
