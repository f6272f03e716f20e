"""Judge published buildings twice: by the definition of severity, and as radar of both bands would see them.

    python -m benchmarks.cases [--draws 50] [--model PACKAGE|champion|pretrained]

Prints the tables of docs/real.md, which `benchmarks.heldout.accuracy --measure` renews. A wall has the figures of its
house. Medians are over the draws of a building that are answered for; *said* is the share of all draws that are flagged
(`p_damaged` of 50 % or more) or of which only the place is unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.cases.city import Band, Subject, build_city
from benchmarks.cases.surfaces import Row, house_of, label, read_rows, surface_of, wall_severity
from benchmarks.common import head, line, parse, parser, refusing, stamp
from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category
from plumbline.release.resolve import resolve_model
from plumbline.serve.judgement import OpenModel, answer, open_model
from plumbline.serve.options import Options

SEED, DRAWS = 2012, 50
BANDS: dict[str, Band] = {"X band": "X", "Sentinel-1": "C"}
FLAGGED = 0.5
"""Least `p_damaged` of a flag."""
OF_BAND = ("judged", "p", "category", "quadrant", "said")
Cases = list[dict[str, Any]]
"""A row each: what is published of it, its strain by the definition, and the figures of its draws by band."""


def main(argv: Sequence[str] | None = None) -> None:
    """Judge and print."""
    arguments = parser("cases", __doc__)
    arguments.add_argument("--draws", type=int, default=DRAWS, help="copies of each building, with noise of their own")
    arguments.add_argument("--model", default="pretrained", help="a package, `champion` or `pretrained`")
    given = parse(arguments, argv, draws=2)
    with refusing():
        model = open_model(resolve_model(given.model))
    cases = judge_cases(model, given.draws)
    print(stamp(f"package {model.about.version[:12]}", f"{given.draws} draws"))
    for table in CASE_TABLES.values():
        print("\n" + "\n".join(table(cases)))


def judge_cases(model: OpenModel, draws: int) -> Cases:
    """Judge all rows that have a profile, or where nothing should be found."""
    rows = [row for row in read_rows() if row.is_required]
    surfaces = {row.name: surface for row in read_rows() if (surface := surface_of(row)) is not None}
    tunnels = {row.name: "tunnel" in row.cause for row in read_rows()}
    subjects = [Subject(surface, draws, tunnels[name]) for name, surface in surfaces.items()]
    seen = {name: dict(zip(surfaces, _see(band, subjects, model), strict=True)) for name, band in BANDS.items()}
    severity = dict(zip(surfaces, map(float, label(list(surfaces.values())).severity_permille), strict=True))
    cases: Cases = []
    for row in rows:
        house = house_of(row) or row.name
        if house in surfaces:
            cases.append(
                {
                    "building": row.name,
                    "is_negative": row.is_negative,
                    "observed": _observed(row),
                    "permille": severity[row.name] if row.name in surfaces else wall_severity(row, house),
                    "permille_at_most": (row.rotation_permille or 0.0) / 2,
                    "seen": {band: seen[band][house] for band in BANDS},
                }
            )
    return cases


def known_criteria(cases: Cases) -> Iterator[str]:
    """Yield in how many rows and draws the answer agrees with what is published."""
    bound = CATEGORY_BOUNDS_PERMILLE[0]
    certain = [row for row in cases if row["is_negative"] and max(row["permille"], row["permille_at_most"]) < bound]
    damaged = [row for row in cases if not row["is_negative"]]
    silent = {band: [1 - row["seen"][band]["said"] for row in certain] for band in BANDS}
    yield head("", *BANDS)
    yield line(
        f"buildings and walls with an observed damage ({len(damaged)}): judged",
        *(sum(row["seen"][band]["judged"] > FLAGGED for row in damaged) for band in BANDS),
    )
    yield line(
        "of these at most one category from it",
        *(sum(_is_near(row, row["seen"][band]) for row in damaged) for band in BANDS),
    )
    yield line(
        f"the {len(certain)} certain negatives: draws without a false alarm; least of a building",
        *(f"{_percent(float(np.mean(share)), 1)}; {_percent(min(share))}" for share in silent.values()),
    )


def known_damage(cases: Cases) -> Iterator[str]:
    """Yield the rows with an observed damage."""
    yield from _table([row for row in cases if not row["is_negative"]], OF_BAND)


def known_sound(cases: Cases) -> Iterator[str]:
    """Yield the rows where nothing should be found."""
    yield from _table([row for row in cases if row["is_negative"]], ("judged", "p", "said"))


CASE_TABLES = {one.__name__: one for one in (known_criteria, known_damage, known_sound)}


def _is_near(row: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    least, most = row["observed"]
    return seen["judged"] > FLAGGED and least - 1 <= seen["category"] <= most + 1


def _table(rows: Cases, columns: Sequence[str]) -> Iterator[str]:
    yield head("building", "observed", "definition", *(f"{band}: {name}" for band in BANDS for name in columns))
    for row in rows:
        observed = " to ".join(dict.fromkeys(f"{value:g}" for value in row["observed"])) or "–"
        definition = f"{int(category(row['permille']))} ({row['permille']:.2f}"
        at_most = f", at most {row['permille_at_most']:.2f})" if row["permille_at_most"] else ")"
        cells = (_cells(seen)[name] for seen in row["seen"].values() for name in columns)
        yield line(row["building"], observed, definition + at_most, *cells)


def _cells(seen: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of `OF_BAND`."""
    reason = f" ({seen['reason']})" if seen["judged"] < FLAGGED else ""
    texts = {"judged": _percent(seen["judged"]) + reason, "said": _percent(seen["said"])}
    if seen["p"] is None:
        return dict.fromkeys(OF_BAND, "–") | texts
    return texts | {
        "p": f"{seen['p']:.2f}",
        "category": f"{seen['category']:.0f}",
        "quadrant": f"{_percent(seen['quadrant_share'])} {seen['quadrant']}",
    }


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _observed(row: Row) -> list[float]:
    if row.observed_least is None or row.observed_most is None:
        return []
    return [row.observed_least, row.observed_most]


