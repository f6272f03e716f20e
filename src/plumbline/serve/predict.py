"""Judge a user's own buildings from their points: one judgement or abstention per building."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import geopandas
import numpy as np
from numpy.typing import NDArray

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.core.files import atomic_file
from plumbline.params import Prepare
from plumbline.prepare.abstention import NO_MATTER, UNSURE_WHERE
from plumbline.serve.judgement import answer, open_model, say_damaged, say_unjudged
from plumbline.serve.layers import further_layers
from plumbline.serve.map.page import check_basemap, check_page, write_map
from plumbline.serve.options import AS_RELEASED, Options
from plumbline.serve.predictions import check_inputs, check_outputs, write_predictions
from plumbline.sources.city.in_memory import Say, read_city_files
from plumbline.sources.files.opened import AnyFile, as_file


def predict(
    points: Sequence[AnyFile],
    buildings: Path,
    package: Path,
    output: Path,
    map_path: Path | None = None,
    options: Options = AS_RELEASED,
    artifact: str | None = None,
    basemap: str | None = None,
) -> geopandas.GeoDataFrame:
    """Judge every footprint and write the predictions, and a map if wanted; both or neither.

    Args:
        points: product files, each one track.
        buildings: footprints.
        package: model package folder.
        output: predictions; the suffix names the format.
        map_path: HTML file.
        options: how the files are read and the answers judged.
        artifact: model of the package; its default without.
        basemap: address of tiles for the map, see `check_basemap`.

    Raises:
        InputError: anything given is missing, damaged or does not fit together. No file is written then.
    """
    inputs = [*(as_file(file).path for file in points), buildings, *options.files]
    check_inputs(inputs)
    check_outputs(output, map_path, inputs, package)
    if map_path is not None:
        check_page()
    if basemap is not None:
        check_basemap(basemap)
        if map_path is None:
            raise InputError(f"--basemap {basemap}: without --map there is no map. Give --map, or leave --basemap out.")
    model = open_model(package, artifact)
    city = read_city_files(points, buildings, options.reading, Say.ALL, output.absolute().parent)
    log.info("%d buildings and %d points: judging", len(city.footprints), sum(map(len, city.points)))
    layered = output.suffix.lower() == ".gpkg"
    answered = answer(city, model, options, areas=layered or map_path is not None)
    judged, table, reason = answered.judged, answered.judged.table, answered.judged.reason
    layers = further_layers(answered, city.points) if layered else []
    with ExitStack() as staged:
        if map_path is not None:
            # Drawn before the predictions are written and put in its place after: both files or neither.
            drawn = staged.enter_context(atomic_file(map_path))
            log.info("drawing %s", map_path)
            title, owners = f"Plumbline: {buildings.stem}", answered.prepared.owners
            write_map(judged, city.points, drawn, title, basemap=basemap, owners=owners)
        log.info("writing %s", output)
        write_predictions(table, output, layers)
    counts = table["status"].value_counts()
    torn = int((reason == UNSURE_WHERE).sum())
    warn_of_unjudged(reason, model.prepare)
    log.info("%d buildings: %s", len(table), ", ".join(f"{n} {status}" for status, n in counts.items()))
    say_unjudged(judged)
    say_damaged(judged)
    if torn:
        log.info(
            "%d of the insufficient_points may be damaged, but no quadrant of theirs is probable enough: "
            "they have their p_damaged all the same",
            torn,
        )
    return table


def warn_of_unjudged(reason: NDArray[np.object_], prepare: Prepare) -> None:
    """Warn with the reasons if fewer than half of the buildings were judged.

    Buildings that only lack a probable quadrant do not count: their points are where they should be.

    Args:
        reason: of each building, see `Judged`. prepare: of the model that judged.
    """
    number = Counter(reason.tolist())
    if 2 * (number["ok"] + number[UNSURE_WHERE]) >= len(reason):
        return
    log.warning(
        "%d of %d buildings were judged. %d have no scatterer on them, %d too few of them, %d too noisy ones or all on "
        "one line, %d have a side below %g or above %g m, %d are unlike all that the model was trained on, or "
        "observed for a shorter time. Do points and footprints lie on each other (a map shows it)? Cells of 100 m, as "
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
    )
