"""What is drawn on the map: buildings with their damaged quadrants, and the points of each track."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import geopandas
import numpy as np
import shapely
from bokeh.core.properties import value
from bokeh.models import (
    CDSView,
    ColorBar,
    ColumnDataSource,
    CustomJS,
    FixedTicker,
    HoverTool,
    IndexFilter,
    Legend,
    LegendItem,
    LinearColorMapper,
    Model,
    TapTool,
    Toggle,
)
from bokeh.plotting import figure
from numpy.typing import NDArray

from plumbline.prepare.abstention import NO_MATTER
from plumbline.serve.colours import BROWN, CATEGORY_COLOURS, CATEGORY_NAMES, DIVERGING, GREY
from plumbline.serve.map.content import MapPoints, description, quarters

CHOSEN = "#0050b3"
HATCHES = {
    ("unsure_where",): ("damaged? unsure where", "\\", CATEGORY_COLOURS[2]),
    ("insufficient_points", "no_points"): ("points too few or noisy", "/", GREY),
    NO_MATTER: ("too small or large", "-", GREY),
    ("out_of_distribution",): ("unlike training", "x", GREY),
}
"""Reasons for abstaining, see `abstention.reasons` -> label in the legend, hatching, its colour."""
FAR_M_PER_PX = 2.0
"""From this scale outwards a building is pointed at by its dot; further in, by its footprint."""
WIDE_AND_NARROW = """
    .bk-grid { column-gap: 18px }
    @media (max-width: 1500px) { .bk-grid { grid-template: auto / repeat(5, auto) } }
    @media (max-width: 1000px) { .bk-grid { grid-template: auto / repeat(2, auto) } }
    @media (max-width: 520px) {
        .bk-grid { grid-template: auto / repeat(2, minmax(0, 1fr)); width: calc(100vw - 24px) }
        .bk-title { white-space: normal; width: calc(100vw - 24px) }
        .bk-item .bk-label { white-space: normal }
        .bk-item .bk-glyph { flex: none }
    }
