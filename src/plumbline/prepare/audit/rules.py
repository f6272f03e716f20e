"""Apply the rules of the audit, and form its verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import DIFFICULTIES
from plumbline.params import Audit
from plumbline.prepare.audit.distributions import ColumnShift, ColumnValues, correlations, outlier_share
from plumbline.prepare.audit.summary import TABLES, Leak, Summary
from plumbline.sources.points.epochs import DAYS_A_YEAR

Status = Literal["pass", "warn", "fail"]
ORDER: tuple[Status, ...] = ("fail", "warn", "pass")
"""Worst first."""
NAMED = 5
"""Most further places that a reason names."""


@dataclass(frozen=True)
class Facts:
    """Data that the rules look at."""

    params: Audit
    cities: Mapping[str, Mapping[str, Any]]
    """The report of each city, see `audit`."""
    splits: Mapping[str, Summary]
    buildings_shared: Sequence[Leak]
    twins: Sequence[Leak]
    blocks_shared: Sequence[Leak] | None
    """None: the report names no blocks."""
    columns: Mapping[str, ColumnValues]
    """Sampled columns of each split."""
    shifts: Mapping[str, Mapping[str, ColumnShift]]
    """Split -> column -> shift from `train`."""
    reference: ColumnValues | None
    reference_shift: Mapping[str, ColumnShift]
    """Column -> shift of `train` from the reference."""

    @property
    def train(self) -> Summary | None:
        """The split that is learnt from."""
        return self.splits.get("train")


@dataclass(frozen=True)
class Case:
    """One place that a rule looks at."""

    where: str
    value: float
    text: str
    """What was found there, with its figure."""
    own: tuple[float | None, float | None] | None = None
    """Bounds of warning and of failure in place of the rule's."""


@dataclass(frozen=True)
class RuleFinding:
    """The verdict of one rule."""

    name: str
    status: Status
    value: float | None
    """The worst figure found."""
    bound: float | None
    """The bound that it is beyond, or the first it would meet."""
    where: str
    reason: str
    advice: str

    def to_json(self) -> dict[str, Any]:
        """Return the finding, ready for JSON."""
        return dict(self.__dict__)


def judge_cases(
    name: str,
    cases: Sequence[Case],
    advice: str,
    *,
    warn: float | None = None,
    fail: float | None = None,
    low: bool = False,
    nothing: str = "",
) -> RuleFinding:
    """Judge a rule by the worst of its cases.

    Args:
        name: of the rule.
        cases: the places looked at.
        advice: what to do where it is beyond a bound.
        warn, fail: a value above (with `low`: below) is beyond; None: no such bound.
        low: small values are bad.
        nothing: why there is no case; then the rule warns, because what is not looked at cannot pass. Without it, to
            have no case is to pass.
    """
    if not cases:
        return RuleFinding(
            name, "warn" if nothing else "pass", None, fail if warn is None else warn, "", nothing, advice
        )

    def bounds(case: Case) -> tuple[float | None, float | None]:
        return (warn, fail) if case.own is None else case.own

    def status(case: Case) -> Status:
        beyond = [b is not None and (case.value < b if low else case.value > b) for b in bounds(case)]
        return "fail" if beyond[1] else "warn" if beyond[0] else "pass"

    def badness(case: Case) -> tuple[int, float, str]:
        return ORDER.index(status(case)), case.value if low else -case.value, case.where

    ranked = sorted(cases, key=badness)
    worst = ranked[0]
    found = status(worst)
    others = [case for case in ranked[1:] if status(case) == found]
    reason = worst.text
    if found != "pass" and others:
        named = ", ".join(case.where for case in others[:NAMED])
        reason += f"; {len(others)} more: {named}" + (", ..." if len(others) > NAMED else "")
    first, second = bounds(worst)
    bound = second if found == "fail" or first is None else first
    return RuleFinding(name, found, worst.value, bound, worst.where, reason, advice)


Track = dict[str, Any]
"""The report of a track, or of its city; see `audit`."""
Told = tuple[float, str] | None
"""A figure, and what it is; None: the report does not say."""


def track_cases(facts: Facts, look: Callable[[Track, Track], Told]) -> Iterator[Case]:
    """Yield a case for each track in which `look` finds a figure, given the reports of track and city."""
    for city, report in facts.cities.items():
        for track in report.get("tracks", []):
            found = look(track, dict(report))
            if found is not None:
                where = f"{city}, {track.get('name')}"
                yield Case(where, found[0], f"{where}: {found[1]}")


def figure(track: Track, key: str, text: str) -> Told:
    """Return a figure of a track's report with its description; None if it is missing."""
    value = track.get(key)
    return None if value is None else (value, f"{value:.4g} {text}")


