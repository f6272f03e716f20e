"""Measure a package on this machine: `plumbline bench`."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from plumbline import __version__
from plumbline.core.console import log, track
from plumbline.core.errors import InputError
from plumbline.core.jobs import cores
from plumbline.export.answers import Answers, Released
from plumbline.export.interface import signature
from plumbline.export.package import MODELS, PREDICTIONS, Manifest
from plumbline.export.runtime import CPU, OnnxModel, installed_versions
from plumbline.export.weights import Trained, network_files
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE
from plumbline.prepare.features.sequences import Sequences, no_labels
from plumbline.prepare.features.shards import SequenceSet, Shards, load_shards
from plumbline.validate.measure import (
    Inputs,
    difference_figures,
    drawn_batches,
    middle_building,
    run_seconds,
    run_torch,
    size_figures,
)
from plumbline.validate.metrics import Figures, Judged, accuracy_figures

if TYPE_CHECKING:
    from plumbline.model.diagnosis import Diagnosis

ON_GPU = {"CUDAExecutionProvider": "CUDA", "TensorrtExecutionProvider": "TensorRT"}
"""Providers that are measured too, where ONNX Runtime lists them."""


@dataclass(frozen=True)
class Runtime:
    """One way to run an ONNX file."""

    name: str
    provider: str
    threads: int
    """Within an operator; on a GPU they matter little."""


def thread_counts() -> list[int]:
    """Return one, two and all cores, as far as this machine has them."""
    return sorted({count for count in (1, 2, cores()) if count <= cores()})


def runtimes() -> list[Runtime]:
    """List ONNX Runtime on the CPU with each of `thread_counts`, and on the available devices of `ON_GPU`."""
    found = [Runtime(f"ONNX Runtime CPU, {_threads(count)}", CPU, count) for count in thread_counts()]
    listed = onnxruntime.get_available_providers()
    return found + [Runtime(f"ONNX Runtime {ON_GPU[key]}", key, cores()) for key in ON_GPU if key in listed]


class Eager(Released):
    """The network itself under torch eager."""

    def __init__(self, model: Diagnosis, threads: int) -> None:
        self.name = f"torch eager, {_threads(threads)}"
        self.signature = signature(
            {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)},
            [],
            max_length=model.network.spec.max_length,
        )
        self._model, self._count = model, threads

    def execute(self, inputs: Mapping[str, NDArray[Any]]) -> Answers:
        """Return the outputs. This changes torch's number of threads for the whole process."""
        import torch

        torch.set_num_threads(self._count)
        return run_torch(self._model, dict(inputs))


def _threads(count: int) -> str:
    return f"{count} thread" + ("s" if count > 1 else "")


BUILDINGS = 2048
"""Buildings that are answered for at most: parity and accuracy need no more, and torch takes a second for them."""
LENGTHS = (5, 8, 12, 20, 40, 80)
"""Scatterers of the random buildings, in turn: from the fewest that are judged to what a fine sensor sees."""
RANDOM_BUILDINGS = 384
SEED = 0


@dataclass(frozen=True)
class BenchInputs:
    """Buildings and their source."""

    sequences: SequenceSet
    source: str
    """In words, for the table."""

    @property
    def labelled(self) -> bool:
        """Return whether every building has a label, so that accuracy can be measured."""
        return bool(np.isfinite(np.asarray(self.sequences.severity)).all())


def prepared_inputs(folder: Path) -> BenchInputs:
    """Draw at most `BUILDINGS` of a split, by a fixed seed.

    Args:
        folder: that of the stage `prepare`, of which the test split is taken, or of one split.

    Raises:
        InputError: there is no split, one is damaged or empty.
    """
    if not folder.is_dir():
        raise InputError(f"--prepared {folder}: no such folder. Give that of the stage `prepare`, or of one split.")
    split = folder / "test" if (folder / "test").is_dir() else folder
    shards = load_shards(split)
    return chosen(shards, str(split))


