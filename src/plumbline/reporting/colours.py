"""Define the colours of all drawings and the names of the categories, for the web map and QGIS alike.

ColorBrewer's sequential YlOrRd and diverging PRGn (colorbrewer2.org, Apache 2.0): both are colour-blind safe.
"""

from __future__ import annotations

CATEGORY_NAMES = ("negligible", "very slight", "slight", "moderate", "severe or worse")
"""Burland's words for the categories 0 to 4; the last stands for his 4 and 5."""
CATEGORY_COLOURS = ("#ffffb2", "#fecc5c", "#fd8d3c", "#f03b20", "#bd0026")
"""Of the categories 0 to 4: YlOrRd, whose order colour-blind readers see by its lightness."""
DIVERGING = (
    "#40004b",
    "#762a83",
    "#9970ab",
    "#c2a5cf",
    "#e7d4e8",
    "#f7f7f7",
    "#d9f0d3",
    "#a6dba0",
    "#5aae61",
    "#1b7837",
    "#00441b",
)
"""PRGn, from down or away from the satellite (purple) to up or towards it (green). Cannot be taken for a category."""
GREY, BROWN, ORANGE, TEAL = "#8a8a8a", "#6b5a3a", "#d95f0e", "#007d8a"
"""Of buildings that are not judged, outlines of the others, those not judged that may be damaged, and causes."""