def silent(key: str, stage: str = "ingest") -> str:
    """Return the message that tracks were not looked at, because the report of `stage` lacks `key`."""
    return f"not looked at: the report of `{stage}` has no {key}"


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


def building_leak(facts: Facts) -> RuleFinding:
    """Fail on a building in two splits, or twice in one."""
    return _leaks("building_leak", facts.buildings_shared, "buildings", "Give each building once, by one identifier.")


def block_leak(facts: Facts) -> RuleFinding:
    """Fail on a block in two splits."""
    if facts.blocks_shared is None:
        return judge_cases(
            "block_leak", [], "Report the blocks of each split.", fail=0, nothing="not looked at: no blocks given"
        )
    return _leaks("block_leak", facts.blocks_shared, "blocks", "Split by whole blocks.")


def twin_leak(facts: Facts) -> RuleFinding:
    """Judge buildings with different names but equal values: fail across splits, warn within one."""
    text = "buildings equal another one in every value"
    advice = "One building was given twice, under two names or cities: keep one."
    return _leaks("twin_leak", facts.twins, text, advice, within=(0, None))


def finite(facts: Facts) -> RuleFinding:
    """Fail on a value that is not finite."""
    cases = []
    for name, split in facts.splits.items():
        for table, moments in split.moments.items():
            count = int(moments.bad.sum())
            where = split.first_bad.get(table, f"split {name}, {table}")
            cases.append(Case(where, count, f"{where} found, a finite number needed ({count} such values)"))
    cases = [case if case.value else Case(case.where, 0, "all values are finite numbers") for case in cases]
    return judge_cases(
        "finite", cases, "A fault of the stage, or a product with values that cannot be: report it.", fail=0
    )


def constant(facts: Facts) -> RuleFinding:
    """Judge the columns of `train` that do not vary."""
    train = facts.train
    if train is None or train.buildings < 2:
        return judge_cases(
            "constant", [], "Give more buildings.", warn=0, nothing="not looked at: under two buildings in train"
        )
    found = [
        f"{table}.{column.name}"
        for table, columns in TABLES.items()
        for j, column in enumerate(columns)
        if train.moments[table].low[j] >= train.moments[table].high[j]
    ]
    text = f"train: {len(found)} columns have one value only" + (f": {', '.join(found)}" if found else "")
    advice = "Nothing is learnt of it: a model that meets another value there has not seen the like."
    return judge_cases("constant", [Case("train", len(found), text)], advice, warn=0)


def outliers(facts: Facts) -> RuleFinding:
    """Judge the share of a column's values in `train` that are far from the median, in robust standard deviations."""
    z = facts.params.outlier_z
    cases = []
    for key, values in facts.columns["train"].values.items() if facts.train else ():
        share = outlier_share(values, z)
        cases.append(Case(f"train, {key}", share, f"train, {key}: {share:.2%} are beyond a robust z of {z:g}"))
    advice = "Look at the histogram: a second population, a wrong unit, or a heavy tail."
    return judge_cases("outliers", cases, advice, warn=facts.params.max_outlier_share)


def skew(facts: Facts) -> RuleFinding:
    """Judge the largest skewness of a column of `train`."""
    cases = [
        Case(f"train, {table}.{column.name}", abs(value), f"train, {table}.{column.name}: skewness {value:.3g}")
        for table, moments in (facts.train.moments.items() if facts.train else ())
        for column, value in zip(TABLES[table], moments.skew.tolist(), strict=True)
    ]
    advice = "A few values set its mean and spread: look at the largest ones."
    return judge_cases("skew", cases, advice, warn=facts.params.max_skew)


def correlation(facts: Facts) -> RuleFinding:
    """Judge the correlation of pairs of columns of `train`."""
    cases = []
    if facts.train:
        for table in TABLES:
            for one, other, r in correlations(table, facts.train.sampled(table)):
                where = f"train, {one} and {other}"
                cases.append(Case(where, abs(r), f"train: {one} and {other} correlate at {r:.6f}"))
    advice = "One of the two adds nothing here; no harm to a network, but read no importance into either."
    return judge_cases("correlation", cases, advice, warn=facts.params.max_correlation)


def drift_splits(facts: Facts) -> RuleFinding:
    """Judge the population stability index of each column of the other splits against `train`."""
    cases = [case for name, shifts in facts.shifts.items() for case in _drift(f"{name} from train", shifts, facts)]
    advice = "The splits differ in kind: figures of that split are not those of buildings like the training ones."
    return judge_cases("drift_splits", cases, advice, warn=facts.params.max_psi)


