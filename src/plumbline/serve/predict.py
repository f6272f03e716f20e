"""Judge a user's own buildings from their points: one judgement or abstention per building."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log, warn
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.params import Prepare
from plumbline.prepare.abstention import NO_MATTER, UNSURE_WHERE
from plumbline.serve.judgement import log_damaged, log_unjudged
from plumbline.serve.layers import further_layers
from plumbline.serve.map.page import check_basemap, check_page, write_map
from plumbline.serve.predictions import Outputs, write_predictions
from plumbline.serve.request import Request, open_city


def predict(
    request: Request, output: Path, map_path: Path | None = None, basemap: str | None = None
) -> geopandas.GeoDataFrame:
    """Judge every footprint and write the predictions, and a map if wanted; both or neither.

    Args:
        request: what is judged.
        output: predictions; the suffix names the format.
        map_path: HTML file.
        basemap: address of tiles for the map, see `check_basemap`.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is
            written then.
    """
    if map_path is not None:
        check_page()
    if basemap is not None:
        check_basemap(basemap)
        if map_path is None:
            raise InputError(
                f"--basemap {basemap}: without --map there is no map. Give --map, or leave "
                "--basemap out.",
                key="basemap.without_map",
            )
    opened = open_city(request, Outputs(output, map_path))
    city = opened.city
    log.info(
        "%d buildings and %d points: judging", len(city.footprints), sum(map(len, city.points))
    )
    is_geopackage = output.suffix.lower() == ".gpkg"
    answered = opened.answer(areas=is_geopackage or map_path is not None)
    judged, table, reason = answered.judged, answered.judged.table, answered.judged.reason
    layers = further_layers(answered, city.points) if is_geopackage else []
    with ExitStack() as files:
        if map_path is not None:
            # Drawn before the predictions are written and put in its place after: both files
            # or neither.
            temporary_map = files.enter_context(atomic_file(map_path))
            log.info("drawing %s", map_path)
            write_map(
                judged,
                city.points,
                temporary_map,
                request.title,
                basemap=basemap,
                owners=answered.prepared.owners,
            )
        log.info("writing %s", output)
        write_predictions(table, output, layers)
    counts = table["status"].value_counts()
    n_unsure_where = int((reason == UNSURE_WHERE).sum())
    warn_of_unjudged(reason, opened.model.prepare)
    log.info(
        "%d buildings: %s", len(table), ", ".join(f"{n} {status}" for status, n in counts.items())
    )
    log_unjudged(judged)
    log_damaged(judged)
    if n_unsure_where:
        log.info(
            "%d of the insufficient_points may be damaged, but no quadrant of theirs is probable "
            "enough: they have their p_damaged all the same",
            n_unsure_where,
        )
    return table


def warn_of_unjudged(reason: NDArray[np.object_], prepare: Prepare) -> None:
    """Warn with the reasons if fewer than half of the buildings were judged.

    Buildings that only lack a probable quadrant do not count: their points are where they
    should be.

    Args:
        reason: of each building, see `CityPredictions`. prepare: of the model that judged.
    """
    number = Counter(reason.tolist())
    if 2 * (number["ok"] + number[UNSURE_WHERE]) >= len(reason):
        return
    warn(
        "%d of %d buildings were judged. %d have no scatterer on them, %d too few of them, %d "
        "too noisy ones or all on "
        "one line, %d have a side below %g or above %g m, %d are unlike all that the model was "
        "trained on, or "
        "observed for a shorter time. Do points and footprints match (a map shows it)? Cells of "
        "100 m, as "
        "of EGMS L3, are too coarse for single houses.",
        number["ok"],
        len(reason),
        number["no_points"],
        number["few_points"],
        number["noisy_points"],
        sum(number[name] for name in NO_MATTER),
        prepare.min_side_m,
        prepare.max_side_m,
        number["out_of_distribution"],
        key="buildings.few_judged",
    )
