"""Judge the input: points, epochs, tracks and buildings of each city, and their speed and noise."""

from __future__ import annotations

from datetime import date

from plumbline.prepare.audit.findings import Case, Facts, RuleFinding, Track, figure, judge_cases, silent, track_cases
from plumbline.sources.points.epochs import DAYS_A_YEAR


def points(facts: Facts) -> RuleFinding:
    """Fail on a city without points; warn on a track without points."""
    cases = []
    for city, report in facts.cities.items():
        tracks = [(f"{city}, {track.get('name')}", int(track.get("points") or 0)) for track in report.get("tracks", [])]
        total = sum(count for _, count in tracks)
        cases.append(Case(city, total, f"{city}: {total} points are left, in {len(tracks)} tracks", (None, 1)))
        cases += [Case(where, count, f"{where}: {count} points are left", (1, None)) for where, count in tracks]
    advice = "Check the product, and the bounds of the quality filter in `ingest`."
    return judge_cases("points", cases, advice, low=True, nothing=silent("cities"))


def points_dropped(facts: Facts) -> RuleFinding:
    """Judge the share of a track's points that reading dropped: low quality, missing data or height."""

    def share(track: Track, _: Track) -> tuple[float, str] | None:
        dropped = {rule: int(n) for rule, n in (track.get("dropped") or {}).items() if n}
        read = track.get("points_read")
        if not read:
            return None
        said = ", ".join(f"{n} {rule}" for rule, n in dropped.items()) or "none"
        return sum(dropped.values()) / read, f"of {read} points dropped: {said}"

    return judge_cases(
        "points_dropped",
        list(track_cases(facts, share)),
        "See which reason leads. Look at the quality of the product before loosening `ingest.min_coherence` or "
        "`ingest.max_rmse_mm`; pixels of a raster without values are no_data, and no fault of it.",
        warn=facts.params.max_dropped_share,
        nothing=silent("points_read"),
    )


def points_assigned(facts: Facts) -> RuleFinding:
    """Judge the share of a track's points that lie on a building."""

    def share(track: Track, _: Track) -> tuple[float, str] | None:
        count, assigned = track.get("points"), track.get("assigned")
        return (
            (assigned / count, f"{assigned} of {count} points are on a building")
            if count and assigned is not None
            else None
        )

    return judge_cases(
        "points_assigned",
        list(track_cases(facts, share)),
        "Draw points and footprints together: a shift, another area, or roofs that return no signal.",
        warn=facts.params.min_assigned_share,
        low=True,
        nothing=silent("assigned"),
    )


def buildings_left_out(facts: Facts) -> RuleFinding:
    """Judge the share of a city's buildings that are outside of all splits."""
    cases = []
    for city, report in facts.cities.items():
        left = {reason: int(n) for reason, n in (report.get("left_out") or {}).items() if n}
        if report.get("buildings"):
            said = ", ".join(f"{n} {reason}" for reason, n in left.items()) or "none"
            text = f"{city}: of {report['buildings']} buildings left out: {said}"
            cases.append(Case(city, sum(left.values()) / report["buildings"], text))
    return judge_cases(
        "buildings_left_out",
        cases,
        "See which reason leads: few points (`prepare.min_points`, `prepare.buffer_m`) or no label.",
        warn=facts.params.max_left_out_share,
        nothing=silent("buildings"),
    )


def epochs(facts: Facts) -> RuleFinding:
    """Judge the number of acquisitions of a track."""
    return judge_cases(
        "epochs",
        list(track_cases(facts, lambda track, _: figure(track, "epochs", "epochs"))),
        "A rate from so few acquisitions is hardly better than their noise. Use a longer product.",
        warn=facts.params.min_epochs,
        low=True,
        nothing=silent("epochs"),
    )


def period(facts: Facts) -> RuleFinding:
    """Judge the years that a track covers; in less than one, seasonal movement looks like a trend."""

    def years(track: Track, _: Track) -> tuple[float, str] | None:
        span = _span(track)
        return (((span[1] - span[0]).days) / DAYS_A_YEAR, f"{span[0]} to {span[1]}") if span else None

    return judge_cases(
        "period",
        list(track_cases(facts, years)),
        "Below a full year, warmth looks like movement. Use a longer product, or trust rates less.",
        warn=facts.params.min_years,
        low=True,
        nothing=silent("first_epoch and last_epoch"),
    )


