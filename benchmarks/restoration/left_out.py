"""Judge `plumbline restore` on real points that it was not given, beside a Gaussian process.

python -m benchmarks.restoration.left_out --points A.zip --points B.zip [--window SIDE_M]
    [--params params.yaml] [--options "..."] [--process-only]

A fifth of the points is left out, once in blocks of 50 m and once at random. `--window` takes the square with the most
points. `--params` says what the products do not say themselves; `restore` gets it, too.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import head, line, parse, parser, refusing, stamp
from benchmarks.makers.fields.scene import make_scene
from benchmarks.restoration.changes import Changes, take_changes
from benchmarks.restoration.fields import Field, restore
from benchmarks.restoration.gaussian_process import CORRELATIONS, Fit, fit, predict, weights
from benchmarks.restoration.hold_out import HOLD_OUTS, cut_window, read_lines
from benchmarks.restoration.metrics import Z90, crps
from benchmarks.restoration.report import COVERAGE, DEFAULT, PROCESS
from plumbline.params import Ingest, load_ingest
from plumbline.sources.city.in_memory import read_tracks
from plumbline.sources.points.track import Track, concatenate_tracks

Array = NDArray[np.float64]
NEAR_M = 160.0
"""Side of the squares of left-out points that are predicted from one set of neighbours."""
SERIES, FITTED = "of the series", "as fitted"


class Prediction(NamedTuple):
    """What is said of N left-out points, mm towards the satellite; NaN where nothing is."""

    mean: Array
    std: Array
    half: Array
    """Half of the 90 % interval, without the points' own noise."""


class Result(NamedTuple):
    """One answer for the left-out points of one way to leave them out."""

    held_out: str
    who: str
    noise: str
    """Where the points' own noise is taken from."""
    points: int
    answered: float
    """Share of the left-out points."""
    rmse: float
    crps: float
    coverage: float


def main(argv: Sequence[str] | None = None) -> None:
    """Judge, and print the report."""
    asked = parser("restoration.left_out", __doc__)
    asked.add_argument("--points", type=Path, action="append", default=[])
    asked.add_argument("--window", type=float, metavar="SIDE_M")
    asked.add_argument("--params", type=Path, help="params.yaml with ingest.products")
    asked.add_argument("--options", default="", help="more options for `plumbline restore`")
    asked.add_argument("--process-only", action="store_true", help="judge the Gaussian process alone")
    asked.add_argument("--covariance", choices=["likelier", *CORRELATIONS], default="likelier")
    asked.add_argument("--seed", type=int, default=0, help="of what is left out")
    given = parse(asked, argv, process_only=True, covariance="matern32")
    with tempfile.TemporaryDirectory() as scratch, refusing():
        if given.smoke and not given.points:
            make_scene(Path(scratch) / "scene", "sparse", 0)
            given.points = sorted((Path(scratch) / "scene").glob("*.csv"))
        if not given.points:
            asked.error("--points is needed; see --help")
        ingest = load_ingest(given.params) if given.params else Ingest()
        options = shlex.split(given.options) + (["--params", str(given.params)] if given.params else [])
        kind = None if given.covariance == "likelier" else given.covariance
        results = []
        for name in HOLD_OUTS:
            results += judge(
                given.points,
                name,
                Path(scratch) / name,
                window=given.window,
                ingest=ingest,
                options=None if given.process_only else options,
                kind=kind,
                seed=given.seed,
            )
        print(markdown([path.name for path in given.points], results))


def judge(
    points: Sequence[Path],
    held_out: str,
    scratch: Path,
    *,
    window: float | None = None,
    ingest: Ingest | None = None,
    options: Sequence[str] | None = None,
    kind: str | None = None,
    seed: int = 0,
) -> list[Result]:
    """Leave points out, have the others predict them, and compare with what they did.

    Args:
        points: products of one place, each of one track.
        held_out: one of `HOLD_OUTS`.
        scratch: folder for the products without, and of, the left-out points.
        window: side of the square to judge, m; None takes all.
        ingest: what products do not say themselves.
        options: of `plumbline restore`; None judges the Gaussian process alone.
        kind: of its covariance; None takes the likelier one.
        seed: of what is left out.
    """
    products = read_lines(points)
    products = products if window is None else cut_window(products, window)
    chosen = HOLD_OUTS[held_out](np.random.default_rng(seed), products)
    kept = [one.take(~rows).write(scratch / "kept") for one, rows in zip(products, chosen, strict=True)]
    left = [one.take(rows).write(scratch / "left") for one, rows in zip(products, chosen, strict=True) if rows.any()]
    ingest = ingest or Ingest()
    tracks, missing = read_tracks(kept, ingest), read_tracks(left, ingest)
    own = _own_changes(tracks, missing)
    given = take_changes(tracks).known()
    found = fit(given, kind)
    said = {PROCESS: by_process(found, given, own)}
    if options is not None:
        said = {DEFAULT: by_field(restore(kept, options).field, own), **said}
    answered = np.isfinite(next(iter(said.values())).mean)
    return [
        _compare(held_out, who, noise, prediction, own, sigma, answered)
        for who, prediction in said.items()
        for noise, sigma in ((SERIES, own.own_error), (FITTED, found.noise(own.error)))
    ]


