"""Measure every artifact of a package under every runtime of this machine: size, speed, parity and accuracy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.export.answers import Answers
from plumbline.export.package import MODELS, Manifest
from plumbline.export.runtime import OnnxModel
from plumbline.export.weights import network_files
from plumbline.validate.bench.inputs import BenchInputs
from plumbline.validate.bench.runtimes import Eager, runtimes, thread_counts
from plumbline.validate.measure import (
    Inputs,
    difference_figures,
    drawn_batches,
    middle_building,
    run_seconds,
    size_figures,
)
from plumbline.validate.metrics import Figures, Judged, accuracy_figures

if TYPE_CHECKING:
    from plumbline.model.diagnosis import Diagnosis

BATCHES = (1, 16, 64, 256)
ROUNDS = 3
"""Rounds in which every contender has a turn, so that a change of the machine's speed meets all of them."""
TURN_RUNS, TURN_SECONDS = 200, 0.5
"""Most runs of a turn, and the time after which it is over."""
FLOAT32 = next(iter(MODELS))
"""File of a package that holds the network as it was trained, but for rounding."""
LATENCY = 0
"""Key of the turns that measure latency, beside those of the batches."""
MIXED = 16
"""Buildings of different lengths that throughput is taken over, at least."""
ACCURACY = ("quadrant_accuracy", "severity_mae")


@dataclass
class Row:
    """One artifact under one runtime."""

    artifact: str
    """File of the package."""
    runtime: str
    figures: Figures = field(default_factory=dict)
    """`size_bytes, weight_bytes, latency_p50_ms, latency_p99_ms, parity_probability, parity_severity_permille`, and
    those of `ACCURACY` where there are labels."""
    buildings_per_second: dict[int, float] = field(default_factory=dict)
    """By batch."""
    trouble: str = ""
    """Why it could not run; then there is no figure."""

    def as_json(self) -> dict[str, Any]:
        """Return the row without NaN and infinity, which JSON does not have."""
        content = asdict(self)
        content["figures"] = {key: value for key, value in self.figures.items() if np.isfinite(value)}
        content["buildings_per_second"] = {str(batch): value for batch, value in self.buildings_per_second.items()}
        return content


def artifacts(manifest: Manifest) -> list[str]:
    """List the ONNX files of a package, its default model first."""
    return sorted((n for n in manifest.files if n.endswith(".onnx")), key=lambda n: (n != manifest.default_model, n))


def bench(
    package: Path,
    manifest: Manifest,
    reference: Diagnosis | None,
    inputs: BenchInputs,
    batches: Sequence[int] = BATCHES,
    rounds: int = ROUNDS,
) -> list[Row]:
    """Measure every artifact under every runtime.

    Latency is that of one building of median length; throughput that of batches drawn by a fixed seed, each padded to
    its longest building.

    Args:
        package, manifest: a verified package. reference: its network in torch, see `load_network`; without it torch
            is not measured, and the others are compared with the model in float32.
        inputs: what to run on. batches: sizes at which throughput is measured. rounds: see `ROUNDS`.

    Returns:
        The reference first, then by artifact and runtime.

    Raises:
        InputError: a building has more scatterers than the models take, or the network itself does not run.
    """
    longest, most = int(np.asarray(inputs.sequences.length).max()), manifest.prepare.max_points
    if longest > most:
        raise InputError(
            f"{inputs.source}: a building with {longest} scatterers, and the package takes {most} "
            "(prepare.max_points). Prepare them as its manifest says."
        )
    with _threads_kept(reference):
        sets = {LATENCY: [middle_building(inputs.sequences)]}
        rows, contenders = _open(package, manifest, reference, sets[LATENCY][0])
        if rows[0].trouble:
            raise InputError(
                f"{package / rows[0].artifact}: {rows[0].trouble} Without it there is nothing to compare with."
            )
        running = [row for row in rows if not row.trouble]
        sets |= {batch: drawn_batches(inputs.sequences, batch, MIXED) for batch in batches}
        plan = [(batch, number) for batch in sets for _ in range(rounds) for number in range(len(running))]
        times: dict[tuple[int, int], list[NDArray[np.floating]]] = {}
        for batch, number in track(plan, len(plan), "turns timed"):
            turn = run_seconds(contenders[number], sets[batch], TURN_RUNS, TURN_SECONDS)
            times.setdefault((batch, number), []).append(turn)
        own = contenders[0].answer(inputs.sequences)
        for number, (row, model) in enumerate(zip(running, contenders, strict=True)):
            p50, p99 = np.percentile(1000 * np.concatenate(times[LATENCY, number]), (50, 99))
            for batch in batches:
                row.buildings_per_second[batch] = float(batch / np.concatenate(times[batch, number]).mean())
            answers = model.answer(inputs.sequences) if number else own
            row.figures |= {"latency_p50_ms": float(p50), "latency_p99_ms": float(p99)}
            row.figures |= difference_figures(own, answers) | _accuracy(answers, inputs)
        return rows


@contextmanager
def _threads_kept(reference: Diagnosis | None) -> Iterator[None]:
    """Restore torch's number of threads afterwards, if torch is measured."""
    if reference is None:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _open(
    package: Path, manifest: Manifest, reference: Diagnosis | None, inputs: Inputs
) -> tuple[list[Row], list[OnnxModel]]:
    """Return all rows, and the models that run on `inputs` without an error; the reference comes first."""
    rows: list[Row] = []
    opened: list[OnnxModel] = []

    def add(artifact: str, name: str, sizes: Figures, start: Callable[[], OnnxModel]) -> None:
        try:
            model = start()
            model.run(inputs)
            opened.append(model)
            rows.append(Row(artifact, name, dict(sizes)))
        except Exception as error:  # ONNX Runtime raises classes of its own for each sort of trouble
            log.warning("left out: %s", error)
            rows.append(Row(artifact, name, trouble=str(error)))

    names = artifacts(manifest)
    if reference is None:
        names.sort(key=lambda name: name != FLOAT32)
    else:
        held = float(sum(value.nbytes for value in reference.state_dict().values()))
        weights, _ = network_files(package)
        sizes = {"size_bytes": float(weights.stat().st_size), "weight_bytes": held}
        for count in thread_counts():
            eager = Eager(reference, count)
            add(weights.name, eager.name, sizes, lambda eager=eager: eager)  # type: ignore[misc]
    for name in names:
        sizes = size_figures(package / name)
        for runtime in runtimes():
            start = partial(OnnxModel, package / name, runtime.provider, runtime.threads)
            add(name, runtime.name, sizes, start)
    return rows, opened


def _accuracy(answers: Answers, inputs: BenchInputs) -> Figures:
    if not inputs.labelled:
        return {}
    judged = Judged(
        answers.quadrant_probability, answers.severity_permille, answers.severity_low, answers.severity_high
    )._replace(accepted=np.asarray(inputs.sequences.accepted))
    severity = np.asarray(inputs.sequences.severity)
    figures = accuracy_figures(judged, np.asarray(inputs.sequences.quadrant), severity)
    return {name: figures[name] for name in ACCURACY if name in figures}
