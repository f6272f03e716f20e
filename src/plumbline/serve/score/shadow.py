"""Record a challenger's answers to the same delivery, beside the champion's; they are never published or sent."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.console import log
from plumbline.core.files import atomic_folder, write_json
from plumbline.serve.predictions import write_predictions
from plumbline.serve.score.changes import compare_predictions
from plumbline.serve.score.results import PREDICTIONS, SHADOW, now
from plumbline.serve.score.tiles import Reading, ScoreTile, counts_of, cut_tiles, judge_tiles, read_answers

RECORD, DIFFERENCES = "shadow.json", "differences.csv"


def shadow(reading: Reading, tiles: list[ScoreTile], challenger: Path, workers: int | None, out: Path) -> None:
    """Write `OUT/_shadow/PLACE/RESULT/VERSION/`: predictions, buildings with another answer, and counts.

    Before the champion's result is published, so that a killed run does it again; whatever goes wrong with the
    challenger is logged, and stops nothing.

    Args:
        reading: the delivery. tiles: judged by the champion. challenger: its package. workers: see `score`.
        out: folder of the results.
    """
    delivery = reading.delivery
    try:
        own = cut_tiles(reading, challenger)
        folder = out / SHADOW / delivery.place / delivery.result / own[0].version
        if folder.exists():
            return
        judge_tiles(own, workers)
        said, champion = read_answers(own).table, read_answers(tiles).table
        differences = compare_predictions(champion, said)
        with atomic_folder(folder) as temporary:
            write_predictions(said, temporary / PREDICTIONS)
            # "before" is what the champion says, "after" what the challenger says.
            columns = {
                name: name.replace("_before", "_champion").replace("_after", "_challenger")
                for name in differences.table
            }
            differences.table.rename(columns=columns).to_csv(temporary / DIFFERENCES, index=False)
            record = {
                "format": 1,
                "place": delivery.place,
                "delivery": delivery.name,
                "id": delivery.id,
                "champion": tiles[0].version,
                "challenger": own[0].version,
                "differences": differences.counts,
                "answers": {"champion": counts_of(champion), "challenger": counts_of(said)},
                "made": now(),
            }
            write_json(temporary / RECORD, record)
        log.info(
            "%s/%s: challenger %s judges %d buildings otherwise",
            delivery.place,
            delivery.result,
            own[0].version,
            differences.counts["changed"],
        )
    except Exception as error:
        log.warning("%s/%s: no answers of the challenger (%s)", delivery.place, delivery.result, error)
