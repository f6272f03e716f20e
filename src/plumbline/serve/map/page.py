"""The map: one HTML file that works offline, with footprints coloured by damage and points on demand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import geopandas
import shapely
from bokeh.embed import file_html
from bokeh.models import ColumnDataSource, CustomJS
from bokeh.models.annotations import ScaleBar
from bokeh.models.widgets import Select
from bokeh.plotting import figure
from bokeh.resources import INLINE

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.params import Prepare
from plumbline.prepare.abstention import reason_sentences
from plumbline.serve.base_rate import DamageRate
from plumbline.serve.judgement import Judged
from plumbline.serve.map.content import MapPoints, isolated, map_crs, points_near_buildings
from plumbline.serve.map.layers import draw_buildings, draw_points
from plumbline.serve.outputs import write_text
from plumbline.sources.track import Track

MAX_POINTS = 50_000
"""Most points in a map, so that a phone can still move it."""
WORST = 20
ORDER = ["p_damaged", "severity_permille"]
"""From the least damaged on: the share of sound buildings among the first of a list is smallest so."""


def write_map(
    judged: Judged,
    tracks: Sequence[Track],
    path: Path,
    title: str,
    prepare: Prepare,
    every: int = 1,
) -> None:
    """Draw the predictions, and the points they rest on, into one HTML file that loads nothing from elsewhere.

    Args:
        judged: at least one building, with a CRS, and why each is not judged.
        tracks: points tables; may be empty. At most `MAX_POINTS` points are drawn, and the page says so.
        path: the `.html` to write, atomically.
        title: heading of the page.
        prepare: of the model that judged.
        every: one in so many points is in `tracks`.

    Raises:
        InputError: the file cannot be written.
    """
    crs = map_crs(judged.table, tracks)
    shown = judged.table.to_crs(crs)
    shown["why"] = judged.reason
    shown = shown.sort_values(ORDER, na_position="first", kind="stable").reset_index(drop=True)
    points = points_near_buildings(tracks, crs, shown.total_bounds, MAX_POINTS)
    # Small numbers about the middle: short in the file, and exact enough as 32-bit floats.
    origin = shown.total_bounds.reshape(2, 2).mean(axis=0).round()
    shown["geometry"] = shapely.transform(shown.geometry.to_numpy(), lambda position: position - origin)

    plot = _empty_plot()
    source = draw_buildings(plot, shown, reason_sentences(prepare))
    controls = [*_worst_first(plot, source, shown), *draw_points(plot, points, origin)]
    page = file_html(
        [plot, *controls],
        resources=INLINE,
        title=title,
        template=Path(__file__).with_name("map.html").read_text(encoding="utf-8"),
        template_variables={
            "controls": [control.name for control in controls],
            "subtitle": _subtitle(shown, tracks),
            "footer": _footer(shown, points, every, judged.rate),
        },
    )
    write_text(page, path)


def _empty_plot() -> figure:
    plot = figure(
        name="map",
        sizing_mode="stretch_both",
        match_aspect=True,
        tools="pan,wheel_zoom,zoom_in,zoom_out,reset",
        active_scroll="wheel_zoom",
        toolbar_location="right",
        background_fill_color="#f0f0ee",
        outline_line_color=None,
    )
    plot.axis.visible = False
    plot.grid.visible = False
    plot.toolbar.logo = None
    scale = ScaleBar(range=plot.x_range, unit="m", bar_length=110, length_sizing="adaptive", location="bottom_left")
    scale.update(bar_length_units="screen", background_fill_alpha=0.7, border_line_color=None, padding=6, margin=4)
    plot.add_layout(scale)
    # Bokeh fits the aspect once; when the window or the phone turns, metres must stay square.
    code = """
        const {x_range: x, y_range: y, inner_width, inner_height} = plot
        if (!(inner_width > 0 && inner_height > 0)) return
        const middle = (y.start + y.end) / 2, half = (x.end - x.start) * inner_height / inner_width / 2
        if (Math.abs(y.end - y.start - 2 * half) > 0.01 * half) y.setv({start: middle - half, end: middle + half})
    """
    square = CustomJS(args={"plot": plot}, code=code)
    plot.js_on_change("inner_width", square)
    plot.js_on_change("inner_height", square)
    return plot


def _worst_first(plot: figure, source: ColumnDataSource, shown: geopandas.GeoDataFrame) -> list[Select]:
    """A list of the buildings that are most surely damaged, if any; choosing one goes there. `shown`: they are last."""
    worst = shown[shown["p_damaged"].fillna(0) >= 0.5].iloc[::-1].head(WORST)
    if worst.empty:
        return []
    options: list[Any] = [("", "Go to one of the worst")]
    for row in worst.itertuples():
        said = (
            f"{isolated(row.building_id)}: {row.p_damaged:.0%}, {row.severity_permille:.1f} permille, {row.quadrants}"
        )
        options.append((str(row.Index), said))
    select = Select(options=options, name="worst", margin=0)
    # Marked as moved by hand, else the ranges fit themselves to all buildings again.
    code = """
        if (this.value === "") return
        const i = Number(this.value)
        const go = (range, middle, pixels) => {
            range.have_updated_interactively = true
            range.setv({start: middle - 0.15 * pixels, end: middle + 0.15 * pixels})
        }
        go(plot.x_range, source.data.x[i], plot.inner_width)
        go(plot.y_range, source.data.y[i], plot.inner_height)
        source.selected.indices = [i]
    """
    select.js_on_change("value", CustomJS(args={"plot": plot, "source": source}, code=code))
    return [select]


def _subtitle(shown: geopandas.GeoDataFrame, tracks: Sequence[Track]) -> str:
    text = f"Model version {', '.join(sorted(shown['model_version'].unique()))}"
    epochs = [track.epochs.astype("datetime64[D]") for track in tracks if len(track.epochs)]
    if epochs:
        text += f" · points from {min(part.min() for part in epochs)} to {max(part.max() for part in epochs)}"
    return text


def _footer(shown: geopandas.GeoDataFrame, points: list[MapPoints], every: int, rate: DamageRate) -> str:
    judged = int((shown["status"] == "ok").sum())
    *bounds, last = (f"{bound:g}" for bound in CATEGORY_BOUNDS_PERMILLE)
    text = (
        f"{judged:,} buildings judged, {len(shown) - judged:,} abstained. The dark quarter of a footprint is its "
        f"damaged quadrant. Categories 1 to 4 begin at a strain of {', '.join(bounds)} and {last} permille."
    )
    if judged:
        text += f" Severities and probabilities are for a city like this: {rate}."
    near, drawn = sum(part.near for part in points), sum(len(part.velocity) for part in points)
    if every > 1:
        text += f" Of about {near * every:,} points near the buildings, {drawn:,} can be shown, evenly thinned."
    elif drawn < near:
        text += f" Of {near:,} points near the buildings, {drawn:,} can be shown, evenly thinned."
    elif near:
        text += f" All {near:,} points near the buildings can be shown."
    return text