def _see(band: Band, subjects: Sequence[Subject], model: OpenModel) -> list[dict[str, Any]]:
    """Return the figures of each subject."""
    built = build_city(band, subjects, SEED)
    # Buildings of which only the place is unknown are found below, so that their other answers are known, too.
    judged = answer(built.city, model, Options(min_quadrant_confidence=0.0)).judged
    sure = model.prepare.min_quadrant_confidence
    columns = {name: judged.table[name].to_numpy() for name in ("p_damaged", "quadrant_confidence", "quadrant")}
    columns["category"] = judged.table["burland_category"].to_numpy(float, na_value=np.nan)
    columns["reason"] = judged.reason
    return [
        _summarise({name: values[built.subject == number] for name, values in columns.items()}, sure)
        for number in range(len(subjects))
    ]


def _summarise(draws: Mapping[str, np.ndarray], sure: float) -> dict[str, Any]:
    """Return the figures of a building; `sure` is the least confidence of a quadrant that is judged."""
    answered, p = draws["reason"] == "ok", draws["p_damaged"].astype(float)
    unsure = answered & (p * (1 - draws["quadrant_confidence"].astype(float)) > 1 - sure)
    said = unsure | (answered & (p >= FLAGGED))
    if not answered.any():
        figures = dict.fromkeys(("p", "category", "quadrant", "quadrant_share"))
    else:
        quadrants = draws["quadrant"][answered].tolist()
        common = max(QUADRANTS, key=quadrants.count)
        figures = {
            "p": float(np.median(p[answered])),
            "category": float(np.nanmedian(draws["category"][answered])),
            "quadrant": common,
            "quadrant_share": quadrants.count(common) / len(p),
        }
    return {
        "judged": float((answered & ~unsure).mean()),
        "said": float(said.mean()),
        "reason": Counter(draws["reason"].tolist()).most_common(1)[0][0],
        **figures,
    }


if __name__ == "__main__":
    main()
