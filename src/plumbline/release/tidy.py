"""Choose what stays in the registry: champion, roll-back targets, the newest, and all with an alias."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass

from plumbline.core.errors import InputError
from plumbline.core.jobs import remove
from plumbline.params import Tidy
from plumbline.release.registry import Registry
from plumbline.release.server import EXPERIMENT
from plumbline.release.versions import DAY_MS, Registered, download_folder


@dataclass(frozen=True)
class TidyPlan:
    """Decision on each version of a registry."""

    going: list[Registered]
    """Versions that go, the oldest first."""
    history: list[int]
    """Former champions that can still be gone back to: the end of the registry's own list."""


@dataclass(frozen=True)
class RemovedPackages:
    """Packages and records that were removed, or would be."""

    packages: list[Registered]
    trainings: int
    """Records of trainings."""


def plan_tidy(
    versions: Sequence[Registered], history: Sequence[int], aliased: Collection[int], params: Tidy
) -> TidyPlan:
    """Decide which versions stay.

    Args:
        versions: all of the registry. history: its former champions. aliased: numbers with an alias, as the champion
            has. params: section `tidy`.
    """
    champion = next((item.number for item in versions if item.champion), None)
    kept = list(history[_begin(champion, history, params.former_champions) :])
    newest = sorted((item for item in versions), key=lambda item: -item.number)
    stays = {*kept, *aliased, *([] if champion is None else [champion])}
    stays |= {item.number for item in [item for item in newest if item.number not in stays][: params.packages]}
    going = [item for item in reversed(newest) if item.number not in stays]
    return TidyPlan(going, kept)


def tidy(params: Tidy, registry: Registry, dry_run: bool = False) -> RemovedPackages:
    """Remove packages that are not needed any more, and old records of training.

    Nobody promotes meanwhile (on SQLite; on a server a registration of the last day is left alone). Cut anywhere, the
    champion and all roll-backs that are kept work, and the next time goes on.

    Args:
        params: section `tidy`. registry: which. dry_run: change nothing, tell what would be removed.

    Raises:
        InputError: the registry does not answer, or the champion is not among its versions.
    """
    with registry.server.alone():
        versions = registry.versions()
        aliased = registry.aliased()
        missing = aliased - {item.number for item in versions}
        if missing:
            raise InputError(
                f"{registry.name}: an alias names version {min(missing)}, which is not there. Nothing was "
                "removed. See `plumbline release list`, and set the alias anew."
            )
        decided = plan_tidy(versions, registry.history(), aliased, params)
        if not dry_run:
            if decided.history != registry.history():
                registry.keep_history(decided.history)
            for item in decided.going:
                # On a server another machine may have made it the champion since.
                if registry.server.locks or item.number not in registry.aliased():
                    registry.withdraw(item.number)
        with registry.records() as records:
            young = 0 if registry.server.locks else DAY_MS
            runs = records.unused(EXPERIMENT, registry.runs_in_use({item.number for item in decided.going}), young)
            trainings = records.old_trainings(params.days, params.runs)
            if not dry_run:
                for run in [*runs, *trainings]:
                    records.remove(run)
    if not dry_run:
        for version in {item.version for item in decided.going}:
            with suppress(InputError):  # what is no version was never fetched
                remove(download_folder(version))
    return RemovedPackages(decided.going, len(trainings))


def _begin(champion: int | None, history: Sequence[int], count: int) -> int:
    """Return the start of the part of the history that `count` roll-backs, one after the other, go through.

    As `Registry.former` and `Registry.restore` do: each passes over what is the champion at that time.
    """
    end = len(history)
    for _ in range(count):
        at = next((at for at in range(end - 1, -1, -1) if history[at] != champion), None)
        if at is None:
            return 0
        end, champion = at, history[at]
    return end
