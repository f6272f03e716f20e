"""Rules on how things move: what no building does, and what no radar measures. Mostly, a unit is wrong then."""

from __future__ import annotations

from plumbline.prepare.audit.findings import Facts, Finding, judge
from plumbline.prepare.audit.tracks import figure, silent, track_cases

CHECK_UNIT = (
    "Look at the unit of the displacements: a file in m or cm that was read as mm, or the other way round. Tables of "
    "columns state it (`ingest.products`: units); correct it there, or convert the file to what its format has."
)


def speed(facts: Facts) -> Finding:
    """Mean velocity along LOS, less three standard errors, that one building in a hundred exceeds, mm/yr."""
    text = "mm/yr along LOS is surely exceeded by one building in a hundred"
    return judge(
        "speed",
        list(track_cases(facts, lambda track, _: figure(track, "speed_p99_mm_yr", text))),
        CHECK_UNIT,
        warn=facts.params.max_speed_mm_yr,
        fail=facts.params.refuse_speed_mm_yr,
        nothing=silent("speed_p99_mm_yr", "prepare"),
    )


def noise_low(facts: Facts) -> Finding:
    """Median noise of a track's points, mm: less than a radar's."""
    return judge(
        "noise_low",
        list(track_cases(facts, lambda track, _: figure(track, "noise_mm", "mm of noise from epoch to epoch"))),
        CHECK_UNIT + " Series that were smoothed, or that hold a model's fit, look so as well: take the measured ones.",
        warn=facts.params.min_noise_mm,
        fail=facts.params.refuse_noise_below_mm,
        low=True,
        nothing=silent("noise_mm", "prepare"),
    )


def noise_high(facts: Facts) -> Finding:
    """Median noise of a track's points, mm: more than random phase has."""
    return judge(
        "noise_high",
        list(track_cases(facts, lambda track, _: figure(track, "noise_mm", "mm of noise from epoch to epoch"))),
        CHECK_UNIT + " Series that were not unwrapped, or of points without coherence, look so as well.",
        warn=facts.params.max_noise_mm,
        fail=facts.params.refuse_noise_above_mm,
        nothing=silent("noise_mm", "prepare"),
    )


MOTION_RULES = (speed, noise_low, noise_high)