def by_process(found: Fit, given: Changes, asked: Changes) -> Prediction:
    """Predict points' changes along their lines of sight by a Gaussian process."""
    square = np.floor(asked.place / NEAR_M).astype(np.int64)
    _, group = np.unique(square, axis=0, return_inverse=True)
    direction, mean, std = weights(given, asked), *np.empty((2, len(asked.change)))
    for one in range(group.max() + 1):
        rows = np.flatnonzero(group.ravel() == one)
        mean[rows], std[rows] = predict(found, given, asked.place[rows], direction[rows])
    return Prediction(mean, std, Z90 * std)


def by_field(field: Field, asked: Changes) -> Prediction:
    """Project a restored field to points' lines of sight.

    A field gives standard deviations of up and of east apart: their errors are taken as independent. The part of the
    movement to the north is not in it. Where only the line of sight is known, that is taken.
    """
    mean, variance, square = np.full((3, len(asked.change)), np.nan)
    names = field.names()
    if "los" in names:
        one = field.at("los", asked.place)
        mean, variance, square = one.mean, one.std**2, ((one.high - one.low) / 2) ** 2
    if {"up", "east"} <= set(names):
        parts = [(asked.los[:, 2], field.at("up", asked.place)), (asked.los[:, 0], field.at("east", asked.place))]
        both = np.isfinite(parts[0][1].mean) & np.isfinite(parts[1][1].mean)
        mean = np.where(both, sum(weight * one.mean for weight, one in parts), mean)
        variance = np.where(both, sum((weight * one.std) ** 2 for weight, one in parts), variance)
        spread = sum((weight * (one.high - one.low) / 2) ** 2 for weight, one in parts)
        square = np.where(both, spread, square)
    return Prediction(mean, np.sqrt(variance), np.sqrt(square))


def markdown(names: Sequence[str], results: Sequence[Result]) -> str:
    """Return the page."""
    lines = [
        head("left out", "who", "own noise", "points", "answered", "RMSE, mm", "CRPS, mm", "coverage of 90 %"),
        *(
            line(
                one.held_out,
                one.who,
                one.noise,
                one.points,
                f"{one.answered:.1%}",
                f"{one.rmse:.2f}",
                f"{one.crps:.3f}",
                _covered(one.coverage),
            )
            for one in results
        ),
    ]
    return "\n\n".join(
        [
            "# Restoration of left-out points",
            stamp(*names),
            "The change of each left-out point along its line of sight, and what the other points say of it. Its own "
            f"noise is in both figures: its standard error by its series, correlated in time ({SERIES}), or what the "
            f"likelihood of the Gaussian process makes of it ({FITTED}). All answers are compared at the points that "
            "`plumbline restore` answers. Errors of up and east are taken as independent: a field does not say how "
            f"they hang together. Coverage outside {COVERAGE[0]} to {COVERAGE[1]} is bold.",
            "\n".join(lines),
        ]
    )


def _covered(share: float) -> str:
    return f"{share:.3f}" if COVERAGE[0] <= share <= COVERAGE[1] else f"**{share:.3f}**"


def _own_changes(tracks: Sequence[Track], missing: Sequence[Track]) -> Changes:
    """Return changes of the left-out points over the period of all tracks."""
    own = {track.name: track for track in missing}
    whole = [concatenate_tracks([one, own[one.name]]) if one.name in own else one for one in tracks]
    left = np.concatenate([np.arange(len(both)) >= len(one) for both, one in zip(whole, tracks, strict=True)])
    return take_changes(whole).take(left).known()


def _compare(
    held_out: str, who: str, noise: str, said: Prediction, own: Changes, sigma: Array, answered: NDArray[np.bool_]
) -> Result:
    error = (said.mean - own.change)[answered]
    std, half = np.hypot(said.std, sigma)[answered], np.hypot(said.half, Z90 * sigma)[answered]
    many = int(answered.sum())
    if not many:
        return Result(held_out, who, noise, 0, 0.0, *[float("nan")] * 3)
    return Result(
        held_out,
        who,
        noise,
        many,
        float(answered.mean()),
        float(np.sqrt((error**2).mean())),
        float(crps(np.zeros(many), std, error).mean()),
        float((np.abs(error) <= half).mean()),
    )


if __name__ == "__main__":
    main()
