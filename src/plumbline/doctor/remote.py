"""Check that DVC's remote can be reached and written to: machines share data only through it and git."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from plumbline.core.extras import install, is_installed
from plumbline.doctor.finding import Finding, Place, fault, nothing, ok, warning
from plumbline.doctor.probes import dvc, dvc_settings, unwritable

WHY = "Without it results go to no other machine, and DVC computes anew without a word."


def check_remote(place: Place) -> Iterator[Finding]:
    """Check that the default remote stores an object and returns it."""
    if not Path(".dvc").is_dir():
        yield nothing("no DVC project here")
        return
    if not is_installed("dvc"):
        yield nothing(f"DVC is not installed, and no stage runs under it ({install('pipeline')})")
        return
    settings = dvc_settings(place.seconds)
    name = settings.get("core.remote")
    if name is None:
        yield warning("no default remote is set", f"`dvc remote add --default NAME URL`. {WHY}")
        return
    url = settings.get(f"remote.{name}.url")
    if url is None:
        yield fault(f"the default remote {name} has no address", f"`dvc remote add {name} URL`. {WHY}")
    elif "://" in url:
        yield from _elsewhere(name, url, settings, place.seconds)
    else:
        yield from _folder(name, Path(url))


def _folder(name: str, folder: Path) -> Iterator[Finding]:
    inside = folder.is_relative_to(Path.cwd())
    if not folder.is_dir() and (folder.exists() or not inside):
        # DVC would make the folder: on the disk below a mount that is gone, where no other machine sees it.
        yield fault(
            f"{name}: {folder} is no folder",
            f"Mount it, or make it, or correct the address (`dvc remote modify {name} url …`). {WHY}",
        )
    elif why := unwritable(folder):
        yield fault(f"{name}: nothing can be written there ({why})", f"Give this user the right to write. {WHY}")
    elif not folder.is_dir():
        yield ok(f"{name}: {folder} is not there yet; the first `dvc push` makes it")
    else:
        yield ok(f"{name}: {folder}, a file was written and removed")


def _elsewhere(name: str, url: str, settings: Mapping[str, str], seconds: float) -> Iterator[Finding]:
    """Push a few bytes with DVC to a separate folder of the remote, and remove them.

    A project of its own too, in a temporary folder: `dvc gc` there removes whatever the remote holds that this project
    does not name, so the remote's address must never be that of the real one.
    """
    own = f"{url.rstrip('/')}/.plumbline-doctor-{secrets.token_hex(8)}"
    with tempfile.TemporaryDirectory(prefix="plumbline-doctor-") as temporary:
        folder = Path(temporary)
        (folder / ".dvc").mkdir()
        options = {key: value for key, value in settings.items() if key.startswith(f"remote.{name}.")}
        config = _config(name, {**options, f"remote.{name}.url": own}, folder)
        (folder / ".dvc" / "config").write_text(config, encoding="utf-8")
        (folder / "object").write_text(secrets.token_hex(16), encoding="utf-8")
        for words in (("add", "object"), ("push", "--remote", name)):
            ended = dvc(*words, seconds=seconds, folder=folder)
            if ended.code:
                yield fault(
                    f"{name}: {url}: `dvc {words[0]}` of a small object failed: {ended.error}",
                    f"See that the server runs and that name and key are right "
                    f"(`dvc remote modify --local {name} …`). {WHY}",
                )
                return
        (folder / "object.dvc").unlink()
        ended = dvc("gc", "--workspace", "--cloud", "--force", "--remote", name, seconds=seconds, folder=folder)
        if ended.code:
            yield warning(
                f"{name}: {url} takes objects, but gives no right to remove one: {ended.error}",
                f"Let the user remove objects, or never run `dvc gc --cloud`; {own} may be removed.",
            )
        else:
            yield ok(f"{name}: {url}, an object was pushed and removed")


def _config(name: str, options: Mapping[str, str], folder: Path) -> str:
    """Return a DVC config file for this remote; DVC keeps its working files in `folder`."""
    prefix = f"remote.{name}."
    lines = [f"{key.removeprefix(prefix)} = {_quoted(value)}" for key, value in options.items()]
    core = ["analytics = false", "check_update = false", "no_scm = true", f"site_cache_dir = {_quoted(str(folder))}"]
    return "\n".join(["[core]", *core, f"['remote \"{name}\"']", *lines, ""])


def _quoted(value: str) -> str:
    return f"'{value}'" if '"' in value else f'"{value}"'
