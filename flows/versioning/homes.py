"""A clone for each worker of this machine: it shares with the others only git and DVC's remote."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from flows.orchestration.services import FOLDER
from flows.versioning.clones import refuse_changes, take
from flows.versioning.stages import BAD_INPUT, StageFailedError

HOMES = FOLDER / "clones"


def provide(worker: str) -> Path:
    """The folder of the clone of a worker that is not at work, on the commit that this project is on.

    Made where there is none yet. The worker loads its flows from it, which must know the parameters of the
    deployments. Its remote of DVC is this project's, by an absolute path where that is a folder; the folder is made.

    Raises:
        StageFailedError: this is no project under git with a commit, it has no remote, or the clone was changed.
    """
    home = (HOMES / worker).resolve()
    if not (home / ".git").exists():
        shutil.rmtree(home, ignore_errors=True)  # cut short
        home.parent.mkdir(parents=True, exist_ok=True)
        new = home.with_name(f"{worker}.new")
        shutil.rmtree(new, ignore_errors=True)
        _git("clone", "--quiet", str(Path.cwd()), str(new))
        new.rename(home)
    take("HEAD", home)
    _same_remote(home)
    return home


def provided() -> list[Path]:
    """The clones that there are on this machine."""
    return sorted(path.parent for path in HOMES.glob("*/.git"))


def told_of_changes() -> str | None:
    """A remark where this folder holds changes that no commit has, which workers will not see."""
    try:
        refuse_changes()
    except StageFailedError:
        return "This folder holds changes that are in no commit: workers do not see them until you commit."
    return None


def _same_remote(home: Path) -> None:
    from dvc.config import Config, NoRemoteError

    settings = Config(str(Path(".dvc").resolve()))
    name = settings["core"].get("remote")
    if not name:
        raise StageFailedError(
            "DVC has no default remote, by which workers would share results: `dvc remote add -d`.", BAD_INPUT
        )
    try:
        remote: dict[str, Any] = settings["remote"][name]
    except (KeyError, NoRemoteError) as error:
        raise StageFailedError(f"DVC's default remote {name} is not defined: {error}", BAD_INPUT) from error
    own = Path(".dvc/config.local")
    if own.exists():  # with passwords, and remotes that only this machine has
        shutil.copy(own, home / ".dvc" / own.name)
    url = str(remote["url"])
    if "://" not in url:
        Path(url).mkdir(parents=True, exist_ok=True)
        with Config(str(home / ".dvc")).edit("local") as edited:
            edited.setdefault("remote", {}).setdefault(name, {})["url"] = str(Path(url).resolve())


def _git(*arguments: str) -> None:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StageFailedError(f"git {arguments[0]}: {done.stderr.strip()}", BAD_INPUT)
