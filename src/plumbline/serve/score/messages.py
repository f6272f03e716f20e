"""Make the messages about changes, drift and deliveries that were set aside.

A message is made anew from the results each time it is asked for, so none is lost with the process that was to send it.
One that was sent just before a kill is sent again: its key, in its last line, tells that it is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_json
from plumbline.serve.score.changes import COMPARED
from plumbline.serve.score.results import ASIDE, CHANGES, DRIFT, EVENTS, MAP, SENT, DeliveryResult, now, results

TOLD = ("drift", "look")
"""Verdicts of `drift.json` that a person is told of."""
MOST = 20
"""Buildings in a message; all of them are in the file that it names."""


@dataclass(frozen=True)
class Message:
    """A message for people."""

    key: str
    """`PLACE/RESULT` or `_aside/PLACE/RESULT`: the same for the same news."""
    subject: str
    body: str
    """Markdown."""


def places_with_results(out: Path) -> list[str]:
    """List the places that have a result."""
    return sorted(path.name for path in out.glob("*") if path.is_dir() and not path.name.startswith(("_", ".")))


def unsent(out: Path, place: str) -> list[Message]:
    """Return the unsent messages about changes of a place, the oldest first.

    Raises:
        InputError: a result is damaged.
    """
    found = [_news(out, one) for one in results(out, place) if one.changes.get("changed") or one.drift in TOLD]
    return [message for message in found if not _note(out, message.key).is_file()]


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
    """Record that a message was sent, and through which channel."""
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
    if said["status"] != "ok":
        return str(said["status"])
    number = int(said["burland_category"])
    severity, low, high = (said[f"severity_{name}"] for name in ("permille", "low", "high"))
    told = f"category {number}, {severity:.2g} ({low:.2g} to {high:.2g}) permille"
    return told + (f", {said['quadrant']}" if number else "")


def _of_aside(out: Path) -> Iterator[Message]:
    for path in sorted((out / ASIDE).glob("*/*.json")):
        try:
            told = read_json(path)
            place, delivery, reason = (str(told[key]) for key in ("place", "delivery", "reason"))
        except (InputError, KeyError, TypeError):
            continue  # a record that is damaged holds up no news
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