def track_period(facts: Facts) -> RuleFinding:
    """Judge the share of its city's period that a track covers."""

    def share(track: Track, city: Track) -> tuple[float, str] | None:
        spans = [span for other in city.get("tracks", []) if (span := _span(other))]
        own = _span(track)
        if own is None:
            return None
        whole = (max(s[1] for s in spans) - min(s[0] for s in spans)).days
        return ((own[1] - own[0]).days / whole if whole else 1.0), f"covers {own[0]} to {own[1]} of the city's period"

    return judge_cases(
        "track_period",
        list(track_cases(facts, share)),
        "Tracks of other years see other movement: cut them to the years they share.",
        warn=facts.params.min_period_share,
        low=True,
        nothing=silent("first_epoch and last_epoch"),
    )


def gaps(facts: Facts) -> RuleFinding:
    """Judge the longest time without an acquisition, days."""
    return judge_cases(
        "gaps",
        list(track_cases(facts, lambda track, _: figure(track, "longest_gap_days", "days without an acquisition"))),
        "Look whether the movement jumps across the gap: a phase ambiguity there cannot be seen in the series.",
        warn=facts.params.max_gap_days,
        nothing=silent("longest_gap_days"),
    )


def missing(facts: Facts) -> RuleFinding:
    """Judge the share of a track's displacements that are missing."""
    return judge_cases(
        "missing",
        list(track_cases(facts, lambda track, _: figure(track, "missing_share", "of the displacements are missing"))),
        "Find the epochs or points that lack values, and drop those.",
        warn=facts.params.max_missing_share,
        nothing=silent("missing_share"),
    )


def duplicates(facts: Facts) -> RuleFinding:
    """Judge the share of a track's points at the same place as another, in tiles with buildings."""

    def share(track: Track, _: Track) -> tuple[float, str] | None:
        count, twice = track.get("points_looked_at"), track.get("duplicates")
        return (
            (twice / count, f"{twice} of {count} points share their position") if count and twice is not None else None
        )

    return judge_cases(
        "duplicates",
        list(track_cases(facts, share)),
        "A product that was merged or resampled: the same measurement counts more than once.",
        warn=facts.params.max_duplicate_share,
        nothing=silent("points_looked_at", "prepare"),
    )


def notes(facts: Facts) -> RuleFinding:
    """Warn with each note of the readers about their decisions."""
    cases = [
        Case(city, 1, f"{city}: {note}") for city, report in facts.cities.items() for note in report.get("notes", [])
    ]
    return judge_cases(
        "notes", cases, "Read what was decided, and correct the file if it is not what you meant.", warn=0
    )


def _span(track: Track) -> tuple[date, date] | None:
    first, last = track.get("first_epoch"), track.get("last_epoch")
    return (date.fromisoformat(str(first)), date.fromisoformat(str(last))) if first and last else None


CITY_RULES = (
    points,
    points_dropped,
    points_assigned,
    buildings_left_out,
    epochs,
    period,
    track_period,
    gaps,
    missing,
    duplicates,
    notes,
)


CHECK_UNIT = (
    "Look at the unit of the displacements: a file in m or cm that was read as mm, or the other way round. Tables of "
    "columns state it (`ingest.products`: units); correct it there, or convert the file to what its format has."
)


def speed(facts: Facts) -> RuleFinding:
    """Judge the 99th percentile over buildings of mean LOS velocity less three standard errors, mm/yr."""
    text = "mm/yr along LOS is surely exceeded by one building in a hundred"
    return judge_cases(
        "speed",
        list(track_cases(facts, lambda track, _: figure(track, "speed_p99_mm_yr", text))),
        CHECK_UNIT,
        warn=facts.params.max_speed_mm_yr,
        fail=facts.params.refuse_speed_mm_yr,
        nothing=silent("speed_p99_mm_yr", "prepare"),
    )


def noise_low(facts: Facts) -> RuleFinding:
    """Judge whether the median noise of a track's points, mm, is less than a radar's."""
    return judge_cases(
        "noise_low",
        list(track_cases(facts, lambda track, _: figure(track, "noise_mm", "mm of noise from epoch to epoch"))),
        CHECK_UNIT + " Series that were smoothed, or that hold a model's fit, look so as well: take the measured ones.",
        warn=facts.params.min_noise_mm,
        fail=facts.params.refuse_noise_below_mm,
        low=True,
        nothing=silent("noise_mm", "prepare"),
    )


def noise_high(facts: Facts) -> RuleFinding:
    """Judge whether the median noise of a track's points, mm, is more than that of random phase."""
    return judge_cases(
        "noise_high",
        list(track_cases(facts, lambda track, _: figure(track, "noise_mm", "mm of noise from epoch to epoch"))),
        CHECK_UNIT + " Series that were not unwrapped, or of points without coherence, look so as well.",
        warn=facts.params.max_noise_mm,
        fail=facts.params.refuse_noise_above_mm,
        nothing=silent("noise_mm", "prepare"),
    )


MOTION_RULES = (speed, noise_low, noise_high)