def drift_reference(facts: Facts) -> RuleFinding:
    """Judge the population stability index of each column of `train` against the reference."""
    if facts.params.reference is None:
        return judge_cases("drift_reference", [], "Name an earlier run's reference.json in `prepare.audit.reference`.")
    cases = list(_drift("train from reference", facts.reference_shift, facts, facts.params.refuse_psi))
    known = set(facts.reference.values) if facts.reference else set()
    here = {key for columns in facts.columns.values() for key in columns.values}
    if known != here:
        odd = sorted(known ^ here)
        cases.append(
            Case(
                "reference", len(odd), f"reference: {len(odd)} columns are not in both: {', '.join(odd[:3])}", (0, None)
            )
        )
    advice = "Find out what changed: product, area, or processing. A model of the reference is a stranger here."
    return judge_cases(
        "drift_reference", cases, advice, warn=facts.params.max_psi, nothing="not looked at: nothing to compare"
    )


def _drift(title: str, shifts: Mapping[str, ColumnShift], facts: Facts, refuse: float | None = None) -> Iterator[Case]:
    for key, shift in shifts.items():
        text = f"{title}, {key}: population stability index {shift.psi:.3g} (by chance up to {shift.psi_chance:.2g})"
        bounds = (
            max(facts.params.max_psi, shift.psi_chance),
            None if refuse is None else max(refuse, shift.psi_chance),
        )
        yield Case(f"{title}, {key}", shift.psi, text, bounds)


def _leaks(
    rule: str,
    leaks: Sequence[Leak],
    text: str,
    advice: str,
    within: tuple[float | None, float | None] | None = None,
) -> RuleFinding:
    """Judge leaks; `within` are the bounds of warning and failure for duplicates in one split."""
    cases = []
    for leak in leaks:
        one, other = leak.splits
        where = f"twice in {one}" if one == other else f"in {one} and {other}"
        example = f", as {leak.example}" if leak.example else ""
        cases.append(Case(where, leak.count, f"{leak.count} {text} {where}{example}", within if one == other else None))
    return judge_cases(rule, cases, advice, fail=0)


FEATURE_RULES = (
    building_leak,
    block_leak,
    twin_leak,
    finite,
    constant,
    outliers,
    skew,
    correlation,
    drift_splits,
    drift_reference,
)


def split_size(facts: Facts) -> RuleFinding:
    """Fail on an empty split; warn on a small one."""
    counts = {"train": 0} | {name: split.buildings for name, split in facts.splits.items()}
    cases = [Case(name, count, f"{name}: {count} buildings") for name, count in counts.items()]
    return judge_cases(
        "split_size",
        cases,
        "Give more labelled buildings, lower `prepare.min_points`, or change `prepare.split`. Figures of a small split "
        "are uncertain.",
        warn=facts.params.min_split,
        fail=1,
        low=True,
    )


def labelled(facts: Facts) -> RuleFinding:
    """Judge the share of a city's buildings that have a label."""
    cases = []
    for city, report in facts.cities.items():
        if report.get("buildings") and report.get("labelled") is not None:
            text = f"{city}: {report['labelled']} of {report['buildings']} buildings have a label"
            cases.append(Case(city, report["labelled"] / report["buildings"], text))
    return judge_cases(
        "labelled",
        cases,
        "Were the labelled ones chosen because they are damaged? Then the model learns damage to be common.",
        warn=facts.params.min_labelled_share,
        low=True,
        nothing="not looked at: the report of `ingest` has no labelled",
    )


def severity_known(facts: Facts) -> RuleFinding:
    """Fail on a severity that is negative or not a number."""
    return _wrong(facts, "severity_known", "severity", "severities are no number from 0 up", "Correct the labels.")


def severity_range(facts: Facts) -> RuleFinding:
    """Judge the largest severity, permille: an impossible one means a wrong unit."""
    cases = [Case(n, s.severity_max, f"{n}: largest severity {s.severity_max:.4g} permille") for n, s in _filled(facts)]
    return judge_cases(
        "severity_range",
        cases,
        "Check the unit (permille, so 0.001 of strain is 1) and the buildings with the largest values.",
        warn=facts.params.max_severity_permille,
        fail=facts.params.refuse_severity_permille,
    )


def quadrant_codes(facts: Facts) -> RuleFinding:
    """Fail on an unknown quadrant, and on a quadrant of a building below category 1."""
    cases = []
    for name, split in facts.splits.items():
        count = split.wrong["quadrant"] + split.wrong["quadrant_of_undamaged"]
        cases.append(Case(name, count, f"{name}: {count} quadrants are no code of 0 to 3, or of an undamaged building"))
    return judge_cases(
        "quadrant_codes", cases, "Correct the labels: a quadrant belongs to category 1 and above.", fail=0
    )


