"""Measure the shipped package on cities of the ninth maker and on published buildings, and write tables of the docs.

    python -m benchmarks.heldout.accuracy --measure   # an hour of one core: into docs/benchmarks/accuracy.json
    python -m benchmarks.heldout.accuracy             # seconds: that file's figures into the pages

A table of a page stands behind `<!-- accuracy: NAME -->`, up to an empty line; NAME is a key of `TABLES` or
`CASE_TABLES`. A test holds the pages to the file, and the file to the package. With `--smoke`, toy cities are measured,
and the tables printed.
"""

from __future__ import annotations

import datetime
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.cases.__main__ import CASE_TABLES, DRAWS, judge_cases
from benchmarks.common import ROOT, commit, head, line, parse, parser, refusing
from benchmarks.heldout.judge import predicted
from benchmarks.heldout.mechanisms import ALL, by_mechanism, read_beside
from benchmarks.heldout.triage import inspection, triage
from benchmarks.makers.ninth.city import SOUND, make_city
from plumbline import pretrained
from plumbline.core.files import read_json, write_json
from plumbline.export.package import verify_package
from plumbline.serve.judgement import open_model
from plumbline.sources.city.files import find_files

FILE = ROOT / "docs" / "benchmarks" / "accuracy.json"
PAGES = tuple(
    ROOT / name
    for name in ("README.md", "docs/accuracy.md", "docs/pretrained.md", "docs/real.md", "docs/benchmarks/accuracy.md")
)
BAND_NAMES = {"X": "X band", "C": "Sentinel-1"}
CORNERS = ("corner", "none")
"""Mechanisms of a city where corners alone fail."""
FEW = 0.02
"""Share of damaged buildings at which lists are weighted."""


class City(NamedTuple):
    """A city of the ninth maker."""

    band: str
    buildings: int
    seed: int
    sound: float = SOUND
    courses: str = "any"


CITIES = {
    f"{kind}, {BAND_NAMES[band]}": City(band, *about)
    for kind, sizes in {
        "half": {"X": (3000, 12), "C": (6000, 12)},
        "late": {"X": (3000, 15, SOUND, "late"), "C": (6000, 15, SOUND, "late")},
        "few": {"X": (10_000, 77, 0.98), "C": (10_000, 77, 0.98)},
    }.items()
    for band, about in sizes.items()
}
"""Half of the buildings damaged by any failure at any time; the same, beginning in the last fifth of the record; about
1 in 100 damaged."""


