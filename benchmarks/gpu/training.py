"""Parts about training: the data that it takes, and its speed in each precision, compiled or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.common import toy
from benchmarks.gpu.parts import Found, NotMeasured, Table, Work
from plumbline.core.files import atomic_folder

BUILDINGS = 4000
CASES: dict[str, dict[str, Any]] = {
    "float32": {"precision": 32},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "bf16-compiled": {"precision": "bf16", "compile": True},
    "bf16-compiled-ragged": {"precision": "bf16", "compile": True, "attention": "ragged"},
}
"""Name of the part to what it changes."""
GPU_ONLY = {
    "fp16": "fp16 trains on a GPU only",
    "bf16-compiled": "compiling for a CPU takes minutes; `tests/model/test_compiled.py` does it",
    "bf16-compiled-ragged": "on a CPU `ragged` is no kernel",
}


def prepared(work: Work) -> Path:
    """Return the folder of the part `data`.

    Raises:
        NotMeasured: it is not there.
    """
    folder = work.folder / "data"
    if not folder.is_dir():
        raise NotMeasured("the part `data` left nothing to measure on; see why it did not")
    return folder


def data(work: Work) -> Found:
    """Simulate and prepare the buildings that other parts take."""
    from benchmarks.train import make_data
    from plumbline.prepare.features.shards import load_shards

    folder = work.folder / "data"
    if not folder.is_dir():
        with atomic_folder(folder) as temporary:
            toy(temporary) if work.dry else make_data(temporary, BUILDINGS)
    length = load_shards(folder / "data" / "prepare" / "train").length
    row = [f"{len(length):,}", f"{length.mean():.0f}", str(length.max())]
    return Found([Table("Buildings to train on", ["buildings", "scatterers, mean", "most"], [row])])


def training(name: str) -> Callable[[Work], Found]:
    """Make the part that trains in one way."""

    def part(work: Work) -> Found:
        if work.dry and name in GPU_ONLY:
            raise NotMeasured(f"toy size: {GPU_ONLY[name]}")
        folder = prepared(work)
        from benchmarks.train import measure  # loads Lightning, for seconds

        size = {"batch_size": 32, "epochs": 2} if work.dry else {"batch_size": 1024, "epochs": 30}
        found = measure({"threads": 1, **size, **CASES[name]}, folder)
        columns = ["training", "buildings/s", "share in the data path", "MB"]
        table = Table(f"Training, batches of {size['batch_size']:,}", columns)
        table.rows.append([name, f"{found['rate']:,.0f}", f"{found['between']:.1%}", f"{found['memory']:,.0f}"])
        return Found([table])

    return part
