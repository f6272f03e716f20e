"""Judge the features, the leaks between splits, and drift."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from plumbline.prepare.audit.distributions import ColumnShift, correlations, outlier_share
from plumbline.prepare.audit.findings import Case, Facts, RuleFinding, judge_cases
from plumbline.prepare.audit.summary import TABLES, Leak


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
