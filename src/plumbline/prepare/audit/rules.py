"""List the rules of the audit: what each looks at, its bounds, and what to do."""

from __future__ import annotations

from plumbline.core.compass import QUADRANTS
from plumbline.prepare.audit.cases import (
    categories,
    constant,
    correlated,
    damage,
    figure,
    from_reference,
    from_train,
    in_cities,
    in_splits,
    in_tracks,
    leaks,
    levels,
    not_finite,
    notes,
    outliers,
    period_shares,
    points_left,
    portion,
    rarer_kind,
    reasons,
    shared_blocks,
    shares,
    skews,
    split_sizes,
    without_quadrant,
    wrong,
    years,
)
from plumbline.prepare.audit.judge import AuditRule


def silent(key: str, stage: str = "ingest") -> str:
    """Return the message that tracks were not looked at, because the report of `stage` lacks `key`."""
    return f"not looked at: the report of `{stage}` has no {key}"


noise = in_tracks(figure("noise_mm", "mm of noise from epoch to epoch"))
CHECK_UNIT = (
    "Look at the unit of the displacements: a file in m or cm that was read as mm, or the other way round. Tables of "
    "columns state it (`ingest.products`: units); correct it there, or convert the file to what its format has."
)
# fmt: off
RULES = (
    AuditRule("points", points_left, low=True, nothing=silent("cities"),
        advice="Check the product, and the bounds of the quality filter in `ingest`."),
    AuditRule("points_dropped", in_tracks(reasons("dropped", "points_read", "of {} points dropped")),
        warn="max_dropped_share", nothing=silent("points_read"),
        advice="See which reason leads. Look at the quality of the product before loosening `ingest.min_coherence` or "
               "`ingest.max_rmse_mm`; pixels of a raster without values are no_data, and no fault of it."),
    AuditRule("points_assigned", in_tracks(portion("assigned", "points", "points are on a building")),
        warn="min_assigned_share", low=True, nothing=silent("assigned"),
        advice="Draw points and footprints together: a shift, another area, or roofs that return no signal."),
    AuditRule("buildings_left_out", in_cities(reasons("left_out", "buildings", "of {} buildings left out")),
        warn="max_left_out_share", nothing=silent("buildings"),
        advice="See which reason leads: few points (`prepare.min_points`, `prepare.buffer_m`) or no label."),
    AuditRule("epochs", in_tracks(figure("epochs", "epochs")), warn="min_epochs", low=True, nothing=silent("epochs"),
        advice="A rate from so few acquisitions is hardly better than their noise. Use a longer product."),
    AuditRule("period", in_tracks(years), warn="min_years", low=True, nothing=silent("first_epoch and last_epoch"),
        advice="Below a full year, warmth looks like movement. Use a longer product, or trust rates less."),
    AuditRule("track_period", period_shares, warn="min_period_share", low=True,
        nothing=silent("first_epoch and last_epoch"),
        advice="Tracks of other years see other movement: cut them to the years they share."),
    AuditRule("gaps", in_tracks(figure("longest_gap_days", "days without an acquisition")), warn="max_gap_days",
        nothing=silent("longest_gap_days"),
        advice="Look whether the movement jumps across the gap: a phase ambiguity there cannot be seen in the series."),
    AuditRule("missing", in_tracks(figure("missing_share", "of the displacements are missing")),
        warn="max_missing_share", nothing=silent("missing_share"),
        advice="Find the epochs or points that lack values, and drop those."),
    AuditRule("duplicates", in_tracks(portion("duplicates", "points_looked_at", "points share their position")),
        warn="max_duplicate_share", nothing=silent("points_looked_at", "prepare"),
        advice="A product that was merged or resampled: the same measurement counts more than once."),
    AuditRule("notes", notes, warn=0,
        advice="Read what was decided, and correct the file if it is not what you meant."),
    AuditRule("speed",
        in_tracks(figure("speed_p99_mm_yr", "mm/yr along LOS is surely exceeded by one building in a hundred")),
        warn="max_speed_mm_yr", fail="refuse_speed_mm_yr", nothing=silent("speed_p99_mm_yr", "prepare"),
        advice=CHECK_UNIT),
    AuditRule("noise_low", noise, warn="min_noise_mm", fail="refuse_noise_below_mm", low=True,
        nothing=silent("noise_mm", "prepare"),
        advice=CHECK_UNIT
               + " Series that were smoothed, or that hold a model's fit, look so as well: take the measured ones."),
    AuditRule("noise_high", noise, warn="max_noise_mm", fail="refuse_noise_above_mm",
        nothing=silent("noise_mm", "prepare"),
        advice=CHECK_UNIT + " Series that were not unwrapped, or of points without coherence, look so as well."),
    AuditRule("split_size", split_sizes, warn="min_split", fail=1, low=True,
        advice="Give more labelled buildings, lower `prepare.min_points`, or change `prepare.split`. Figures of a "
               "small split are uncertain."),
    AuditRule("labelled", in_cities(portion("labelled", "buildings", "buildings have a label")),
        warn="min_labelled_share", low=True, nothing=silent("labelled"),
        advice="Were the labelled ones chosen because they are damaged? Then the model learns damage to be common."),
    AuditRule("severity_known", wrong("severities are no number from 0 up", "severity"), fail=0,
        advice="Correct the labels."),
    AuditRule("severity_range",
        in_splits(lambda split: (split.severity_max, f"largest severity {split.severity_max:.4g} permille")),
        warn="max_severity_permille", fail="refuse_severity_permille",
        advice="Check the unit (permille, so 0.001 of strain is 1) and the buildings with the largest values."),
    AuditRule("quadrant_codes",
        wrong("quadrants are no code of 0 to 3, or of an undamaged building", "quadrant", "quadrant_of_undamaged"),
        fail=0,
        advice="Correct the labels: a quadrant belongs to category 1 and above."),
    AuditRule("quadrant_known", in_splits(without_quadrant), warn=0,
        advice="Add the quadrants to the labels where they are known."),
    AuditRule("damage_present", damage, low=True,
        advice="Both are needed to tell them apart: add buildings of the other kind."),
    AuditRule("damage_balance", rarer_kind, warn="min_damage_share", low=True,
        advice="Add buildings of the rarer kind, or weigh them."),
    AuditRule("category_present", categories, warn=1, low=True,
        advice="Nothing can be learnt, or measured, of it there."),
    AuditRule("category_balance", shares(lambda train: train.categories, [f"category {i}" for i in range(5)]),
        warn="min_category_share", low=True,
        advice="Add buildings of that category, or weigh them."),
    AuditRule("quadrant_balance", shares(lambda train: train.quadrants, QUADRANTS), warn="min_quadrant_share", low=True,
        advice="Keep `train.augment` on: it turns every quadrant into every other."),
    AuditRule("difficulty_codes", wrong("codes of difficulty are not from -1 to 2", "difficulty"), fail=0,
        advice="Run `plumbline prepare` again."),
    AuditRule("difficulty_present", levels, warn=1, low=True, advice="Figures by difficulty will miss that level."),
    AuditRule("building_leak", lambda facts: leaks(facts.buildings_shared, "buildings"), fail=0,
        advice="Give each building once, by one identifier."),
    AuditRule("block_leak", shared_blocks, fail=0, advice="Split by whole blocks."),
    AuditRule("twin_leak",
        lambda facts: leaks(facts.twins, "buildings equal another one in every value", within=(0, None)), fail=0,
        advice="One building was given twice, under two names or cities: keep one."),
    AuditRule("finite", not_finite, fail=0,
        advice="A fault of the stage, or a product with values that cannot be: report it."),
    AuditRule("constant", constant, warn=0,
        advice="Nothing is learnt of it: a model that meets another value there has not seen the like."),
    AuditRule("outliers", outliers, warn="max_outlier_share",
        advice="Look at the histogram: a second population, a wrong unit, or a heavy tail."),
    AuditRule("skew", skews, warn="max_skew", advice="A few values set its mean and spread: look at the largest ones."),
    AuditRule("correlation", correlated, warn="max_correlation",
        advice="One of the two adds nothing here; no harm to a network, but read no importance into either."),
    AuditRule("drift_splits", from_train, warn="max_psi",
        advice="The splits differ in kind: figures of that split are not those of buildings like the training ones."),
    AuditRule("drift_reference", from_reference, warn="max_psi", nothing="not looked at: nothing to compare",
        advice="Find out what changed: product, area, or processing. A model of the reference is a stranger here."),
)
# fmt: on
"""Judged in this order: tracks and cities, labels, buildings and features."""
