"""Say why a building was not judged, in more words than its status has."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from plumbline.core.compass import frames
from plumbline.params import Prepare
from plumbline.prepare.exclusions import too_small_or_large

UNSURE_WHERE = "unsure_where"
"""Reason of those that want a probable quadrant alone."""
NO_MATTER = ("too_small", "too_large")
"""Reasons that more points would not change."""


def why_not(
    predictions: pd.DataFrame,
    footprints: NDArray[np.object_],
    prepare: Prepare,
    unsure: NDArray[np.bool_] | None = None,
) -> NDArray[np.object_]:
    """(B,) the status of each building; where it is `insufficient_points`, what of that: a key of `sentences`.

    Args:
        predictions: B rows with `status` and `n_points`.
        footprints: (B,) of them, in m.
        prepare: of the model that judged.
        unsure: (B,) which want a probable quadrant alone, see `judgement.unsure_where`; None: that is not known.
    """
    why = np.array(predictions["status"], object)
    few = why == "insufficient_points"
    if unsure is not None:
        why[few & unsure] = UNSURE_WHERE
    why[few & (predictions["n_points"] == 0).to_numpy()] = "no_points"
    for name, odd in zip(NO_MATTER, too_small_or_large(frames(footprints).side, prepare), strict=True):
        why[few & odd] = name
    return why


def reason_sentences(prepare: Prepare) -> dict[str, str]:
    """The end of the sentence `Not judged: ...` for each reason."""
    return {
        "too_small": f"its shorter side is below {prepare.min_side_m:g} m, less than the places of points are sure",
        "too_large": f"its longer side is above {prepare.max_side_m:g} m, so that its parts move on their own",
        UNSURE_WHERE: "it may be damaged, and its points do not tell in which quadrant",
        "no_points": "no usable point is on it",
        "insufficient_points": "its points are too few, all on one line, or too noisy to tell damage and its quadrant",
        "out_of_distribution": "it or its points are unlike anything the model was trained on",
    }
