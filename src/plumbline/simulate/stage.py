"""The stage `simulate`: labelled cities in the file formats of real products."""

from __future__ import annotations

from pathlib import Path

from plumbline.files import atomic_folder
from plumbline.params import Simulate
from plumbline.simulate.city import write_city

SHOWCASE = "showcase"
LABELS = "labels.csv"
TRUTH = "truth.csv"


def simulate(params: Simulate, out: Path) -> None:
    """Write `out/cities/NAME/` for each city and `out/showcase/`; replace `out` as a whole.

    Every folder holds an ascending and a descending EGMS L2b CSV, `footprints.geojson` and the labels: `labels.csv`,
    in the showcase `truth.csv`, which no stage before the comparison at the end reads. The same parameters give the
    same bytes. A city depends on its own parameters, its name and its number in the list only.

    Raises:
        OSError: `out` cannot be written.
    """
    with atomic_folder(out) as folder:
        jobs = [(folder / SHOWCASE, SHOWCASE, params.showcase, TRUTH)]
        jobs += [(folder / "cities" / name, name, city, LABELS) for name, city in params.cities.items()]
        for slot, (target, name, city, labels) in enumerate(jobs):
            target.mkdir(parents=True)
            write_city(target, name, city, slot, city.years or params.years, params.damaged, labels)
