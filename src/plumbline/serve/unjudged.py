"""Group the reasons why buildings are not judged, and show these buildings in a GeoPackage layer of their own."""

from __future__ import annotations

import geopandas

from plumbline.prepare.abstention import NO_MATTER, UNSURE_WHERE
from plumbline.serve.colours import GREY, ORANGE
from plumbline.serve.judgement import Judged
from plumbline.serve.predictions import UNJUDGED
from plumbline.serve.qgis.geopackage import Layer
from plumbline.serve.qgis.styles import Hatching, unjudged_style

REASON_GROUPS = {
    "unsure": ("damaged? unsure where", (UNSURE_WHERE,)),
    "points": ("points too few or noisy", ("few_points", "noisy_points", "no_points")),
    "size": ("too small or large", NO_MATTER),
    "unlike": ("unlike training", ("out_of_distribution",)),
}
"""Groups that share a hatching: label in the legend, and the reasons in it, see `abstention.reason_sentences`."""
HATCHINGS = {
    "unsure": Hatching("f_diagonal", "backslash", ORANGE),
    "points": Hatching("b_diagonal", "slash", GREY),
    "size": Hatching("horizontal", "horline", GREY),
    "unlike": Hatching("diagonal_x", "x", GREY),
}
"""As the web map has them."""


def unjudged_layer(judged: Judged) -> list[Layer]:
    """Make the layer `not_judged`, with a building a row: `building_id`, `n_points`, `reason` and `explanation`.

    Args:
        judged: all buildings.

    Returns:
        The layer; an empty list if all buildings are judged.
    """
    left = judged.reason != "ok"
    if not left.any():
        return []
    table = judged.table[left]
    content = geopandas.GeoDataFrame(
        {
            "building_id": table["building_id"].to_numpy(object),
            "n_points": table["n_points"].to_numpy(),
            "reason": judged.reason[left].astype(object),
            "explanation": [f"Not judged: {said}" for said in judged.explanation[left]],
        },
        geometry=table.geometry.to_numpy(),
        crs=table.crs,
    )
    shown = {label: (reasons, HATCHINGS[name]) for name, (label, reasons) in REASON_GROUPS.items()}
    return [Layer(UNJUDGED, [content], unjudged_style(UNJUDGED, shown), None)]
