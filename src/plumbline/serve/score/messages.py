"""Make the messages about changes, alarms, drift and deliveries that were set aside.

Messages are made from the results each time, so none is lost with the process that was to
send it. A message that was sent just before a kill is sent again, with the same key in its
last line. A record has the buildings whose alarms have been reported. A message has the
difference between these and the alarms of the latest delivery, so the order in which
deliveries were judged does not matter.
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

REPORTED_VERDICTS = ("drift", "look")
"""Verdicts of `drift.json` that messages report."""
MAX_LISTED = 20
"""Largest number of buildings in a message; all of them are in the file that it names."""
REPORTED_FILE = "alarms.json"
"""File in `_sent/PLACE`: rule -> buildings with an alarm that messages have reported."""


class ReportedAlarms(NamedTuple):
    """Alarms that a message is about."""

    place: str
    rule: str
    began: bool
    """True if the alarms have begun; False if they have ended."""
    buildings: tuple[str, ...]


@dataclass(frozen=True)
class Message:
    """A message for people."""

    key: str
    """`PLACE/RESULT`, with rule and hash behind it for alarms, or `_aside/PLACE/RESULT`:
    the same for the same news."""
    subject: str
    body: str
    """Markdown."""
    alarms: ReportedAlarms | None = None


JUDGED_AGAIN = (
    "no alarm any more, because a delivery was judged again, came late, or the rule was changed"
)


def places_with_results(out: Path) -> list[str]:
    """List the places that have a result."""
    return sorted(
        path.name
        for path in out.glob("*")
        if path.is_dir() and not path.name.startswith(("_", "."))
    )


def unsent(out: Path, place: str) -> list[Message]:
    """Return the unsent messages about a place: about changes, the oldest first, then about alarms.

    Raises:
        InputError: a result is damaged.
    """
    messages = [
        _make_message(out, r)
        for r in results(out, place)
        if r.changes.get("changed") or r.drift in REPORTED_VERDICTS
    ]
    return [message for message in messages if not _sent_path(out, message.key).is_file()] + list(
        _make_alarm_messages(out, place)
    )


def unsent_aside(out: Path) -> list[Message]:
    """Return the unsent messages about deliveries that were set aside."""
    return [
        message
        for message in _make_aside_messages(out)
        if not _sent_path(out, message.key).is_file()
    ]


def drifted(out: Path, place: str) -> list[DeliveryResult]:
    """Return the results of a place that call for a new training and were not reported yet.

    Raises:
        InputError: a result is damaged.
    """
    return [
        r for r in results(out, place) if r.drift == "drift" and not _event_path(out, r).is_file()
    ]


def mark_called(out: Path, result: DeliveryResult) -> None:
    """Record that a new training was called for."""
    write_json(
        _event_path(out, result), {"key": f"{result.place}/{result.folder_name}", "called": now()}
    )


def mark_sent(out: Path, message: Message, by: str) -> None:
    """Record that a message was sent, and through which channel; of alarms, which buildings
    it reported."""
    if message.alarms is not None:
        place, rule, began, buildings = message.alarms
        reported = _read_reported(out, place)
        before = set(reported.get(rule, ()))
        reported[rule] = sorted(before | set(buildings) if began else before - set(buildings))
        write_json(out / SENT / place / REPORTED_FILE, reported)
        return
    write_json(
        _sent_path(out, message.key),
        {"key": message.key, "subject": message.subject, "by": by, "sent": now()},
    )


def _make_message(out: Path, result: DeliveryResult) -> Message:
    folder = out / result.place / result.folder_name
    lines, subject = (
        _format_changes(folder, result)
        if result.changes
        else ([], f"first delivery {result.delivery}")
    )
    if result.drift in REPORTED_VERDICTS:
        subject += (
            ", unlike the training data" if result.drift == "drift" else ", unlike the last one"
        )
        lines += [
            "",
            f"{result.drift}:",
            "",
            *(f"- {reason}" for reason in read_json(folder / DRIFT)["reasons"]),
        ]
    lines += ["", f"Map: {folder / MAP}", f"Message: {result.place}/{result.folder_name}"]
    return Message(
        f"{result.place}/{result.folder_name}",
        f"Plumbline: {result.place}, {subject}",
        "\n".join(lines),
    )


def _format_changes(folder: Path, result: DeliveryResult) -> tuple[list[str], str]:
    table = pd.read_csv(
        folder / CHANGES, dtype={"building_id": str}, keep_default_na=False, na_values=[""]
    )
    counts = result.changes
    lines = [
        f"{result.place}: delivery {result.delivery}, observed to {result.observed['to']}, "
        f"beside {result.compared_with}.",
        "",
        f"{counts['changed']} of {counts['compared']} buildings changed: category up "
        f"{counts['category_up']}, down {counts['category_down']}; quadrant {counts['quadrant']}; "
        f"judged or not {counts['status']}. Of {counts['beyond_intervals']} the two intervals do "
        "not overlap.",
        "",
        *map(_format_change, table.head(MAX_LISTED).itertuples()),
    ]
    if len(table) > MAX_LISTED:
        lines.append(f"- and {len(table) - MAX_LISTED} more")
    lines += ["", f"All of them: {folder / CHANGES}"]
    return lines, f"{counts['changed']} buildings changed ({result.delivery})"


def _format_change(row: Any) -> str:
    line = (
        f"- {row.building_id}: {row.what}: {_format_state(row, 'before')}, now "
        f"{_format_state(row, 'after')}"
    )
    return line + ("; intervals do not overlap" if str(row.intervals_overlap) == "False" else "")


def _format_state(row: Any, when: str) -> str:
    values = {name: getattr(row, f"{name}_{when}") for name in COMPARED}
    if values["reason"] not in ANSWERED_REASONS:
        return str(values["reason"])
    number = int(values["burland_category"])
    severity, low, high = (
        format_permille(values[f"severity_{name}"]) for name in ("permille", "low", "high")
    )
    text = f"category {number}, {severity} ({low} to {high}) permille"
    return text + (f", {values['quadrant']}" if number else "")


def _make_alarm_messages(out: Path, place: str) -> Iterator[Message]:
    alarms = read_alarms(out, place)
    if alarms is None:
        return
    reported = _read_reported(out, place)
    for rule in alarms.rules:
        before, present = set(reported.get(rule.name, ())), alarms.now(rule)
        begun = present[~present["building_id"].isin(before)]
        last = alarms.last(rule)
        ended = last[last["building_id"].isin(before - set(present["building_id"]))]
        lost_names = sorted(before - set(last["building_id"]))
        if len(begun):
            lines = map(_format_alarm, begun.itertuples())
            yield _make_alarm_message(
                out, place, alarms, rule, buildings=begun["building_id"], lines=lines
            )
        if len(ended) or lost_names:
            yield _make_alarm_message(
                out,
                place,
                alarms,
                rule,
                buildings=[*ended["building_id"], *lost_names],
                lines=[
                    *map(_format_alarm, ended.itertuples()),
                    *(f"- {name}: {JUDGED_AGAIN}" for name in lost_names),
                ],
                began=False,
            )


def _make_alarm_message(
    out: Path,
    place: str,
    alarms: Alarms,
    rule: Alarm,
    *,
    buildings: Iterable[str],
    lines: Iterable[str],
    began: bool = True,
) -> Message:
    names, listed = tuple(buildings), list(lines)
    count_text = f"{len(names)} alarm{'s' * (len(names) > 1)}"
    news = f"{len(names)} new alarm{'s' * (len(names) > 1)}" if began else f"{count_text} ended"
    remainder = [f"- and {len(listed) - MAX_LISTED} more"] if len(listed) > MAX_LISTED else []
    names_hash = hashlib.sha256("\0".join(sorted(names)).encode()).hexdigest()[:8]
    key = f"{place}/{alarms.delivery}/{rule.name}-{'new' if began else 'ended'}-{names_hash}"
    end_rule = "" if rule.bound == rule.limit else f", ends at {rule.bound:g}"
    body = [
        f"{place}: rule {rule.name} ({rule.when.strip()}, {rule.in_a_row} in a row{end_rule}), "
        f"observed to {alarms.observed_to}: {news}.",
        "",
        *listed[:MAX_LISTED],
        *remainder,
        "",
        f"All of them: {out / place / ALARMS}",
        f"Map: {out / place / alarms.delivery / MAP}",
        f"Message: {key}",
    ]
    reported = ReportedAlarms(place, rule.name, began, names)
    return Message(key, f"Plumbline: {place}, {news}: {rule.name}", "\n".join(body), reported)


def _format_alarm(row: Any) -> str:
    value = f"{row.column} {row.value:.3g}" if pd.notna(row.value) else "not judged now"
    return f"- {row.building_id}: {value}, since {row.since}" + (
        f" until {row.ended}" if pd.notna(row.ended) else ""
    )


def _read_reported(out: Path, place: str) -> dict[str, list[str]]:
    path = out / SENT / place / REPORTED_FILE
    reported: dict[str, list[str]] = read_json(path) if path.is_file() else {}
    return reported


def _make_aside_messages(out: Path) -> Iterator[Message]:
    for path in sorted((out / ASIDE).glob("*/*.json")):
        keys = ("place", "delivery", "reason")
        if (record := read_record(path, *keys)) is None:
            continue  # one that is damaged holds up no news
        place, delivery, reason = (record[key] for key in keys)
        key = path.relative_to(out).with_suffix("").as_posix()
        body = (
            f"{place}: delivery {delivery} cannot be judged and was set aside:\n\n{reason}\n\n"
            "Mend its files or params.yaml; it is then tried again by itself. Record: "
            f"{path}\nMessage: {key}"
        )
        yield Message(key, f"Plumbline: {place}, delivery {delivery} set aside", body)


def _event_path(out: Path, result: DeliveryResult) -> Path:
    return out / EVENTS / result.place / f"{result.folder_name}.json"


def _sent_path(out: Path, key: str) -> Path:
    return out / SENT / f"{key}.json"
