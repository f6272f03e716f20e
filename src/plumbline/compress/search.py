"""Search the ratio of pruning by bisection: each try is fine-tuned briefly and judged on the tune split."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from plumbline.compress.degradation import Rightness, loss_against, rightness_of
from plumbline.compress.iterative_pruning import Pruning
from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params.compress import Target
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.monitor.memory import number_here

ROWS = "search.json"
LOOK_SECONDS = 0.5
Row = dict[str, Any]
Made = tuple[Diagnosis, list[Row] | None]
FINEST = 1e-3
"""Ratios nearer than this are one: the widest layers have fewer channels than its inverse."""
FIGURES = "try.json"


def search(pruning: Pruning, target: Target, tune: SequenceSet, work: Path) -> tuple[Diagnosis, list[Row]]:
    """Return the smallest network within the bounds of `target`, and a row for each try.

    That a larger ratio costs more is taken for granted, as bisection must. A try lies in `work` once it is done, and a
    later call takes it from there.

    Args:
        pruning: how a network is made.
        target: the bounds.
        tune: buildings to judge by.
        work: folder of the tries; of this search alone.

    Raises:
        InputError: no ratio up to `largest_ratio` makes the network as small as `max_parameters`.
    """
    if target.max_parameters is not None:
        return _by_size(pruning, target, target.max_parameters)
    teacher = rightness_of(pruning.teacher, tune)
    whole = count_parameters(pruning.teacher.network)["total"]
    rows = [_row(0.0, whole, teacher, teacher, target)]
    best, low, high = deepcopy(pruning.teacher), 0.0, target.largest_ratio
    for number in range(target.tries):
        ratio = (low + high) / 2
        model, row = _try(pruning, ratio, teacher, tune, target, work / f"{ratio:.6f}")
        rows.append(row)
        log.info(
            "search %d of %d: ratio %.3f, %d parameters, quadrants %+.4f (standard error %.4f), severity error %+.2f "
            "%% (%.2f): %s",
            number + 1,
            target.tries,
            ratio,
            row["parameters"],
            -row["drop"],
            row["drop_se"],
            100 * row["rise"],
            100 * row["rise_se"],
            "within the bound" if row["within"] else "beyond the bound",
        )
        if row["within"]:
            best, low = model, ratio
        else:
            high = ratio
    if not low:
        log.warning("compress.target: every network that was tried lost more than that; nothing is removed.")
    return best, [{**row, "chosen": row["ratio"] == low} for row in rows]


def _try(
    pruning: Pruning, ratio: float, teacher: Rightness, tune: SequenceSet, target: Target, folder: Path
) -> tuple[Diagnosis, Row]:
    """Make and judge one network, or load it from `folder`."""
    if (folder / FIGURES).exists():
        return load_diagnosis(folder), read_json(folder / FIGURES)
    model = pruning.shrunk(ratio)
    pruning.tune(model)
    row = _row(ratio, count_parameters(model.network)["total"], rightness_of(model, tune), teacher, target)
    with atomic_folder(folder) as temporary:
        save_diagnosis(model, temporary)
        write_json(temporary / FIGURES, row)
    return model, row


def _row(ratio: float, parameters: int, judged: Rightness, teacher: Rightness, target: Target) -> Row:
    loss = loss_against(judged, teacher)
    within = (target.max_drop is None or loss.drop <= target.max_drop) and (
        target.severity is None or loss.rise <= target.severity
    )
    return {
        "ratio": ratio,
        "parameters": parameters,
        "quadrant_accuracy": judged.quadrant_accuracy,
        "severity_mae": judged.severity_mae,
        **loss._asdict(),
        "within": within,
    }


def _by_size(pruning: Pruning, target: Target, most: int) -> tuple[Diagnosis, list[Row]]:
    """Return the network of the smallest ratio within the size; widths determine it, so that training is not needed."""

    def size(ratio: float) -> int:
        found = count_parameters(pruning.at_once(ratio).network)["total"]
        rows.append({"ratio": ratio, "parameters": found, "within": found <= most})
        return found

    rows: list[Row] = []
    low, high = 0.0, target.largest_ratio
    if size(low) <= most:
        high = low
    elif (least := size(high)) > most:
        raise InputError(
            f"compress.target.max_parameters: {most} found; {least} are left at largest_ratio {high:g}. Ask for more."
        )
    while high - low > FINEST:
        middle = (low + high) / 2
        low, high = (low, middle) if size(middle) <= most else (middle, high)
    # In steps the streams may share their channels otherwise than at once, and so come to another size.
    model = pruning.shrunk(high)
    while (left := count_parameters(model.network)["total"]) > most and high < target.largest_ratio:
        high = min(high + FINEST, target.largest_ratio)
        model = pruning.shrunk(high)
    if left > most:
        raise InputError(
            f"compress.target.max_parameters: {most} found; {left} are left at largest_ratio {high:g} after "
            "compress.pruning_steps. Ask for more, or for one step."
        )
    rows = [row for row in rows if row["ratio"] != high]
    rows.append({"ratio": high, "parameters": left, "within": True})
    return model, [{**row, "chosen": row["ratio"] == high} for row in rows]


def made_once(make: Callable[[], Made], folder: Path) -> Made:
    """Return what `make` makes: the first process of a machine makes it, the others load it from `folder`.

    A search takes hours, and each process would make the same networks on its share of the cores. Where the first one
    fails, whoever started the processes ends the others.
    """
    if not number_here() and not (folder / ROWS).exists():
        model, rows = make()
        with atomic_folder(folder) as temporary:
            save_diagnosis(model, temporary)
            write_json(temporary / ROWS, rows)
        return model, rows
    while not (folder / ROWS).exists():
        time.sleep(LOOK_SECONDS)
    return load_diagnosis(folder), read_json(folder / ROWS)
