"""Read and list published results: one complete folder per delivery, with a record of its inputs.

`OUT/PLACE/DELIVERY-HASH/` has the files named here, and `OUT/PLACE/latest.json` names the
result that was observed last. `OUT/PLACE/alarms.csv` is derived from all results. Names
that begin with `_` are records: of deliveries that could not be judged, of messages and
events that were sent, of the inputs of the alarms, and of the answers of a challenger,
which are not published.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, sha256_file, write_json

MANIFEST, LATEST = "manifest.json", "latest.json"
PREDICTIONS, MAP, CHANGES = "predictions.gpkg", "map.html", "changes.csv"
DRIFT, ALARMS = "drift.json", "alarms.csv"
ASIDE, SENT, EVENTS, SHADOW, LOOKS = "_aside", "_sent", "_events", "_shadow", "_looks.json"
DERIVED = "_alarms"


class DeliveryResult(BaseModel):
    """`manifest.json` of a result."""

    model_config = ConfigDict(extra="forbid")
    format: int = 1
    place: str
    delivery: str
    id: str
    """SHA-256 over names and hashes of the delivered files."""
    inputs: dict[str, dict[str, Any]]
    """Delivered file -> `sha256`, `bytes`."""
    footprints: dict[str, str]
    """`path` and `sha256` of the file of the footprints."""
    causes: dict[str, str] | None = None
    """`path` and `sha256` of the file of causes; None without one."""
    damage_rate_by: str = "place"
    """`city` or `place`: level at which the share of damaged buildings is estimated,
    besides causes."""
    model: dict[str, str]
    """`name` and `version` of the package."""
    code: str
    """SHA-256 of the code that reads, prepares and judges."""
    observed: dict[str, str]
    """`from` and `to`: first and last epoch of any track."""
    tracks: list[dict[str, Any]]
    """`name`, `product`, `points`, `epochs`, `first_epoch` and `last_epoch` of each."""
    tiles: int
    buildings: int
    statuses: dict[str, int]
    categories: dict[str, int]
    damage_rate: dict[str, float] = {}
    """`rate`, and the ends `low` and `high` of its 90 % interval."""
    left_out: dict[str, int]
    """Reason -> number of buildings that could not be prepared, see
    `prepare.abstention.LeftOut`."""
    compared_with: str | None
    """Folder of the result that it was compared with; None: the first of its place."""
    changes: dict[str, int]
    """See `changes.DeliveryChanges`."""
    drift: str
    """Verdict of `drift.json`, see `serve.score.drift`."""
    made: str
    """Time at which the result was made, UTC."""
    files: dict[str, dict[str, Any]]
    """File of the result -> `sha256`, `bytes`."""

    @property
    def folder_name(self) -> str:
        """Return the name of its folder."""
        return f"{self.delivery}-{self.id[:8]}"


def read_result(folder: Path) -> DeliveryResult:
    """Read the manifest of a result.

    Raises:
        InputError: there is none, or it is not one.
    """
    advice = "Move the folder away; its delivery is then judged again."
    try:
        return DeliveryResult.model_validate(read_json(folder / MANIFEST))
    except InputError as error:
        raise InputError(
            f"{error} {advice}" if (folder / MANIFEST).is_file() else str(error), key=error.key
        ) from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder / MANIFEST}: {place}: {first['msg']}. {advice}", key="result.damaged_manifest"
        ) from None


def results(out: Path, place: str) -> list[DeliveryResult]:
    """Return all results of a place, by last observation, then by time of making, then by name.

    Raises:
        InputError: as `read_result`.
    """
    place_results = [read_result(path.parent) for path in (out / place).glob(f"[!.]*/{MANIFEST}")]
    return sorted(place_results, key=lambda r: (r.observed["to"], r.made, r.folder_name))


def former(place_results: list[DeliveryResult], observed_to: str) -> DeliveryResult | None:
    """Return the result to compare a delivery with: the latest by observation that does not
    look further.

    So a late delivery is compared with what came before it in time, and not with its own future.
    """
    earlier = [r for r in place_results if r.observed["to"] <= observed_to]
    return earlier[-1] if earlier else None


def note_latest(out: Path, place: str) -> None:
    """Update `latest.json` of a place, which a killed run may have left outdated."""
    place_results = results(out, place)
    if not place_results:
        return
    last_result = place_results[-1]
    latest = {
        "folder": last_result.folder_name,
        "delivery": last_result.delivery,
        "observed_to": last_result.observed["to"],
        "model_version": last_result.model["version"],
        "made": last_result.made,
    }
    path = out / place / LATEST
    # All of it: a delivery that is judged again, by another model, has the folder that it had.
    if read_record(path) != latest:
        write_json(path, latest)


def read_drifts(out: Path) -> dict[str, dict[str, Any]]:
    """Return place -> content of `drift.json` of its latest result.

    Places whose files cannot be read are left out.
    """
    drifts = {}
    for path in sorted(out.glob(f"[!_.]*/{LATEST}")):
        # The result may be being replaced; or it is damaged, which `score` reports.
        with suppress(InputError, OSError, KeyError, TypeError):
            drifts[path.parent.name] = read_json(path.parent / read_json(path)["folder"] / DRIFT)
    return drifts


def read_record(path: Path, *keys: str) -> Any:
    """Read a record that a killed run may have left incomplete, or not have written; None
    then, or without `keys`."""
    try:
        record = read_json(path)
    except InputError:
        return None
    return record if isinstance(record, dict) and record.keys() >= set(keys) else None


def listed(folder: Path) -> dict[str, dict[str, Any]]:
    """Return hash and size of each file of a result."""
    return {
        path.name: {"sha256": sha256_file(path), "bytes": path.stat().st_size}
        for path in sorted(folder.iterdir())
    }


def now() -> str:
    """Return date and time, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")