def chosen(sequences: SequenceSet, source: str) -> BenchInputs:
    """Draw at most `BUILDINGS` of these by a fixed seed; those with NaN or infinite features are left out.

    Raises:
        InputError: there is none.
    """
    whole = all_finite(sequences)
    if not whole.all():
        log.warning("%s: %d buildings with features that are no numbers are left out.", source, int((~whole).sum()))
        sequences = sequences.take(np.flatnonzero(whole))
    if not len(sequences):
        raise InputError(f"{source}: no building in it can be judged, so nothing can be measured on it.")
    count = min(BUILDINGS, len(sequences))
    if count == len(sequences):
        return BenchInputs(sequences, f"{source}, {count:,} buildings")
    index = np.sort(np.random.default_rng(SEED).permutation(len(sequences))[:count])
    return BenchInputs(sequences.take(index), f"{source}, {count:,} of {len(sequences):,} buildings")


def all_finite(sequences: SequenceSet) -> NDArray[np.bool_]:
    """Return (B,) whether all features of a building, and of its scatterers, are finite numbers."""
    parts = sequences.parts if isinstance(sequences, Shards) else (sequences,)
    found = [np.zeros(0, bool)]
    for part in parts:
        broken = ~(np.isfinite(part.distance).all(1) & np.isfinite(part.slope).all(1))
        broken_before = np.r_[0, np.cumsum(broken)]
        found.append(np.isfinite(part.geometry).all(1) & (np.diff(broken_before[part.offsets]) == 0))
    return np.concatenate(found)


