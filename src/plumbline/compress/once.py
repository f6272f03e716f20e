"""The pruned network, made once on each machine, however many processes train it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from plumbline.compress.search import Row
from plumbline.core.files import atomic_folder, read_json, write_json
from plumbline.model.diagnosis import Diagnosis, load_diagnosis, save_diagnosis
from plumbline.train.monitor.memory import number_here

ROWS = "search.json"
LOOK_SECONDS = 0.5
Made = tuple[Diagnosis, list[Row] | None]


def made_once(make: Callable[[], Made], folder: Path) -> Made:
    """What `make` gives: made by a machine's first process, taken from `folder` by the others and after a kill.

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
