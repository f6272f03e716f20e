"""Speed and size of exported artifacts, as ratios to the unpruned network in float32 under ONNX Runtime and torch.

`python -m benchmarks.artifacts [pretrained]`: of the last `make run`, or of the package that is shipped. Either answers
for the test buildings of that run, once as Plumbline runs a file and once in a bare session of ONNX Runtime.
Prints Markdown; `docs/benchmarks` keeps dated copies.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch

from benchmarks.common import cores, head, line, parse, parser, stamp, toy
from plumbline import pretrained
from plumbline.export.onnx import export_onnx
from plumbline.export.runtime import OnnxModel
from plumbline.export.stage import ARTIFACTS
from plumbline.model.diagnosis import Diagnosis, load_diagnosis
from plumbline.params import Export
from plumbline.prepare.features.shards import SequenceSet, load_shards
from plumbline.validate.measure import run_torch, size_figures
from plumbline.validate.metrics import Figures

BATCHES = (1, 64, 256)
EAGER = "torch eager"
PAUSE_S = 0.05
"""Before a turn: the threads of the one before wait for more work for a while, and keep a core busy with it."""


def least_times(contenders: dict[str, Callable[[], object]], repeats: int, rounds: int) -> dict[str, float]:
    """Least over the rounds of the mean time of a call, s: what else a machine does only adds to it."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, call in contenders.items():
            time.sleep(PAUSE_S)
            call()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if number:  # the first round warms up
                times[name].append((time.perf_counter() - start) / repeats)
    return {name: float(np.min(values)) for name, values in times.items()}


def bare_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """As anybody would open the file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    asked = parser("artifacts", __doc__)
    asked.add_argument("which", nargs="?", choices=["run", "pretrained"], default="run")
    asked.add_argument("--data", type=Path, help="of a `make run`; of the one here by default")
    asked.add_argument("--rounds", type=int, default=15, help="so that a slow minute of the machine meets all of them")
    given = parse(asked, argv, rounds=1)
    torch.set_num_threads(cores())
    with tempfile.TemporaryDirectory() as scratch:
        made = given.smoke and given.data is None  # there is no trained network of the toy's own
        data, shipped = given.data or Path("data"), made or given.which == "pretrained"
        if made:
            data = toy(Path(scratch)) / "data"
        test = load_shards(data / "prepare" / "test")
        eager = load_diagnosis(Path(pretrained.__file__).parent / "model" if shipped else data / "train")
        if shipped:
            whole, package = Path(scratch) / "float32.onnx", Path(pretrained.__file__).parent / "package"
            export_onnx(eager, whole, Export().opset)
            files = {"float32": whole} | {path.stem: path for path in sorted(package.glob("model*.onnx"))}
        else:
            files = {name: data / "export" / f"{name}.onnx" for name in ARTIFACTS}
        models = {name: OnnxModel(path, threads=cores()) for name, path in files.items()}
        bare = {name: bare_session(path, cores()) for name, path in files.items()}
        sizes = {name: size_figures(path) for name, path in files.items()}
        test = test.take(np.arange(len(test)))
    print(f"{stamp()}\n")
    length = float(np.mean(np.asarray(test.length)))
    print("In brackets: times faster than float32 (the unpruned network), run the same way, and than torch eager;")
    print(
        f"{cores()} threads each. Test buildings of {length:.0f} scatterers on average, drawn at random, padded to the"
    )
    print("longest of a batch.")
    for title, contenders in (
        ("As Plumbline runs a file: in parts of similar length", {name: model.run for name, model in models.items()}),
        ("A bare session of ONNX Runtime", {name: partial(one.run, None) for name, one in bare.items()}),
    ):
        table(title, eager, contenders, test, sizes, given.rounds, (1, 1) if given.smoke else (20, 5))


def table(
    title: str,
    eager: Diagnosis,
    ways: dict[str, Callable[[Any], object]],
    test: SequenceSet,
    sizes: dict[str, Figures],
    rounds: int,
    calls: tuple[int, int],
) -> None:
    """One row for torch eager and one for each way to run a file; `calls` of a round, of one building and of more."""
    print(f"\n### {title}\n")
    print(head("artifact", "file, bytes", "weights, bytes", *(f"B {b}: buildings/s (x)" for b in BATCHES)))
    rates: dict[str, list[str]] = {name: [] for name in (EAGER, *ways)}
    for batch in BATCHES:
        drawn = np.random.default_rng(0).permutation(len(test))[:batch]
        inputs = test.pad(drawn)
        contenders = {EAGER: partial(run_torch, eager, inputs)} | {n: partial(way, inputs) for n, way in ways.items()}
        seconds = least_times(contenders, calls[batch > 1], rounds)
        for name, value in seconds.items():
            times = " and ".join(f"{seconds[base] / value:.2f}" for base in ("float32", EAGER))
            rates[name].append(f"{len(drawn) / value:,.0f} ({times})")
    for name, cells in rates.items():
        told = [f"{sizes[name][key]:,.0f}" if name in sizes else "" for key in ("size_bytes", "weight_bytes")]
        print(line(name, *told, *cells))


if __name__ == "__main__":
    main()
