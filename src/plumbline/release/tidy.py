"""Choose what stays in the registry: champion, roll-back targets, the newest, and all with
an alias."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from plumbline.core.errors import InputError
from plumbline.core.jobs import remove
from plumbline.params import Tidy
from plumbline.release.registry import Registry
from plumbline.release.server import EXPERIMENT
from plumbline.release.versions import DAY_MS, Registered, download_folder, former_champions


@dataclass(frozen=True)
class RemovedPackages:
    """Packages and records that were removed, or would be."""

    packages: list[Registered]
    trainings: int
    """Records of trainings."""


def plan_tidy(
    versions: Sequence[Registered], aliased: Collection[int], params: Tidy
) -> list[Registered]:
    """Return the versions that go, the oldest first.

    Args:
        versions: all of the registry. aliased: numbers with an alias, as the champion has.
            params: section `tidy`.
    """
    targets = {item.number for item in former_champions(versions)[: params.former_champions]}
    removable = [
        item for item in versions if not item.champion and item.number not in targets.union(aliased)
    ]
    return sorted(removable, key=lambda item: -item.number)[params.packages :][::-1]


def tidy(params: Tidy, registry: Registry, dry_run: bool = False) -> RemovedPackages:
    """Remove packages that are not needed any more, and old records of training.

    Nobody promotes meanwhile (on SQLite; on a server a registration of the last day is left
    alone). Cut anywhere, the champion and all roll-backs that are kept work, and the next
    time goes on.

    Args:
        params: section `tidy`. registry: which. dry_run: change nothing, tell what would be
            removed.

    Raises:
        InputError: the registry does not answer, or the champion is not among its versions.
    """
    with registry.server.alone():
        versions = registry.versions()
        aliased = registry.aliased()
        missing = aliased - {item.number for item in versions}
        if missing:
            raise InputError(
                f"{registry.name}: an alias names version {min(missing)}, which is not there. "
                "Nothing was removed. See `plumbline release list`, and set the alias again.",
                key="registry.alias_without_version",
            )
        going = plan_tidy(versions, aliased, params)
        for item in [] if dry_run else going:
            # On a server another machine may have made it the champion since.
            if registry.server.locks or item.number not in registry.aliased():
                registry.withdraw(item.number)
        with registry.records() as records:
            young = 0 if registry.server.locks else DAY_MS
            trainings = records.old_trainings(params.days, params.runs)
            if not dry_run:
                for run in [*records.unused(EXPERIMENT, registry.runs_in_use(), young), *trainings]:
                    records.remove(run)
    if not dry_run:
        for version in {item.version for item in going}:
            with suppress(InputError):  # what is no version was never fetched
                remove(download_folder(version))
    return RemovedPackages(going, len(trainings))
