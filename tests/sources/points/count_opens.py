"""Read files, and ingest city folders, and write how often each file of them was opened, and how many processes ran.

A process of its own, as no audit hook can be removed. Argument: JSON of a list of: `read` a file, `points` of a folder
as `predict` reads it, or `ingest` a city folder; the file or folder; and bytes of a part. One process for all: to load
the readers takes 2 s. The hook sees what Python opens; what h5py opens is counted at `h5py.File`.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import h5py

from plumbline.params import Ingest
from plumbline.sources.city.files import point_files
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.city.ingest import ingest
from plumbline.sources.points import read

opened: Counter[str] = Counter()
folder = ""


def _count(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and folder and str(args[0]).startswith(folder):
        opened[Path(str(args[0])).name] += 1
    elif event == "subprocess.Popen":
        opened["processes"] += 1


class CountedFile(h5py.File):
    def __init__(self, name: object, *args: object, **more: object) -> None:
        opened[Path(str(name)).name] += 1
        super().__init__(name, *args, **more)


sys.addaudithook(_count)
h5py.File = CountedFile
counted = []
for number, (way, name, part_bytes) in enumerate(json.loads(sys.argv[1])):
    given, folder, read.PART_BYTES = Path(name), name, part_bytes
    opened.clear()
    if way == "ingest":
        ingest([given], Ingest(), Path(f"out{number}"), workers=1)
    elif way == "points":
        read_tracks(point_files([given]))
    else:
        read.read_points(given)
    counted.append(dict(opened))
print(json.dumps(counted))
