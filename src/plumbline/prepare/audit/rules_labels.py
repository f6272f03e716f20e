"""Judge the splits and their labels."""

from __future__ import annotations

from collections.abc import Sequence

from plumbline.core.compass import QUADRANTS
from plumbline.core.strain import DIFFICULTIES
from plumbline.prepare.audit.findings import Case, Facts, RuleFinding, judge_cases
from plumbline.prepare.audit.summary import Summary


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
