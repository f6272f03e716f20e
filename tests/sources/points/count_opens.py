"""Read the file given, or ingest the city folder given, and write how often Python opened each file of it.

A process of its own, as no audit hook can be removed. Arguments: a file or a city folder, and bytes of a part.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from plumbline.params import Ingest
from plumbline.sources.ingest.stage import ingest
from plumbline.sources.points import read

given = Path(sys.argv[1])
read.PART_BYTES = int(sys.argv[2])
opened: Counter[str] = Counter()


def _count(event: str, args: tuple[object, ...]) -> None:
    if event == "open" and str(args[0]).startswith(str(given)):
        opened[Path(str(args[0])).name] += 1


sys.addaudithook(_count)
if given.is_dir():
    ingest([given], Ingest(), Path("out"), workers=1)
else:
    read.read_points(given)
print(json.dumps(opened))