def random_inputs(trained: Trained) -> BenchInputs:
    """Draw unlabelled buildings with normal features: means and deviations are those of the training data.

    Each feature is drawn by itself: good for speed and parity, and no house that ever stood.
    """
    random = np.random.default_rng(SEED)
    length = np.resize([min(n, trained.longest) for n in LENGTHS], RANDOM_BUILDINGS)
    rows = int(length.sum())

    def draw(name: str, count: int, columns: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        mean, deviation = (trained.statistics[f"{name}_{part}"] for part in ("mean", "sd"))
        return (mean + deviation * random.standard_normal((count, columns))).astype(np.float32)

    count = RANDOM_BUILDINGS
    sequences = Sequences(
        building_id=np.array([f"random{number:04d}" for number in range(count)]),
        city=np.full(count, "random"),
        offsets=np.r_[0, np.cumsum(length)].astype(np.int64),
        distance=draw("distance", rows, len(DISTANCE)),
        slope=draw("slope", rows, len(SLOPE)),
        geometry=draw("geometry", count, len(GEOMETRY)),
        **no_labels(count),
    )
    lengths = ", ".join(map(str, sorted(set(length.tolist()))))
    return BenchInputs(
        sequences, f"random inputs (seed {SEED}), {count} buildings of {lengths} scatterers; no accuracy"
    )


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
    """List the ONNX files of the network in a package, its default model first."""
    return sorted(
        (n for n in manifest.files if n.endswith(".onnx") and n != PREDICTIONS),
        key=lambda n: (n != manifest.default_model, n),
    )


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


PACKAGES = ("torch", "onnxruntime", "onnxruntime-gpu", "onnx", "numpy")
CLEARLY = 1.05
"""A ratio of times below this is noise."""


def advice(rows: Sequence[Row], default: str) -> list[str]:
    """Name the fastest artifact here, and say of each other one whether it is slower than `default`.

    An artifact is taken at its best, over all runtimes and batches.
    """
    ran = [row for row in rows if row.artifact.endswith(".onnx") and not row.trouble]
    if not ran:
        return ["No artifact could be run on this machine."]
    quickest, most = min(ran, key=_latency), max(ran, key=_rate)
    said = [
        f"Fastest for one building: {quickest.artifact} under {quickest.runtime}, {_latency(quickest):.3g} ms.",
        f"Most buildings a second: {most.artifact} under {most.runtime}, {_rate(most):,.0f}.",
    ]
    named = {row.artifact for row in ran}
    if default not in named:
        return said
    latency = {name: min(_latency(row) for row in ran if row.artifact == name) for name in named}
    rate = {name: max(_rate(row) for row in ran if row.artifact == name) for name in named}
    for name in sorted(named - {default}):
        slower = latency[name] > CLEARLY * latency[default], rate[default] > CLEARLY * rate[name]
        faster = latency[default] > CLEARLY * latency[name], rate[name] > CLEARLY * rate[default]
        figures = (
            f"{latency[name]:.3g} ms against {latency[default]:.3g} ms, {rate[name]:,.0f} buildings/s against "
            f"{rate[default]:,.0f}"
        )
        if any(slower) and not any(faster):
            said.append(f"{name} is slower than {default} here ({figures}): prefer {default} on this machine.")
        elif any(slower):
            what = "for one building" if slower[0] else "in batches"
            said.append(f"{name} is slower than {default} here {what} only ({figures}): choose by your load.")
        elif any(faster):
            said.append(f"{name} is faster than {default} here ({figures}).")
        else:
            said.append(f"{name} is as fast as {default} here ({figures}): choose by size and accuracy.")
    return said


def bench_document(
    rows: Sequence[Row], manifest: Manifest, inputs: BenchInputs, machine: Mapping[str, Any], said: Sequence[str]
) -> dict[str, Any]:
    """Return the benchmark as JSON content, without figures that are NaN or infinite.

    Args:
        rows: see `bench`. machine: processor, cores, memory and GPUs. said: see `advice`.
    """
    length = np.asarray(inputs.sequences.length)
    return {
        "format": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "package": {"name": manifest.name, "version": manifest.version, "default_model": manifest.default_model},
        "machine": dict(machine),
        "versions": {"python": platform.python_version(), "plumbline": __version__, **installed_versions(PACKAGES)},
        "inputs": {
            "source": inputs.source,
            "buildings": len(length),
            "labelled": inputs.labelled,
            "scatterers": {"least": int(length.min()), "median": float(np.median(length)), "most": int(length.max())},
        },
        "rows": [row.as_json() for row in rows],
        "advice": list(said),
    }


def bench_table(rows: Sequence[Row], manifest: Manifest, inputs: BenchInputs, machine: Mapping[str, Any]) -> Table:
    """Return the rows as a table for a terminal; `B 16 /s` is buildings a second in batches of 16."""
    compared = rows[0].artifact if rows[0].artifact.endswith(".onnx") else "torch"
    batches = sorted({batch for row in rows for batch in row.buildings_per_second})
    result = Table(
        title=escape(f"{manifest.name} {manifest.version} on {machine['processor']}, {machine['cores']} cores"),
        caption=escape(inputs.source),
    )
    result.add_column("artifact", no_wrap=True)
    result.add_column("runtime", no_wrap=True)
    columns: dict[str, Callable[[Row], str]] = {
        "file\nKB": _shown("size_bytes", "{:,.0f}", 1000),
        "weights\nKB": _shown("weight_bytes", "{:,.0f}", 1000),
        "p50\nms": _shown("latency_p50_ms", "{:.3g}"),
        "p99\nms": _shown("latency_p99_ms", "{:.3g}"),
        **{f"B {batch}\n/s": partial(_rate_of, batch) for batch in batches},
        f"from {compared}\nprobability": _shown("parity_probability", "{:.2g}"),
        f"from {compared}\npermille": _shown("parity_severity_permille", "{:.2g}"),
    }
    if inputs.labelled:
        columns["quadrant\naccuracy"] = _shown("quadrant_accuracy", "{:.3f}")
        columns["severity MAE\npermille"] = _shown("severity_mae", "{:.3f}")
    for head in columns:
        result.add_column(head, justify="right")
    last = None
    for row in rows:
        if row.artifact != last and last is not None:
            result.add_section()
        last = row.artifact
        if row.trouble:
            result.add_row(escape(row.artifact), row.runtime, "did not run")
            continue
        result.add_row(escape(row.artifact), row.runtime, *(show(row) for show in columns.values()))
    return result


def _shown(name: str, form: str, by: float = 1) -> Callable[[Row], str]:
    return lambda row: form.format(row.figures[name] / by) if name in row.figures else ""


def _rate_of(batch: int, row: Row) -> str:
    return f"{row.buildings_per_second[batch]:,.0f}"


def _latency(row: Row) -> float:
    return row.figures["latency_p50_ms"]


def _rate(row: Row) -> float:
    return max(row.buildings_per_second.values())
