"""The table of faults keeps what was not tried again."""

from __future__ import annotations

from tests.chaos.table import merged


def test_rows_are_replaced_by_their_fault_and_the_others_stay() -> None:
    page = [
        "",
        "Machine: old.",
        "",
        "| fault | happened |",
        "|---|---|",
        "| disk full | old |",
        "| worker killed | old |",
    ]
    row = {"happened": ["new"], "held": ["all"], "recovered_s": 12.3, "measured": "today, abc"}
    assert merged(page, [row | {"name": "worker killed"}, row | {"name": "clock jumps", "recovered_s": None}]) == [
        "| disk full | old |",
        "| worker killed | new | all | 12 s | today, abc |",
        "| clock jumps | new | all | nothing to do | today, abc |",
    ]