def quadrant_known(facts: Facts) -> RuleFinding:
    """Judge the damaged buildings of unknown quadrant, which training leaves out of the quadrant loss."""
    cases = []
    for name, split in _filled(facts):
        damaged = int(split.categories[1:].sum())
        if damaged:
            text = f"{name}: {split.quadrant_unknown} of {damaged} damaged buildings have no quadrant"
            cases.append(Case(name, split.quadrant_unknown / damaged, text))
    return judge_cases("quadrant_known", cases, "Add the quadrants to the labels where they are known.", warn=0)


def damage_present(facts: Facts) -> RuleFinding:
    """Fail if `train` lacks damaged or undamaged buildings; warn for another split."""
    cases = []
    for name, split in _filled(facts):
        own = (None, 1) if name == "train" else (1, None)
        for kind, count in _damage(split).items():
            cases.append(Case(f"{name}, {kind}", count, f"{name}: {count} {kind} buildings", own))
    return judge_cases(
        "damage_present", cases, "Both are needed to tell them apart: add buildings of the other kind.", low=True
    )


def damage_balance(facts: Facts) -> RuleFinding:
    """Judge the share of the rarer class, damaged or undamaged, in `train`."""
    cases = []
    if facts.train and facts.train.categories.sum():
        counts = _damage(facts.train)
        rarer = min(counts, key=lambda kind: (counts[kind], kind))
        total = sum(counts.values())
        cases = [Case(f"train, {rarer}", counts[rarer] / total, f"train: {counts[rarer]} of {total} are {rarer}")]
    advice = "Add buildings of the rarer kind, or weigh them."
    return judge_cases("damage_balance", cases, advice, warn=facts.params.min_damage_share, low=True)


def category_present(facts: Facts) -> RuleFinding:
    """Warn on a split that lacks a category."""
    cases = [
        Case(f"{name}, category {category}", count, f"{name}: {count} buildings are of category {category}")
        for name, split in _filled(facts)
        for category, count in enumerate(split.categories.tolist())
    ]
    return judge_cases("category_present", cases, "Nothing can be learnt, or measured, of it there.", warn=1, low=True)


def category_balance(facts: Facts) -> RuleFinding:
    """Judge the share of each category in `train`."""
    cases = _shares(facts.train.categories.tolist(), [f"category {i}" for i in range(5)]) if facts.train else []
    advice = "Add buildings of that category, or weigh them."
    return judge_cases("category_balance", cases, advice, warn=facts.params.min_category_share, low=True)


def quadrant_balance(facts: Facts) -> RuleFinding:
    """Judge the share of each quadrant among the damaged buildings of `train`."""
    cases = _shares(facts.train.quadrants.tolist(), QUADRANTS) if facts.train else []
    advice = "Keep `train.augment` on: it turns every quadrant into every other."
    return judge_cases("quadrant_balance", cases, advice, warn=facts.params.min_quadrant_share, low=True)


def difficulty_codes(facts: Facts) -> RuleFinding:
    """Fail on an unknown difficulty."""
    text = "codes of difficulty are not from -1 to 2"
    return _wrong(facts, "difficulty_codes", "difficulty", text, "Run `plumbline prepare` again.")


def difficulty_present(facts: Facts) -> RuleFinding:
    """Warn on a level of difficulty in `train` that another split lacks."""
    cases = []
    levels = facts.train.difficulty if facts.train else None
    for name, split in _filled(facts):
        for code, level in enumerate(DIFFICULTIES, 1):
            if levels is not None and levels[code]:
                count = int(split.difficulty[code])
                cases.append(Case(f"{name}, {level}", count, f"{name}: {count} buildings are {level}"))
    return judge_cases("difficulty_present", cases, "Figures by difficulty will miss that level.", warn=1, low=True)


def _damage(split: Summary) -> dict[str, int]:
    return {"damaged": int(split.categories[1:].sum()), "undamaged": int(split.categories[0])}


def _shares(counts: list[int], named: Sequence[str]) -> list[Case]:
    total = sum(counts)
    return [
        Case(f"train, {name}", count / total, f"train: {count} of {total} are {name}")
        for name, count in zip(named, counts, strict=True)
        if total
    ]


def _wrong(facts: Facts, rule: str, key: str, text: str, advice: str) -> RuleFinding:
    cases = [Case(name, split.wrong[key], f"{name}: {split.wrong[key]} {text}") for name, split in facts.splits.items()]
    return judge_cases(rule, cases, advice, fail=0)


def _filled(facts: Facts) -> list[tuple[str, Summary]]:
    return [(name, split) for name, split in facts.splits.items() if split.buildings]


LABEL_RULES = (
    split_size,
    labelled,
    severity_known,
    severity_range,
    quadrant_codes,
    quadrant_known,
    damage_present,
    damage_balance,
    category_present,
    category_balance,
    quadrant_balance,
    difficulty_codes,
    difficulty_present,
)
