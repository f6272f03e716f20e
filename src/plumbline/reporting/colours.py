"""Define the colours of all drawings and the names of the categories, for the web map and
QGIS alike.

ColorBrewer's sequential YlOrRd and BuPu and diverging PRGn (colorbrewer2.org, Apache 2.0):
all are colour-blind safe.
"""

from __future__ import annotations

from itertools import pairwise

CATEGORY_NAMES = ("negligible", "very slight", "slight", "moderate", "severe or worse")
"""Burland's words for the categories 0 to 4; the last stands for his 4 and 5."""
CATEGORY_COLOURS = ("#ffffb2", "#fecc5c", "#fd8d3c", "#f03b20", "#bd0026")
"""Colours of the categories 0 to 4: YlOrRd, in an order that colour-blind readers see by
its lightness."""
PROBABILITY_EDGES = (0.02, 0.05, 0.2, 0.5, 0.8)
"""Probabilities of damage between two colours. In most cities few buildings in a hundred
are damaged."""
PROBABILITY_COLOURS = ("#edf8fb", "#bfd3e6", "#9ebcda", "#8c96c6", "#8856a7", "#810f7c")
"""Colours of the classes of probability: BuPu, from almost white to dark."""
PROBABILITY_NAMES = (
    f"below {100 * PROBABILITY_EDGES[0]:.0f} %",
    *(f"{100 * low:.0f} to {100 * high:.0f} %" for low, high in pairwise(PROBABILITY_EDGES)),
    f"{100 * PROBABILITY_EDGES[-1]:.0f} % or more",
)
"""Labels of the classes of probability in legends."""
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
"""PRGn, from down or away from the satellite (purple) to up or towards it (green). Cannot
be taken for a category."""
GREY, BROWN, ORANGE, TEAL = "#8a8a8a", "#6b5a3a", "#d95f0e", "#007d8a"
"""Colours of buildings that are not judged, of outlines of the others, of those not judged
that may be damaged, and of causes."""
