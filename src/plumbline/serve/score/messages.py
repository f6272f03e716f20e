"""Make the messages about changes, alarms, drift and deliveries that were set aside.

A message is made anew from the results each time it is asked for, so none is lost with the process that was to send it.
One that was sent just before a kill is sent again: its key, in its last line, tells that it is the same. Of alarms, a
record says which buildings have been reported: what is sent is the difference to those of the latest delivery, whatever
the order in which deliveries were judged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from plumbline.core.files import read_json, write_json
from plumbline.params.serve import Alarm
from plumbline.serve.columns import ANSWERED_REASONS, format_permille
from plumbline.serve.score.alarms import Alarms, read_alarms
from plumbline.serve.score.changes import COMPARED
from plumbline.serve.score.results import (
    ALARMS,
    ASIDE,
    CHANGES,
    DRIFT,
    EVENTS,
    MAP,
    SENT,
    DeliveryResult,
    now,
    read_record,
    results,
)

TOLD = ("drift", "look")
"""Verdicts of `drift.json` that a person is told of."""
MOST = 20
"""Buildings in a message; all of them are in the file that it names."""
REPORTED = "alarms.json"
"""In `_sent/PLACE`: rule -> buildings that have an alarm, as far as messages have said."""


class ReportedAlarms(NamedTuple):
    """Alarms that a message is about."""

    place: str
    rule: str
    began: bool
    """Else they have ended."""
    buildings: tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A message for people."""

    key: str
    """`PLACE/RESULT`, with rule and hash behind it for alarms, or `_aside/PLACE/RESULT`: the same for the same news."""
    subject: str
    body: str
    """Markdown."""
    alarms: ReportedAlarms | None = None


JUDGED_AGAIN = "no alarm any more, because a delivery was judged again, came late, or the rule was changed"


def places_with_results(out: Path) -> list[str]:
    """List the places that have a result."""
    return sorted(path.name for path in out.glob("*") if path.is_dir() and not path.name.startswith(("_", ".")))


def unsent(out: Path, place: str) -> list[Message]:
    """Return the unsent messages about a place: about changes, the oldest first, then about alarms.

    Raises:
        InputError: a result is damaged.
    """
    found = [_news(out, one) for one in results(out, place) if one.changes.get("changed") or one.drift in TOLD]
    return [message for message in found if not _note(out, message.key).is_file()] + list(_of_alarms(out, place))


def unsent_aside(out: Path) -> list[Message]:
    """Return the unsent messages about deliveries that were set aside."""
    return [message for message in _of_aside(out) if not _note(out, message.key).is_file()]


def drifted(out: Path, place: str) -> list[DeliveryResult]:
    """Return the results of a place that call for a new training and were not reported yet.

    Raises:
        InputError: a result is damaged.
    """
    return [one for one in results(out, place) if one.drift == "drift" and not _event(out, one).is_file()]


def mark_called(out: Path, one: DeliveryResult) -> None:
    """Record that a new training was called for."""
    write_json(_event(out, one), {"key": f"{one.place}/{one.folder}", "called": now()})


def mark_sent(out: Path, message: Message, by: str) -> None:
    """Record that a message was sent, and through which channel; of alarms, which buildings it reported."""
    if message.alarms is not None:
        place, rule, began, buildings = message.alarms
        reported = _reported(out, place)
        before = set(reported.get(rule, ()))
        reported[rule] = sorted(before | set(buildings) if began else before - set(buildings))
        write_json(out / SENT / place / REPORTED, reported)
        return
    write_json(_note(out, message.key), {"key": message.key, "subject": message.subject, "by": by, "sent": now()})


def _news(out: Path, one: DeliveryResult) -> Message:
    folder = out / one.place / one.folder
    lines, subject = _changes(folder, one) if one.changes else ([], f"first delivery {one.delivery}")
    if one.drift in TOLD:
        subject += ", unlike the training data" if one.drift == "drift" else ", unlike the last one"
        lines += ["", f"{one.drift}:", "", *(f"- {reason}" for reason in read_json(folder / DRIFT)["reasons"])]
    lines += ["", f"Map: {folder / MAP}", f"Message: {one.place}/{one.folder}"]
    return Message(f"{one.place}/{one.folder}", f"Plumbline: {one.place}, {subject}", "\n".join(lines))


def _changes(folder: Path, one: DeliveryResult) -> tuple[list[str], str]:
    table = pd.read_csv(folder / CHANGES, dtype={"building_id": str}, keep_default_na=False, na_values=[""])
    counts = one.changes
    lines = [
        f"{one.place}: delivery {one.delivery}, observed to {one.observed['to']}, beside {one.compared_with}.",
        "",
        f"{counts['changed']} of {counts['compared']} buildings changed: category up {counts['category_up']}, down "
        f"{counts['category_down']}; quadrant {counts['quadrant']}; judged or not {counts['status']}. Of "
        f"{counts['beyond_intervals']} the two intervals do not overlap.",
        "",
        *map(_line, table.head(MOST).itertuples()),
    ]
    if len(table) > MOST:
        lines.append(f"- and {len(table) - MOST} more")
    lines += ["", f"All of them: {folder / CHANGES}"]
    return lines, f"{counts['changed']} buildings changed ({one.delivery})"


