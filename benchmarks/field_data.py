"""Scenes of fields from the project's own arrays beside WebDataset shards: examples a second, and bytes.

`python -m benchmarks.field_data [--data FOLDER]` reads the training split of a prepared restoration project (`FOLDER`,
as `restoration/data/prepare/train`; without one it simulates a few). WebDataset is no dependency of the project: where
it is not installed, its column says so.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import head, line, parse, parser, stamp
from plumbline.fields.prepare.conditions import SceneSet, load_scenes
from plumbline.fields.prepare.stage import prepare
from plumbline.fields.simulate.stage import ingest, simulate
from plumbline.params import Ingest
from plumbline.params.fields import PrepareFields, SimulateFields

CROP = 64
A_SHARD = 64
"""Scenes of a shard."""


def make_scenes(folder: Path, count: int, cells: int) -> Path:
    """Simulate and prepare a few scenes; the folder of their training split."""
    with chdir(folder):  # stages keep what is half done in the working directory
        simulate(SimulateFields(scenes={"plain": count}, cells=cells), folder / "simulate", 1)
        ingest(folder / "simulate" / "scenes", Ingest(), folder / "ingest", 1)
        prepare(folder / "ingest", PrepareFields(), folder / "prepare", 1)
    return folder / "prepare" / "train"


def own_epoch(scenes: SceneSet, rng: np.random.Generator) -> int:
    """One crop of each scene in random order, from arrays that are mapped into memory; bytes that were read."""
    total = 0
    for number in rng.permutation(len(scenes)):
        row, column = rng.integers(0, scenes.truth.shape[-1] - CROP + 1, 2)
        cut = (slice(None), slice(row, row + CROP), slice(column, column + CROP))
        total += np.array(scenes.maps[number][cut]).nbytes + np.array(scenes.truth[number][cut]).nbytes
    return total


def write_shards(scenes: SceneSet, folder: Path) -> list[str]:
    """The same scenes as WebDataset shards: tar files with two arrays a scene."""
    import webdataset  # type: ignore[import-not-found, import-untyped, unused-ignore]

    names = []
    for first in range(0, len(scenes), A_SHARD):
        names.append(str(folder / f"{first:06d}.tar"))
        with webdataset.TarWriter(names[-1]) as sink:
            for number in range(first, min(first + A_SHARD, len(scenes))):
                parts = {"maps.npy": scenes.maps[number], "truth.npy": scenes.truth[number]}
                sink.write({"__key__": f"{number:06d}", **{k: _packed(np.asarray(v)) for k, v in parts.items()}})
    return names


def _packed(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def shard_epoch(names: list[str], rng: np.random.Generator) -> int:
    """One crop of each scene, shuffled as WebDataset does, in a buffer."""
    import webdataset

    total = 0
    for sample in webdataset.WebDataset(names, shardshuffle=False).shuffle(A_SHARD):
        maps, truth = (np.load(io.BytesIO(sample[name])) for name in ("maps.npy", "truth.npy"))
        row, column = rng.integers(0, truth.shape[-1] - CROP + 1, 2)
        cut = (slice(None), slice(row, row + CROP), slice(column, column + CROP))
        total += maps[cut].copy().nbytes + truth[cut].copy().nbytes
    return total


def per_second(epoch: Callable[[], int], examples: int, rounds: int) -> float:
    """Median examples a second, after one epoch that warms up."""
    epoch()
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        epoch()
        times.append(time.perf_counter() - begun)
    return examples / float(np.median(times))


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print Markdown."""
    asked = parser("field_data", __doc__)
    asked.add_argument("--data", type=Path, help="a prepared split")
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--scenes", type=int, default=60, help="simulated, without --data")
    asked.add_argument("--cells", type=int, default=SimulateFields(scenes={}).cells, help="of a side of such a scene")
    given = parse(asked, argv, scenes=4, cells=CROP, rounds=1)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.data or make_scenes(Path(scratch), given.scenes, given.cells)
        scenes, rng = load_scenes(folder), np.random.default_rng(0)
        own = per_second(lambda: own_epoch(scenes, rng), len(scenes), given.rounds)
        print(stamp(f"{len(scenes)} scenes of {scenes.truth.shape[-1]} cells, crops of {CROP}"))
        print(head("way", "examples a second", "of the project's own", "bytes"))
        size = sum(path.stat().st_size for path in folder.glob("*.npy"))
        print(line("own: arrays mapped into memory", f"{own:.0f}", "1.00", size))
        try:
            names = write_shards(scenes, Path(scratch))
        except ImportError:
            print("\nWebDataset is not installed.")
            return
        theirs = per_second(lambda: shard_epoch(names, rng), len(scenes), given.rounds)
        print(
            line(
                "WebDataset shards", f"{theirs:.0f}", f"{theirs / own:.2f}", sum(Path(n).stat().st_size for n in names)
            )
        )


if __name__ == "__main__":
    main()
