"""Run the stage `compress` of restoration: find how few steps restore a field as well as the most.

Fewer steps are what makes restoring cheaper: each costs one run of the network for every sample.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_folder, write_csv, write_json
from plumbline.model.restoration.denoiser import load_denoiser
from plumbline.model.restoration.measure import Settings, restore_scenes
from plumbline.model.restoration.spread import FILE as SPREAD
from plumbline.model.restoration.spread import read_spread
from plumbline.params.restoration import RestorationParams
from plumbline.prepare.restoration.scenes import load_scenes
from plumbline.train.restoration.calibrate import TorchDenoiser

SCENES = 8
"""Of the tune split, restored with each number of steps."""
SAMPLES = 8


def compress(prepared: Path, trained: Path, params: RestorationParams, out: Path) -> None:
    """Write `steps.csv` (error by number of steps) and `metrics.json` (the fewest sufficient steps) into `out`.

    Raises:
        InputError: an input folder is missing or damaged, or there is no scene to try on.
    """
    scenes = load_scenes(prepared / "tune").of_domain("plain")
    if not len(scenes):
        raise InputError(f"{prepared / 'tune'}: no plain scene to try numbers of steps on. Simulate more.")
    scenes = scenes.take(range(min(SCENES, len(scenes))))
    model, spread = TorchDenoiser(load_denoiser(trained)), read_spread(trained / SPREAD)
    rows = []
    for steps in sorted(set(params.compress.tried_steps)):
        how = Settings(steps, SAMPLES, params.restore.eta, params.train.seed, params.simulate.cell_m, params.train.crop)
        figures = restore_scenes(model, spread, scenes, how, f"{steps} steps")
        told = [one for one in figures if not np.isnan(one["rmse_mm"])]
        if not told:
            raise InputError(f"{prepared / 'tune'}: no plain scene with a point near its middle. Simulate more.")
        rows.append({"steps": steps, **{name: float(np.mean([one[name] for one in told])) for name in told[0]}})
    limit = (1 + params.compress.max_loss) * rows[-1]["rmse_mm"]
    fewest = next(row["steps"] for row in rows if row["rmse_mm"] <= limit)
    with atomic_folder(out) as folder:
        write_csv(rows, folder / "steps.csv")
        write_json(folder / "metrics.json", {"fewest_steps": fewest, "most_steps": rows[-1]["steps"]})
    log.info(
        "%d steps restore as well as %d (%.0f %% allowed)", fewest, rows[-1]["steps"], 100 * params.compress.max_loss
    )
