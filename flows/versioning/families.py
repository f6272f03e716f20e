"""Define the families of models for flows: each has a folder with `dvc.yaml` and `params.yaml`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flows.versioning.stage_runner import BAD_INPUT, STAGES, StageFailedError

REGISTRY = "MLFLOW_TRACKING_URI"


@dataclass(frozen=True)
class Family:
    """A family, seen from the root of the checkout."""

    name: str
    folder: Path
    showcase: str
    """The stage that shows what the released model does."""

    @property
    def steps(self) -> tuple[str, ...]:
        """Return the steps of a run, in order."""
        return (*STAGES, "release", self.showcase)


DIAGNOSIS = Family("diagnosis", Path(), "predict")
RESTORATION = Family("restoration", Path("restoration"), "restore")
FAMILIES = {family.name: family for family in (DIAGNOSIS, RESTORATION)}


def family_of(name: str) -> Family:
    """Return the family of this name.

    Raises:
        StageFailedError: there is none.
    """
    if name not in FAMILIES:
        raise StageFailedError(
            f"family: {name} found; one of {', '.join(FAMILIES)} needed",
            BAD_INPUT,
            key="family.unknown",
        )
    return FAMILIES[name]


@contextlib.contextmanager
def inside(family: Family) -> Iterator[None]:
    """Work in the folder of a family for the block, from the root of the checkout.

    The registry and the record of training stay those of the checkout: one place for all
    families, whose registered models have names of their own.

    Raises:
        StageFailedError: the folder is not there, as in a commit from before this family.
    """
    if family.folder == Path():
        yield
        return
    if not (family.folder / "dvc.yaml").is_file():
        raise StageFailedError(
            f"{family.folder}/dvc.yaml: no such file in {Path.cwd()}",
            BAD_INPUT,
            key="family.no_dvc_yaml",
        )
    named = os.environ.get(REGISTRY)
    os.environ[REGISTRY] = named or f"sqlite:///{Path('mlflow.db').resolve()}"
    try:
        with contextlib.chdir(family.folder):
            yield
    finally:
        os.environ.pop(REGISTRY, None)
        if named:
            os.environ[REGISTRY] = named
