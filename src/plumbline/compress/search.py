"""Find how much to prune: in steps, by search, by a scan of groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from plumbline.compress.prune import Slopes, channel_groups, prune, shallower, slopes, step_shares
from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Compress, Train
from plumbline.params.compress import Target
from plumbline.prepare.features.shards import SequenceSet
from plumbline.reporting.charts import Line, line_chart
from plumbline.train.data.batches import loader
from plumbline.train.fit.initial_weights import freeze
from plumbline.train.fit.short_run import quick_fit
from plumbline.train.monitor.record import number_here


@dataclass(frozen=True)
class Pruning:
    """Recipe for networks pruned from one `teacher`, all with the same buildings and random numbers."""

    teacher: Diagnosis
    train: SequenceSet
    section: Compress
    losses: Train
    start: Diagnosis
    """The teacher, or what is left of it without the blocks that go; channels are taken from this."""
    slopes: Slopes
    """Of `start`."""

    @classmethod
    def of(cls, teacher: Diagnosis, train: SequenceSet, section: Compress, losses: Train) -> Pruning:
        """Create the recipe with its start and the slopes there, which every ratio shares.

        Raises:
            InputError: `freeze` names what is not there, or everything.
        """
        look = (train, losses, section.importance_batches, losses.seed)
        start = teacher if section.blocks is None else shallower(teacher, section.blocks, *look)
        freeze(deepcopy(start), section.freeze, "compress", tell=False)  # refused before hours, not after
        return cls(teacher, train, section, losses, start, slopes(start, *look))

    def at_once(self, ratio: float) -> Diagnosis:
        """Return the start without `ratio` of its channels, without training."""
        return self._pruned(self.start, 1.0, ratio, self.slopes)

    def shrunk(self, ratio: float) -> Diagnosis:
        """Return the start without `ratio` of its channels, pruned in steps, fine-tuned between them."""
        section = self.section
        model, found = self.start, self.slopes
        for step in range(section.pruning_steps):
            if step:
                self.tune(model)
                # What is left counts otherwise than before: the slopes are taken anew.
                found = slopes(model, self.train, self.losses, section.importance_batches, self.losses.seed)
            model = self._pruned(model, (step + 1) / section.pruning_steps, ratio, found)
        return model

    def _pruned(self, model: Diagnosis, part: float, ratio: float, slopes: Slopes) -> Diagnosis:
        section = self.section
        parts = step_shares(self.start, model, part, ratio, section)
        # Before the last step nothing is rounded, but a stream with a channel or two could give no more of them away.
        multiple = section.multiple if part == 1 else 1
        return prune(model, 0.0, slopes, section.importance, parts, section.heads, multiple, section.multiple)

    def tune(self, model: Diagnosis) -> None:
        """Fine-tune briefly, towards the labels and the teacher's answers."""
        short = self.section.short
        freeze(model, self.section.freeze, "compress", tell=False)
        index = np.random.default_rng(self.losses.seed).permutation(len(self.train))[: short.buildings]
        quick_fit(
            model,
            self.train.take(np.sort(index)),
            self.section.short_run(self.losses),
            teacher=self.teacher,
            distil_weight=self.section.distil_weight,
            section="compress.short",
        )


BATCH = 512


class Rightness(NamedTuple):
    """Correctness of a network's answers to B buildings."""

    right: NDArray[np.float64]
    """(D,) 1 where the quadrant is right, of the buildings that have one."""
    error: NDArray[np.float64]
    """(B,) absolute error of the severity, permille."""

    @property
    def quadrant_accuracy(self) -> float:
        """Return the share of right quadrants; 0 where no building has one."""
        return float(self.right.mean()) if len(self.right) else 0.0

    @property
    def severity_mae(self) -> float:
        """Return the mean absolute error of severity, permille."""
        return float(self.error.mean())


class Loss(NamedTuple):
    """Loss in accuracy of one network against another on the same buildings, with paired standard errors."""

    drop: float
    """Share of right quadrants."""
    drop_se: float
    rise: float
    """Of the mean error of severities, relative."""
    rise_se: float


def rightness_of(model: Diagnosis, sequences: SequenceSet) -> Rightness:
    """Let `model`, in evaluation mode, answer all of `sequences`, in an order that depends on their lengths alone."""
    right, error = [], []
    with torch.inference_mode():
        for batch in loader(sequences, BATCH):
            answer = model(batch.distance_BLF, batch.slope_BLF, batch.geometry_BF, batch.mask_BL)
            defined = batch.quadrant_B >= 0
            said_B1 = answer.quadrant_probability.argmax(1, keepdim=True)
            right.append(batch.accepted_B4.gather(1, said_B1)[defined, 0])
            error.append((answer.severity_permille - batch.severity_B).abs())
    return Rightness(torch.cat(right).double().numpy(), torch.cat(error).double().numpy())


def loss_against(small: Rightness, large: Rightness) -> Loss:
    """Return how much worse `small` is than `large`, on the same buildings."""
    drop, rise = large.right - small.right, (small.error - large.error) / max(large.severity_mae, 1e-12)
    return Loss(_mean(drop), _standard_error(drop), _mean(rise), _standard_error(rise))


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 0.0


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


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


RATIOS = (0.25, 0.5, 0.75)


def scan(pruning: Pruning, tune: SequenceSet, buildings: int) -> list[Row]:
    """Return rows of `group, ratio, parameters, quadrant_accuracy, severity_mae`; the first of a group has ratio 0.

    Args:
        pruning: of the network to look at.
        tune: buildings to judge by; `buildings` of them, drawn at random.
        buildings: see `tune`.
    """
    index = np.random.default_rng(pruning.losses.seed).permutation(len(tune))[:buildings]
    few = tune.take(np.sort(index))
    whole = {
        "parameters": count_parameters(pruning.start.network)["total"],
        **_figures(rightness_of(pruning.start, few)),
    }
    groups = channel_groups(pruning.start)
    rows: list[Row] = []
    for group in track(groups, len(groups), "sensitivity"):
        rows.append({"group": group, "ratio": 0.0, **whole})
        for ratio in RATIOS:
            model = prune(pruning.start, 0.0, pruning.slopes, pruning.section.importance, {group: ratio})
            parameters = count_parameters(model.network)["total"]
            rows.append(
                {"group": group, "ratio": ratio, "parameters": parameters, **_figures(rightness_of(model, few))}
            )
    return rows


def drawn(rows: list[Row]) -> str:
    """Draw the scan as an SVG document: severity error by ratio, one line per group."""
    groups = dict.fromkeys(row["group"] for row in rows)
    lines = [
        Line(group, [(row["ratio"], row["severity_mae"]) for row in rows if row["group"] == group]) for group in groups
    ]
    errors = [row["severity_mae"] for row in rows]
    # The key stands in the lower left corner: room for it is made under the lines.
    spread = max(max(errors) - min(errors), 1e-3)
    return line_chart(
        "What pruning one group of channels alone costs",
        "share of its channels removed",
        "severity error, permille, without fine-tuning",
        lines,
        x_range=(0.0, max(RATIOS)),
        y_range=(min(errors) - 1.2 * spread, max(errors) + 0.05 * spread),
    )


def _figures(judged: Any) -> Row:
    return {"quadrant_accuracy": judged.quadrant_accuracy, "severity_mae": judged.severity_mae}
