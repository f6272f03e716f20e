"""Set deliveries aside that cannot be judged, with the reason, until something is mended."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

from plumbline.core.errors import InputError, NotWritable
from plumbline.core.files import read_json, sha256_file, write_json
from plumbline.params import Params
from plumbline.serve.score.deliveries import Delivery
from plumbline.serve.score.results import ASIDE, now
from plumbline.serve.score.tiles import code_hash

OF_THE_MACHINE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EROFS,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
    errno.ENOTCONN,
}
"""What a disk, a network or a memory says: the next run may do better, and the delivery is not at fault."""


def is_of_the_machine(error: BaseException | None) -> bool:
    """Return whether an error comes from one of `OF_THE_MACHINE` or a failed write, even if wrapped by a reader."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, NotWritable) or (isinstance(error, OSError) and error.errno in OF_THE_MACHINE):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False


def set_aside(delivery: Delivery, error: InputError, params: Params) -> dict[str, Any]:
    """Record why a delivery cannot be judged; its files stay where they are."""
    told = {
        "format": 1,
        "place": delivery.place,
        "delivery": delivery.name,
        "id": delivery.id,
        "reason": str(error),
        "inputs": delivery.files,
        "tried_with": _settings(delivery, params),
        "made": now(),
    }
    write_json(_path(delivery, params), told)
    return told


def is_aside(delivery: Delivery, params: Params) -> bool:
    """Return whether these files were tried with this code and these settings, and could not be judged."""
    try:
        return bool(read_json(_path(delivery, params))["tried_with"] == _settings(delivery, params))
    except (InputError, KeyError, TypeError):
        return False


def bring_back(delivery: Delivery, params: Params) -> None:
    """Remove the record that a delivery was set aside, after it has been judged."""
    _path(delivery, params).unlink(missing_ok=True)


def _path(delivery: Delivery, params: Params) -> Path:
    return params.score.out / ASIDE / delivery.place / f"{delivery.result}.json"


def _settings(delivery: Delivery, params: Params) -> str:
    """Hash everything that may be mended to make the delivery readable."""
    elsewhere = params.score.footprints.get(delivery.place)
    about = [
        params.ingest.model_dump(mode="json"),
        code_hash(),
        sha256_file(elsewhere) if elsewhere else None,
    ]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()
