"""Write what validation saw of each building, and read it again: what the gates are judged
by, without a model."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plumbline.core.arrays import Float
from plumbline.core.errors import InputError
from plumbline.validate.metrics import JudgedAnswers

FILE = "answers.npz"
"""File of the stage `validate` with the evidence."""


class GateEvidence(NamedTuple):
    """Answers for the B test buildings, and the truth."""

    everyone: Mapping[str, JudgedAnswers]
    """Contender -> its answers."""
    quadrant: NDArray[np.int64]
    """(B,) true quadrant, -1 below category 1."""
    severity: Float
    """(B,) true severity, permille."""
    parts: Mapping[str, NDArray[np.bool_]]
    """Slice -> (B,) whether a building is in it."""


def write_answers(evidence: GateEvidence, path: Path) -> None:
    """Write the evidence as a NumPy archive.

    It has `CONTENDER.FIELD` (see `JudgedAnswers`), `quadrant`, `severity`, and the S slices as
    `slices` (S,) and `inside` (S, B).
    """
    arrays = {
        f"{name}.{field}": np.asarray(values)
        for name, judged in evidence.everyone.items()
        for field, values in judged._asdict().items()
        if values is not None
    }
    arrays |= {"quadrant": evidence.quadrant, "severity": evidence.severity}
    arrays |= {
        "slices": np.array(list(evidence.parts)),
        "inside": np.array(list(evidence.parts.values())),
    }
    np.savez_compressed(path, allow_pickle=False, **arrays)


def read_answers(path: Path) -> GateEvidence:
    """Read the evidence.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with np.load(path) as archive:
            arrays = dict(archive)
        names = dict.fromkeys(key.partition(".")[0] for key in arrays if "." in key)
        everyone = {
            name: JudgedAnswers(
                **{
                    field: arrays[f"{name}.{field}"][()]  # of a share, the number
                    for field in JudgedAnswers._fields
                    if f"{name}.{field}" in arrays
                }
            )
            for name in names
        }
        parts = dict(zip(arrays["slices"].tolist(), arrays["inside"], strict=True))
        return GateEvidence(everyone, arrays["quadrant"], arrays["severity"], parts)
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file. Run `plumbline validate` first.", key="file.missing"
        ) from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(
            f"{path}: not readable as evidence ({error}). Run `plumbline validate` again.",
            key="evidence.unreadable",
        ) from None