def _line(row: Any) -> str:
    told = f"- {row.building_id}: {row.what}: {_state(row, 'before')}, now {_state(row, 'after')}"
    return told + ("; intervals do not overlap" if str(row.intervals_overlap) == "False" else "")


def _state(row: Any, when: str) -> str:
    said = {name: getattr(row, f"{name}_{when}") for name in COMPARED}
    if said["reason"] not in ANSWERED_REASONS:
        return str(said["reason"])
    number = int(said["burland_category"])
    severity, low, high = (format_permille(said[f"severity_{name}"]) for name in ("permille", "low", "high"))
    told = f"category {number}, {severity} ({low} to {high}) permille"
    return told + (f", {said['quadrant']}" if number else "")


def _of_alarms(out: Path, place: str) -> Iterator[Message]:
    found = read_alarms(out, place)
    if found is None:
        return
    reported = _reported(out, place)
    for rule in found.rules:
        before, present = set(reported.get(rule.name, ())), found.now(rule)
        begun = present[~present["building_id"].isin(before)]
        last = found.last(rule)
        ended = last[last["building_id"].isin(before - set(present["building_id"]))]
        lost = sorted(before - set(last["building_id"]))
        if len(begun):
            yield _alarm_message(out, place, found, rule, begun["building_id"], map(_alarm_line, begun.itertuples()))
        if len(ended) or lost:
            lines = [*map(_alarm_line, ended.itertuples()), *(f"- {name}: {JUDGED_AGAIN}" for name in lost)]
            yield _alarm_message(out, place, found, rule, [*ended["building_id"], *lost], lines, began=False)


def _alarm_message(
    out: Path,
    place: str,
    found: Alarms,
    rule: Alarm,
    buildings: Iterable[str],
    lines: Iterable[str],
    began: bool = True,
) -> Message:
    names, listed = tuple(buildings), list(lines)
    many = f"{len(names)} alarm{'s' * (len(names) > 1)}"
    what = f"{len(names)} new alarm{'s' * (len(names) > 1)}" if began else f"{many} ended"
    more = [f"- and {len(listed) - MOST} more"] if len(listed) > MOST else []
    told = hashlib.sha256("\0".join(sorted(names)).encode()).hexdigest()[:8]
    key = f"{place}/{found.delivery}/{rule.name}-{'new' if began else 'ended'}-{told}"
    ends = "" if rule.bound == rule.limit else f", ends at {rule.bound:g}"
    body = [
        f"{place}: rule {rule.name} ({rule.when.strip()}, {rule.in_a_row} in a row{ends}), observed to "
        f"{found.observed_to}: {what}.",
        "",
        *listed[:MOST],
        *more,
        "",
        f"All of them: {out / place / ALARMS}",
        f"Map: {out / place / found.delivery / MAP}",
        f"Message: {key}",
    ]
    reported = ReportedAlarms(place, rule.name, began, names)
    return Message(key, f"Plumbline: {place}, {what}: {rule.name}", "\n".join(body), reported)


def _alarm_line(row: Any) -> str:
    value = f"{row.column} {row.value:.3g}" if pd.notna(row.value) else "not judged now"
    return f"- {row.building_id}: {value}, since {row.since}" + (f" until {row.ended}" if pd.notna(row.ended) else "")


def _reported(out: Path, place: str) -> dict[str, list[str]]:
    path = out / SENT / place / REPORTED
    found: dict[str, list[str]] = read_json(path) if path.is_file() else {}
    return found


def _of_aside(out: Path) -> Iterator[Message]:
    for path in sorted((out / ASIDE).glob("*/*.json")):
        keys = ("place", "delivery", "reason")
        if (record := read_record(path, *keys)) is None:
            continue  # one that is damaged holds up no news
        place, delivery, reason = (record[key] for key in keys)
        key = path.relative_to(out).with_suffix("").as_posix()
        body = (
            f"{place}: delivery {delivery} cannot be judged and was set aside:\n\n{reason}\n\n"
            f"Mend its files or params.yaml; it is then tried again by itself. Record: {path}\nMessage: {key}"
        )
        yield Message(key, f"Plumbline: {place}, delivery {delivery} set aside", body)


def _event(out: Path, one: DeliveryResult) -> Path:
    return out / EVENTS / one.place / f"{one.folder}.json"


def _note(out: Path, key: str) -> Path:
    return out / SENT / f"{key}.json"
