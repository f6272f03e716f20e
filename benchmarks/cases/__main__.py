"""Judge published buildings twice: by the definition of severity, and as radar of both bands would see them.

    python -m benchmarks.cases [--draws 50] [--model PACKAGE|champion|pretrained]

The first table has the buildings with an observed damage, the second those where nothing should be found. Medians are
over the draws of a building that are answered for; *said* is the share of all draws that are flagged (`p_damaged` of
50 % or more) or of which only the place is unknown. Prints Markdown; docs/real.md keeps a dated copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.cases.city import Band, Subject, build_city
from benchmarks.cases.surfaces import Row, house_of, label, read_rows, surface_of, wall_severity
from benchmarks.common import head, line, parse, parser, refusing, stamp
from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import category
from plumbline.release.resolve import resolve_model
from plumbline.serve.judgement import OpenModel, answer, open_model
from plumbline.serve.options import Options

SEED = 2012
BANDS: tuple[Band, ...] = ("X", "C")
FLAGGED = 0.5
"""Least `p_damaged` of a flag."""
OF_BAND = ("judged", "p", "category", "quadrant", "said")


def main(argv: Sequence[str] | None = None) -> None:
    """Judge and print."""
    arguments = parser("cases", __doc__)
    arguments.add_argument("--draws", type=int, default=50, help="copies of each building, with noise of their own")
    arguments.add_argument("--model", default="pretrained", help="a package, `champion` or `pretrained`")
    given = parse(arguments, argv, draws=2)
    with refusing():
        model = open_model(resolve_model(given.model))
    rows = read_rows()
    surfaces = {row.name: surface for row in rows if (surface := surface_of(row)) is not None}
    tunnels = {row.name: "tunnel" in row.cause for row in rows}
    subjects = [Subject(surface, given.draws, tunnels[name]) for name, surface in surfaces.items()]
    seen = {band: dict(zip(surfaces, _see(band, subjects, model), strict=True)) for band in BANDS}
    severity = dict(zip(surfaces, map(float, label(list(surfaces.values())).severity_permille), strict=True))
    print(f"{stamp(f'package {model.about.version[:12]}', f'{given.draws} draws')}")
    columns = ["building", "observed", "definition", *(f"{band}: {name}" for band in BANDS for name in OF_BAND)]
    for is_negative in (False, True):
        print(f"\n{head(*columns)}")
        for row in rows:
            house = house_of(row) or row.name
            if row.is_negative != is_negative or not row.is_required or house not in surfaces:
                continue
            strain = severity[row.name] if row.name in surfaces else wall_severity(row, house)
            cells = [cell for band in BANDS for cell in seen[band][house]]
            print(line(row.name, _observed(row), f"{int(category(strain))} ({strain:.2f})", *cells))


def _observed(row: Row) -> str:
    if row.observed_least is None or row.observed_most is None:
        return "–"
    return " to ".join(dict.fromkeys((f"{row.observed_least:g}", f"{row.observed_most:g}")))


def _see(band: Band, subjects: Sequence[Subject], model: OpenModel) -> list[list[str]]:
    """Return the cells of `OF_BAND` for each subject."""
    built = build_city(band, subjects, SEED)
    # Buildings of which only the place is unknown are found below, so that their other answers are known, too.
    judged = answer(built.city, model, Options(min_quadrant_confidence=0.0)).judged
    sure = model.prepare.min_quadrant_confidence
    columns = {name: judged.table[name].to_numpy() for name in ("p_damaged", "quadrant_confidence", "quadrant")}
    columns["category"] = judged.table["burland_category"].to_numpy(float, na_value=np.nan)
    columns["answered"] = judged.reason == "ok"
    return [
        _summarise({name: values[built.subject == number] for name, values in columns.items()}, sure)
        for number in range(len(subjects))
    ]


def _summarise(draws: Mapping[str, np.ndarray], sure: float) -> list[str]:
    """Return the cells of a building; `sure` is the least confidence of a quadrant that is judged."""
    answered, p = draws["answered"], draws["p_damaged"].astype(float)
    unsure = answered & (p * (1 - draws["quadrant_confidence"].astype(float)) > 1 - sure)
    said = unsure | (answered & (p >= FLAGGED))
    if not answered.any():
        return ["0 %", "–", "–", "–", "0 %"]
    quadrants = draws["quadrant"][answered].tolist()
    common = max(QUADRANTS, key=quadrants.count)
    return [
        f"{(answered & ~unsure).mean():.0%}",
        f"{np.median(p[answered]):.2f}",
        f"{np.nanmedian(draws['category'][answered]):.0f}",
        f"{quadrants.count(common) / len(p):.0%} {common}",
        f"{said.mean():.0%}",
    ]


if __name__ == "__main__":
    main()