def measure(city: City) -> dict[str, Any]:
    """Judge one city by the shipped package, its share of damaged buildings estimated."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "city"
        make_city(folder, city.band, city.buildings, city.seed, city.sound, city.courses, None, None)
        files = find_files(folder)
        said = Path(scratch) / "predictions.csv"
        answers = predicted(files, "pretrained")
        answers.to_csv(said, index=False)
        beside = read_beside(said, files.labels)
        corners = by_mechanism(beside[beside["true_mechanism"].isin(CORNERS)])[ALL]
        few = triage(beside[beside["status"] == "ok"], FEW)
        return {
            "points": float(answers.loc[answers["status"] == "ok", "n_points"].median()),
            "mechanisms": {name: _finite(one._asdict()) for name, one in by_mechanism(beside).items()},
            "corners": _finite(corners._asdict()),
            "few": {"average_precision": _finite(few.average_precision), "recall": _finite(few.recall)},
            "inspection": inspection(beside)._asdict(),
        }


def _finite(figures: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if np.isfinite(value) else None for name, value in figures.items()}


Found = dict[str, dict[str, Any]]
"""Figures by city, see `measure`."""


NOTHING = "–"
"""In a table, of a figure that there is no building to take of; in the file it is null."""


def percent(value: float | None) -> str:
    """Return a share as text."""
    return NOTHING if value is None else f"{100 * value:.0f} %"


def two(value: float | None) -> str:
    """Return a figure with two decimals."""
    return NOTHING if value is None else f"{value:.2f}"


ROWS: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "judged": ("judged, of all buildings", percent),
    "accepted": ("quadrant right, from category 1 up", percent),
    "said": ("mean `quadrant_confidence` of these", percent),
    "missed": ("severe damage (1.5 permille or more) called category 0", percent),
    "error": ("severity error, permille", two),
    "coverage": ("coverage of the 90 % interval", percent),
}
"""Field of `mechanisms.Figures` -> its name in tables, and its format."""


def _compared(found: Found, columns: dict[str, tuple[str, str]], fields: Sequence[str]) -> Iterator[str]:
    """Yield a table with a column for each part of a city: `columns` are title -> (city, `corners` or `all`)."""
    yield head("", *columns)
    parts = [
        found[city]["corners"] if part == "corners" else found[city]["mechanisms"][ALL]
        for city, part in columns.values()
    ]
    for name in fields:
        title, text = ROWS[name]
        yield line(title, *(text(part[name]) for part in parts))


def summary(found: Found) -> Iterator[str]:
    """Yield what README shows."""
    yield from _compared(
        found, {name: (f"half, {name}", ALL) for name in BAND_NAMES.values()}, ("judged", "accepted", "missed")
    )
    first = (f"{found[f'few, {name}']['inspection']['in_first_100']}" for name in BAND_NAMES.values())
    yield line("damaged among the first 100 of the list, if 1 in 100 is damaged", *first)


def kinds(found: Found) -> Iterator[str]:
    """Yield all failures beside corners alone."""
    columns = {
        f"{name}, {'corners only' if part == 'corners' else 'all failures'}": (f"half, {name}", part)
        for name in BAND_NAMES.values()
        for part in (ALL, "corners")
    }
    yield from _compared(found, columns, tuple(ROWS))


def late(found: Found) -> Iterator[str]:
    """Yield damage that begins at any time beside damage that begins late."""
    columns = {
        f"{name}, {when}": (f"{kind}, {name}", ALL)
        for name in BAND_NAMES.values()
        for kind, when in (("half", "at any time"), ("late", "in the last fifth"))
    }
    yield from _compared(found, columns, ("judged", "accepted", "missed", "error", "coverage"))


def expected(found: Found) -> Iterator[str]:
    """Yield what a list of 10,000 buildings holds."""
    parts = [found[f"few, {name}"]["inspection"] for name in BAND_NAMES.values()]
    yield head("", *BAND_NAMES.values())
    for title, text in {
        "damaged buildings": "{damaged}",
        "flagged (of them damaged)": "{flagged} ({flagged_damaged})",
        "damaged, judged, not flagged": "{missed}",
        "not judged (of them damaged)": "{left_out} ({left_out_damaged})",
        "damaged among the first 20; 50; 100 of the list": "{in_first_20}; {in_first_50}; {in_first_100}",
    }.items():
        yield line(title, *(text.format(**part) for part in parts))


def failures(found: Found) -> Iterator[str]:
    """Yield all figures of each failure."""
    cities = {name: found[f"half, {name}"]["mechanisms"] for name in BAND_NAMES.values()}
    yield head("", *next(iter(cities.values()))[ALL])
    for city, mechanisms in cities.items():
        for name, figures in mechanisms.items():
            cells = (
                value if isinstance(value, int) else NOTHING if value is None else f"{value:.3f}"
                for value in figures.values()
            )
            yield line(f"{city}, {name}", *cells)


def lists(found: Found) -> Iterator[str]:
    """Yield how good the list of judged buildings is where few are damaged."""
    yield head(
        "", *(f"{name}, by `{column}`" for name in ("average precision", "recall") for column in _columns(found))
    )
    for name in BAND_NAMES.values():
        few = found[f"half, {name}"]["few"]
        yield line(name, *(two(value) for part in ("average_precision", "recall") for value in few[part].values()))


def _columns(found: Found) -> list[str]:
    return list(next(iter(found.values()))["few"]["average_precision"])


TABLES: dict[str, Callable[[Found], Iterator[str]]] = {
    one.__name__: one for one in (summary, kinds, late, expected, failures, lists)
}
"""Name in a page -> its lines."""


def renewed(text: str, measured: dict[str, Any]) -> str:
    """Return the text of a page with the measured figures; `measured` is the content of `FILE`."""
    tables = {name: "\n".join(table(measured["cities"])) for name, table in TABLES.items()}
    tables |= {name: "\n".join(table(measured["cases"])) for name, table in CASE_TABLES.items()}
    tables["measured"] = "{date}, package {release}, commit {commit}.".format(**measured)
    return re.sub(
        r"(<!-- accuracy: (\w+) -->\s+).*?(?=\n\n|\n?\Z)", lambda mark: mark[1] + tables[mark[2]], text, flags=re.S
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, or write the pages."""
    asked = parser("heldout.accuracy", __doc__)
    asked.add_argument("--measure", action="store_true", help="judge the cities anew, then write the pages")
    given = parse(asked, argv, measure=True)
    with refusing():
        if given.measure:
            sizes = {name: city._replace(buildings=60) if given.smoke else city for name, city in CITIES.items()}
            measured: dict[str, Any] = {
                "release": verify_package(pretrained.PACKAGE).version,
                "date": f"{datetime.date.today()}",
                "commit": commit(),
                "cities": {name: measure(city) for name, city in sizes.items()},
            }
            if given.smoke:
                print("\n\n".join("\n".join(table(measured["cities"])) for table in TABLES.values()))
                return
            measured["cases"] = judge_cases(open_model(pretrained.PACKAGE), DRAWS)
            write_json(FILE, measured)
        for page in PAGES:
            page.write_text(renewed(page.read_text(encoding="utf-8"), read_json(FILE)), encoding="utf-8")


if __name__ == "__main__":
    main()
