"""Draw all plans into one HTML file that works offline: each building, with the reasons of
its judgement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import shapely

from plumbline.core.compass import frames
from plumbline.core.console import warn
from plumbline.export.interface import PROBABILITIES
from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.prepare.features.definition import GEOMETRY
from plumbline.reporting.charts import course_chart
from plumbline.reporting.page import number, say, table
from plumbline.reporting.plans import DrawnBuilding, draw_building, legend
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.columns import LIST_ORDER, format_share
from plumbline.serve.map.content import description, isolated
from plumbline.serve.predictions import write_text
from plumbline.serve.rules import shows_quadrant

MAX_DRAWN = 200
"""Largest number of buildings on a page that a browser can still open."""
MAX_FEATURES = 6
"""Largest number of features of the whole building that are listed."""
MIN_LIMIT_MM = 2.0
"""Smallest limit of the colours of displacements, mm."""
NOTHING_JUDGED = (
    "<p>No building was judged, so that there is nothing to explain; the map of "
    "plumbline predict says why.</p>"
)
_STYLE = """
:root{color-scheme:light}
body{margin:0 auto;max-width:1100px;padding:0 12px 40px;font:15px/1.45 system-ui,sans-serif;color:#1c1c1c;
 background:#fff}
h1{font-size:22px;overflow-wrap:anywhere}p{margin:4px 0;color:#555}
section{display:flex;flex-wrap:wrap;gap:20px;border-top:1px solid #ddd;padding:16px 0;break-inside:avoid}
svg{display:block;width:100%;height:auto;font:13px system-ui,sans-serif}
figure{margin:0;flex:1 1 420px;max-width:560px}div.said{flex:1 1 280px;overflow-wrap:anywhere}
table{border-collapse:collapse;font-size:13px;margin-top:8px}th,td{text-align:left;padding:2px 8px;
 border-bottom:1px solid #e5e5e5}.n{text-align:right;white-space:nowrap}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;align-items:center}.legend p{flex:1 0 100%}
.legend svg{max-width:100%}@media(max-width:500px){figure svg{font-size:18px}}
"""
_ABOUT = (
    "Each drawing is in the frame of its building: NE is the north-east corner of the house, "
    "with the probability that "
    "the damage is there. A scatterer's size says how much it moved the answer away from that of "
    "a building all of "
    "whose features are average; the features of the whole building moved it as well. Point at a "
    "scatterer for its "
    "figures."
)


def write_page(
    buildings: pd.DataFrame,
    footprints: geopandas.GeoDataFrame,
    scatterers: geopandas.GeoDataFrame,
    path: Path,
    *,
    title: str,
    rate: DamageRate,
    courses: pd.DataFrame | None = None,
) -> None:
    """Draw the buildings, the most probably damaged first, into one HTML file that loads
    nothing from elsewhere.

    Args:
        buildings: see `building_table`, with a column `explanation`: why a building is not judged,
            see `CityPredictions`; at most `MAX_DRAWN` are drawn, with a note in page and log.
        footprints: the buildings table.
        scatterers: see `scatterer_table`.
        path: the `.html` to write, atomically.
        title: heading of the page.
        rate: the share of damaged buildings for which the probabilities hold.
        courses: severity over time of some of the buildings, see `CityPredictions`.

    Raises:
        InputError: the file cannot be written.
    """
    ordered = buildings.sort_values(
        list(LIST_ORDER), ascending=False, na_position="last", kind="stable"
    )
    shown = ordered.head(MAX_DRAWN)
    n_not_drawn = len(ordered) - len(shown)
    if n_not_drawn:
        warn(
            "--plan: of %d buildings, the %d most probably damaged are drawn",
            *(len(ordered), len(shown)),
            key="plan.too_many_buildings",
        )
    sizes_mm = scatterers.loc[
        scatterers["building_id"].isin(shown["building_id"]), "differential_displacement"
    ].abs()
    limit = (
        float(max(MIN_LIMIT_MM, np.ceil(sizes_mm.quantile(0.98))))
        if len(sizes_mm)
        else MIN_LIMIT_MM
    )
    shapes = dict(zip(footprints["building_id"], footprints.geometry.to_numpy(), strict=True))
    scatterers_of = dict(tuple(scatterers.groupby("building_id", sort=False)))
    outlines = np.array([shapes[name] for name in shown["building_id"]], object)
    course_of = {} if courses is None else dict(tuple(courses.groupby("building_id", sort=False)))
    sections = [
        _format_section(
            row,
            shape,
            scatterers_of.get(row.building_id),
            limit_mm=limit,
            why=why,
            course=course_of.get(row.building_id),
        )
        for row, shape, why in zip(
            shown.itertuples(index=False), outlines, shown["explanation"], strict=True
        )
    ]
    note = (
        f"<p>{n_not_drawn:,} less probably damaged buildings are in the table, and not drawn.</p>"
    )
    version = ", ".join(sorted(set(shown["model_version"])))
    share = say(f"Severities and probabilities are for a city like this: {rate}.")
    about = (
        f"<p>Model version {say(version)}. "
        f"{share}</p><p>{say(_ABOUT)}</p>{note if n_not_drawn else ''}{legend(limit)}"
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, '
        f'initial-scale=1"><title>{say(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>{say(title)}</h1>"
        f"{about if sections else NOTHING_JUDGED}\n" + "\n".join(sections) + "\n</body></html>\n"
    )
    write_text(page, path)


def _format_section(
    row: Any,
    footprint: Any,
    scatterers: geopandas.GeoDataFrame | None,
    *,
    limit_mm: float,
    why: str,
    course: pd.DataFrame | None,
) -> str:
    """Return the HTML of one building: drawing and figures, or the reason why it was not judged."""
    if scatterers is None:
        return f'<section><div class="said">{description(row, why)}</div></section>'
    # If damage is not probable, no quadrant is answered: the severity is explained.
    question, unit = ("quadrant", "logits") if shows_quadrant(row) else ("severity", "log permille")
    plan = _make_plan(row, footprint, scatterers, question)
    contribution = {
        column.name: float(getattr(row, f"{question}_by_{column.name}")) for column in GEOMETRY
    }
    strongest = sorted(contribution, key=lambda name: -abs(contribution[name]))[:MAX_FEATURES]
    difference, by_scatterers = (
        getattr(row, f"{question}_difference"),
        getattr(row, f"{question}_by_scatterers"),
    )
    rows = [
        ["all scatterers", f"{by_scatterers:+.2f}"],
        *([name.replace("_", " "), f"{contribution[name]:+.2f}"] for name in strongest),
        [
            "the other features",
            f"{sum(contribution.values()) - sum(contribution[name] for name in strongest):+.2f}",
        ],
        ["all together", f"{difference:+.2f}"],
    ]
    largest = float(np.abs(plan.attribution).max())
    answer = f"the quadrant {row.quadrant}" if question == "quadrant" else "the severity"
    figure = draw_building(plan, limit_mm, f"Plan of building {row.building_id}")
    over_time = "" if course is None else _draw_course(course)
    return (
        f'<section><figure>{over_time}{figure}</figure><div class="said">{description(row, why)}'
        f"<p>The marks and the table say what moved {answer}, in {unit}; the largest mark "
        f"{number(largest)}.</p>{table(['moved by', unit], rows)}</div></section>"
    )


def _draw_course(course: pd.DataFrame) -> str:
    low, value, high = (
        course[name].tolist() for name in ("severity_low", "severity_permille", "severity_high")
    )
    days = course["date"].tolist()
    return course_chart(
        "Strain over time, permille, with its 90 % interval", days, low=low, value=value, high=high
    )


def _make_plan(
    row: Any, footprint: Any, scatterers: geopandas.GeoDataFrame, question: str
) -> DrawnBuilding:
    frame = frames(np.array([footprint], dtype=object))
    texts = [
        f"{isolated(s.point_id)}, {isolated(s.track)}: {s.differential_displacement:+.1f} mm, "
        f"standard error {s.differential_displacement_se:.1f} mm; moved the quadrant "
        f"{s.quadrant_attribution:+.3f} logits, the severity {s.severity_attribution:+.3f} log "
        f"permille; attention {s.attention_share:.1%}"
        for s in scatterers.itertuples(index=False)
    ]
    is_placed = question == "quadrant" or row.reason == UNSURE_WHERE
    probability = np.array(
        [getattr(row, name) if is_placed else np.nan for name in PROBABILITIES], float
    )
    return DrawnBuilding(
        footprint=shapely.transform(
            footprint, lambda place: frame.to_building(np.zeros(len(place), np.intp), place)
        ),
        side=frame.side[0],
        angle=float(frame.angle[0]),
        probability=probability,
        shares=[format_share(p) for p in probability],
        decided=row.quadrant if question == "quadrant" else None,
        xy=scatterers[["x", "y"]].to_numpy(float),
        displacement=scatterers["differential_displacement"].to_numpy(float),
        error=scatterers["differential_displacement_se"].to_numpy(float),
        attribution=scatterers[f"{question}_attribution"].to_numpy(float),
        texts=texts,
    )
