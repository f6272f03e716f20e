"""Read files, and ingest city folders, and write how often Python opened each file of them.

A process of its own, as no audit hook can be removed. Argument: JSON of a list, each a file or a city folder, and
bytes of a part. One process for all: to load the readers takes 2 s.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from plumbline.params import Ingest
from plumbline.sources.city.ingest import ingest
from plumbline.sources.points import read

opened: Counter[str] = Counter()
folder = ""


def _count(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and folder and str(args[0]).startswith(folder):
        opened[Path(str(args[0])).name] += 1


sys.addaudithook(_count)
counted = []
for number, (name, part_bytes) in enumerate(json.loads(sys.argv[1])):
    given, folder, read.PART_BYTES = Path(name), name, part_bytes
    opened.clear()
    if given.is_dir():
        ingest([given], Ingest(), Path(f"out{number}"), workers=1)
    else:
        read.read_points(given)
    counted.append(dict(opened))
print(json.dumps(counted))