"""
"""Columns of the legend; on a phone its lines break, so that none runs out of the page."""


class LegendGroup(NamedTuple):
    """Buildings that share a line of the legend."""

    label: str
    member: NDArray[np.bool_]
    dot_px: float
    style: dict[str, Any]


def groups(why: NDArray[np.object_], category: NDArray[np.int64]) -> list[LegendGroup]:
    """The reasons for abstaining, then the categories 0 to 4: the order of drawing, so that the worst is on top."""
    hatched = {"fill_color": "#ffffff", "line_color": GREY, "hatch_scale": 6}
    return [
        *(
            LegendGroup(label, np.isin(why, reasons), 4, {**hatched, "hatch_pattern": hatch, "hatch_color": colour})
            for reasons, (label, hatch, colour) in HATCHES.items()
        ),
        *(
            LegendGroup(f"{code} {name}", category == code, 5 + 1.5 * code, {"fill_color": colour, "line_color": BROWN})
            for code, (name, colour) in enumerate(zip(CATEGORY_NAMES, CATEGORY_COLOURS, strict=True))
        ),
    ]


def draw_buildings(plot: figure, shown: geopandas.GeoDataFrame, said: Mapping[str, str]) -> ColumnDataSource:
    """Draw footprints, the dots that stand for them from afar, and the damaged quarters, with a legend.

    Args:
        plot: where to draw.
        shown: B predictions, least severe first, in map coordinates, m, and `why`, see `abstention.reasons`.
        said: of each reason for abstaining, see `reason_sentences`.

    Returns:
        The source of the B buildings, with `x`, `y` (middle, m) and `text` (HTML).
    """
    footprints = shown.geometry.to_numpy()
    middle = shapely.get_coordinates(shapely.centroid(footprints)).round(2)
    xs, ys = _rings(footprints)
    text = [description(building, said.get(building.why, "")) for building in shown.itertuples()]
    source = ColumnDataSource(
        {"x": middle[:, 0], "y": middle[:, 1], "xs": xs, "ys": ys, "text": text}, name="buildings"
    )
    category = shown["burland_category"].fillna(-1).to_numpy(np.int64)
    members = groups(shown["why"].to_numpy(object), category)
    chosen = {"line_width": 0.5, "selection_line_width": 4, "selection_line_color": CHOSEN}
    views = [CDSView(filter=IndexFilter(np.flatnonzero(group.member).tolist())) for group in members]
    dots = []
    for group, view in zip(members, views, strict=True):
        style = {name: part for name, part in group.style.items() if not name.startswith("hatch")}
        dots.append(plot.scatter("x", "y", source=source, view=view, size=group.dot_px, **style, **chosen))
    areas = [
        plot.multi_polygons("xs", "ys", source=source, view=view, **group.style, **chosen)
        for group, view in zip(members, views, strict=True)
    ]
    for renderer in (*dots, *areas):
        renderer.nonselection_glyph = None  # what is not chosen stays as it is
    for group, dot, area in zip(members, dots, areas, strict=True):
        area.js_link("visible", dot, "visible")
        damaged = group.member & (category >= 1)
        if damaged.any():
            qx, qy = _rings(quarters(footprints[damaged], shown.loc[damaged, "quadrant"].tolist()))
            quarter = ColumnDataSource({"xs": qx, "ys": qy})
            mark = plot.multi_polygons("xs", "ys", source=quarter, fill_color="black", fill_alpha=0.6, line_color=None)
            area.js_link("visible", mark, "visible")
    # Not the dots: they have no size in metres, and one alone would be shown 2 m wide.
    plot.x_range.renderers = plot.y_range.renderers = areas
    items = [
        LegendItem(label=value(f"{group.label}: {int(group.member.sum()):,}"), renderers=[area])
        for group, area in zip(members, areas, strict=True)
    ]
    legend = Legend(
        items=[*items[len(HATCHES) :], *items[: len(HATCHES)]],
        title="Burland category: number of buildings (press to hide)",
        click_policy="hide",
        orientation="horizontal",
        ncols=len(items),
        stylesheets=[WIDE_AND_NARROW],
        spacing=8,
        margin=4,
        location="left",
        border_line_color=None,
    )
    plot.add_layout(legend, "below")
    _add_pointing(plot, source, dots, areas)
    return source


def _add_pointing(plot: figure, source: ColumnDataSource, dots: list[Model], areas: list[Model]) -> None:
    """Hover and tap: both say the same about a building, whether its dot or its footprint is met."""
    for renderers, further in ((dots, ">"), (areas, "<=")):
        scale = "(plot.x_range.end - plot.x_range.start) / plot.inner_width"
        here = CustomJS(args={"plot": plot}, code=f"export default ({{plot}}) => {scale} {further} {FAR_M_PER_PX}")
        tooltip = '<div style="max-width: 280px">@text{safe}</div>'  # safe: `description` has escaped it
        hover = HoverTool(renderers=renderers, tooltips=tooltip, filters={"@text": here}, limit=2, visible=False)
        plot.add_tools(hover)
    plot.add_tools(TapTool(renderers=[*areas, *dots], mode="replace", visible=False))
    # Dots may overlap: of several, the worst is meant, which is the last of the source.
    code = """
        const {indices} = source.selected
        if (indices.length > 1) source.selected.indices = [Math.max(...indices)]
        if (indices.length === 1) document.getElementById("details").innerHTML = source.data.text[indices[0]]
    """
    source.selected.js_on_change("indices", CustomJS(args={"source": source}, code=code))


def draw_points(plot: figure, points: list[MapPoints], origin: NDArray[np.float64]) -> list[Toggle]:
    """Draw one hidden layer a track, and return a toggle for each; a colour bar shows with any of them.

    Args:
        plot: where to draw.
        points: K tracks.
        origin: (2,) east and north of the map coordinates' origin, m.
    """
    speeds = np.concatenate([np.zeros(0), *(np.abs(part.velocity) for part in points)])
    speeds = speeds[np.isfinite(speeds)]
    if not len(speeds):
        return []
    limit = max(2.0, float(np.ceil(np.percentile(speeds, 98))))
    mapper = LinearColorMapper(palette=DIVERGING, low=-limit, high=limit, nan_color=GREY)
    ticks = (-limit, -limit / 2, 0.0, limit / 2, limit)
    bar = ColorBar(
        color_mapper=mapper,
        ticker=FixedTicker(ticks=ticks),
        # The fastest points have the colours of the ends, whatever their velocity.
        major_label_overrides={-limit: f"≤\u2212{limit:g}", limit: f"≥{limit:g}"},
        title="Mean velocity, mm/yr, towards the satellite",
        orientation="horizontal",
        width=260,
        height=8,
        padding=12,
        location="top_left",
        visible=False,
    )
    plot.add_layout(bar, "above")
    toggles = []
    for i, (part, name) in enumerate(zip(points, _short([part.name for part in points]), strict=True)):
        x, y = (part.east_north - origin).astype(np.float32).T
        layer = ColumnDataSource({"x": x, "y": y, "velocity": part.velocity.astype(np.float32)})
        colour = {"field": "velocity", "transform": mapper}
        style = {"size": 5, "fill_color": colour, "line_color": "#555555", "line_width": 0.3}
        drawn = plot.scatter("x", "y", source=layer, visible=False, **style)
        toggle = Toggle(label=f"Points {name}", name=f"points{i}", margin=0)
        toggle.js_link("active", drawn, "visible")
        toggles.append(toggle)
    any_shown = CustomJS(args={"bar": bar, "toggles": toggles}, code="bar.visible = toggles.some(t => t.active)")
    for toggle in toggles:
        toggle.js_on_change("active", any_shown)
    return toggles


def _short(names: list[str]) -> list[str]:
    """Product names without the parts they all share."""
    parts = [name.split("_") for name in names]
    shared = set(parts[0]).intersection(*parts)
    return ["_".join(part for part in own if part not in shared) or "_".join(own) for own in parts]


def _rings(geometries: NDArray[np.object_]) -> tuple[list[Any], list[Any]]:
    """Bokeh's nesting of polygons: geometry, part, ring (the outer first); x and y in m, to the centimetre."""
    nested: tuple[list[Any], list[Any]] = ([], [])
    for geometry in geometries:
        parts = [shapely.get_rings(part) for part in shapely.get_parts(geometry) if part.geom_type == "Polygon"]
        for axis in (0, 1):
            nested[axis].append(
                [[shapely.get_coordinates(ring)[:, axis].round(2).tolist() for ring in part] for part in parts]
            )
    return nested
