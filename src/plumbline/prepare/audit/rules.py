"""List the rules of the audit: what each looks at, its bounds, and what to do."""

from __future__ import annotations

from plumbline.core.compass import QUADRANTS
from plumbline.prepare.audit.cases import (
    damage,
    from_train,
    in_splits,
    in_tracks,
    leaks,
    not_finite,
    notes,
    rarer_kind,
    remaining_points,
    share_without_quadrant,
    shared_blocks,
    shares,
    skews,
    split_sizes,
)
from plumbline.prepare.audit.judge import AuditRule


def silent(key: str, stage: str = "ingest") -> str:
    """Return the message that tracks were not looked at, because the report of `stage` lacks
    `key`."""
    return f"not looked at: the report of `{stage}` has no {key}"


MAX_SPEED_MM_YR = 100.0
"""Largest speed along LOS of one building in a hundred, less three standard errors: few
cities sink faster."""
MIN_NOISE_MM = 0.3
"""Smallest median noise from epoch to epoch. Corner reflectors were measured to 0.75 mm
(Ferretti et al. 2007, IEEE TGRS 45: 1142-1153); means over cells and smoothed series have
less."""
MAX_NOISE_MM = 20.0
"""Largest median noise. Random phase has `wavelength / (4 sqrt(3))`: 8 mm at C band, 34 mm
at L band."""
MIN_SPLIT = 30
"""Smallest number of buildings of a split."""
noise = in_tracks("noise_mm", "mm of noise from epoch to epoch")
CHECK_UNIT = (
    "Look at the unit of the displacements: a file in m or cm that was read as mm, or the other "
    "way round. Tables of "
    "columns state it (`ingest.products`: units); correct it there, or convert the file to what "
    "its format has."
)
# fmt: off
RULES = (
    AuditRule("points", remaining_points, low=True, nothing=silent("cities"),
        advice="Check the product, and the bounds of the quality filter in `ingest`."),
    AuditRule("notes", notes, warn=0,
        advice="Read what was decided, and correct the file if it is not what you meant."),
    AuditRule("speed",
        in_tracks("speed_p99_mm_yr", "mm/yr along LOS is surely exceeded by one building in a "
                                     "hundred"),
        warn=MAX_SPEED_MM_YR, fail="refuse_speed_mm_yr", nothing=silent("speed_p99_mm_yr", "prepare"),
        advice=CHECK_UNIT),
    AuditRule("noise_low", noise, warn=MIN_NOISE_MM, fail="refuse_noise_below_mm", low=True,
        nothing=silent("noise_mm", "prepare"),
        advice=CHECK_UNIT
               + " Series that were smoothed, or that hold a model's fit, look so as well: take "
                 "the measured ones."),
    AuditRule("noise_high", noise, warn=MAX_NOISE_MM, fail="refuse_noise_above_mm",
        nothing=silent("noise_mm", "prepare"),
        advice=CHECK_UNIT + " Series that were not unwrapped, or of points without coherence, "
                            "look so as well."),
    AuditRule("split_size", split_sizes, warn=MIN_SPLIT, fail=1, low=True,
        advice="Give more labelled buildings, lower `prepare.min_points`, or change "
               "`prepare.split`. Figures of a "
               "small split are uncertain."),
    AuditRule("severity_known",
        in_splits(lambda split: split.wrong["severity"], "{} severities are no number from 0 up"), fail=0,
        advice="Correct the labels."),
    AuditRule("severity_range",
        in_splits(lambda split: split.severity_max, "largest severity {} permille"),
        warn=20.0, fail="refuse_severity_permille",
        advice="Check the unit (permille, so 0.001 of strain is 1) and the buildings with the "
               "largest values."),
    AuditRule("quadrant_codes",
        in_splits(lambda split: split.wrong["quadrant"] + split.wrong["quadrant_of_undamaged"],
            "{} quadrants are no code of 0 to 3, or of an undamaged building"),
        fail=0,
        advice="Correct the labels: a quadrant belongs to category 1 and above."),
    AuditRule("quadrant_known",
        in_splits(share_without_quadrant, "a share {} of the damaged buildings has no quadrant"), warn=0,
        advice="Add the quadrants to the labels where they are known."),
    AuditRule("damage_present", damage, low=True,
        advice="Both are needed to tell them apart: add buildings of the other kind."),
    AuditRule("damage_balance", rarer_kind, warn=0.05, low=True,
        advice="Add buildings of the rarer kind, or weigh them."),
    AuditRule("category_balance", shares(lambda train: train.categories, [f"category {i}" for i in range(5)]),
        warn=0.02, low=True,
        advice="Add buildings of that category, or weigh them."),
    AuditRule("quadrant_balance", shares(lambda train: train.quadrants, QUADRANTS), warn=0.1, low=True,
        advice="Keep `train.augment` on: it turns every quadrant into every other."),
    AuditRule("building_leak", lambda facts: leaks(facts.buildings_shared, "buildings"), fail=0,
        advice="Give each building once, by one identifier."),
    AuditRule("block_leak", shared_blocks, fail=0, nothing="not looked at: no blocks given",
        advice="Split by whole blocks, and report those of each split."),
    AuditRule("twin_leak",
        lambda facts: leaks(facts.twins, "buildings equal another one in every value", within=(0, None)), fail=0,
        advice="One building was given twice, under two names or cities: keep one."),
    AuditRule("finite", not_finite, fail=0,
        advice="A fault of the stage, or a product with values that cannot be: report it."),
    AuditRule("skew", skews, warn=20.0, advice="A few values set its mean and spread: look at "
                                               "the largest ones."),
    AuditRule("drift_splits", from_train,
        advice="The splits differ in kind: figures of that split are not those of buildings like "
               "the training ones."),
)
# fmt: on
"""Rules in the order in which they are judged: cities and tracks, labels, buildings and
features."""
