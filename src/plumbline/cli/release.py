"""Register, promote, sign and remove packages: `plumbline release`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from plumbline.cli.families import family_in
from plumbline.cli.options import (
    DATA,
    PARAMS,
    RARE,
    Commands,
    PackageArgument,
    ParamsOption,
    SignKeyOption,
    VerifyKeyOption,
    print_table,
)
from plumbline.core.console import log, warn
from plumbline.core.errors import GateRefused, InputError
from plumbline.params import Tidy, load_params
from plumbline.params.load import load_restoration

FolderArgument = Annotated[
    Path, typer.Argument(help="Folder of a model package.", metavar="PACKAGE_DIR")
]
LIST_WIDTH = 140
"""Columns of the list of versions where it is not printed on a terminal."""
app = Commands(
    help="The registry of released models: promote, roll back, list.", no_args_is_help=True
)


@app.command(epilog="Example: `plumbline release promote data/package`")
def promote(
    package: FolderArgument,
    allow_former: Annotated[
        bool,
        typer.Option(
            "--again", help="Also if it was rolled back or replaced before.", rich_help_panel=RARE
        ),
    ] = False,
    sign_key: SignKeyOption = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Register a package and make it the champion, if it is not worse than the present one
    on the same test data.

    data/release/report.html compares both, whatever the outcome.
    """
    from plumbline.release.promotion import promote as run

    def compare(candidate: Path, champion: Path) -> Path:
        # Seconds to load, and seldom needed.
        if family_in(params).name == "restoration":
            from plumbline.fields.release.validate import compare_fields

            return compare_fields(
                candidate, champion, DATA / "prepare", load_restoration(params), DATA / "release"
            )
        from plumbline.release.compare import compare_with_champion

        return compare_with_champion(
            candidate, champion, DATA / "prepare", load_params(params), DATA / "release"
        )

    change = run(package, compare, allow_former=allow_former, sign_key=sign_key)
    if change.changed:
        former = f"; it was {change.former.version}" if change.former else ""
        log.info("champion is now %s%s", change.champion.version, former)
    else:
        log.info("%s is the champion already; nothing was registered", change.champion.version)
    if sign_key is not None:
        log.info("%s is signed with %s", change.champion.version, sign_key)
    _warn_of_name(package, _name_in(params))


def _name_in(params: Path) -> str:
    """Return the name of a project's registered model, of either family."""
    return str(family_in(params).load(params).package.name)


def _warn_of_name(package: Path, project_name: str) -> None:
    """Warn if a package has another name than this project's model and is registered under it."""
    from plumbline.release.names import verify_package

    name = verify_package(package).name
    if name != project_name:
        warn(
            "%s: its name is %s, under which it is registered; this project's is %s "
            "(package.name in params.yaml), and "
            "its champion and challenger stay what they were.",
            package,
            name,
            project_name,
            key="package.other_name",
        )


@app.command("is-champion", epilog="Example: `plumbline release is-champion data/package`")
def is_champion(
    package: FolderArgument,
) -> None:
    """Check whether an unharmed package is the champion: exit code 0, or 3 if not. Changes
    nothing."""
    from plumbline.release.promotion import is_champion as run

    if not run(package):
        raise GateRefused(
            f"{package} is not the champion. `plumbline release promote {package}` makes it so.",
            key="package.not_champion",
        )
    log.info("%s is the champion already", package)


@app.command(epilog="Example: `plumbline release rollback`")
def rollback(
    to: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Go back to this former champion, not to the last one."
        ),
    ] = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Make the champion before the present one the champion again."""
    from plumbline.release.promotion import rollback as run

    done = run(_name_in(params), to=to)
    if done.changed:
        log.info(
            "champion is %s again; it was %s",
            done.champion.version,
            done.former.version if done.former else "-",
        )
    else:
        log.info("%s is the champion already; nothing was changed", done.champion.version)


@app.command(
    epilog="Example: `plumbline release challenge data/package`; `plumbline release challenge "
    "--none`"
)
def challenge(
    package: Annotated[
        Path | None, typer.Argument(help="Folder of a model package.", metavar="PACKAGE_DIR")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Have no challenger any more.")] = False,
    sign_key: SignKeyOption = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Let a package answer beside the champion in `plumbline score`: recorded, never published."""
    from plumbline.release.promotion import challenge as run
    from plumbline.release.registry import Registry

    if (package is None) != none:
        raise InputError(
            "release challenge: give the folder of a package, or --none.",
            key="option.no_challenger",
        )
    if package is None:
        Registry(_name_in(params)).challenge(None)
        log.info("there is no challenger any more")
    else:
        log.info("challenger is now %s", run(package, sign_key=sign_key).version)
        _warn_of_name(package, _name_in(params))


@app.command(epilog="Example: `plumbline release sign data/package --sign-key KEY.pem`")
def sign(
    package: FolderArgument,
    sign_key: Annotated[
        Path,
        typer.Option(
            "--sign-key", metavar="KEY.pem", help="Private key of an elliptic curve, PEM."
        ),
    ],
) -> None:
    """Sign a package, of whatever family: the signature is written beside its folder, as
    PACKAGE_DIR.sig."""
    from plumbline.release.signature import sign as run

    log.info("signature written to %s", run(package, sign_key))


@app.command(epilog="Example: `plumbline release verify champion --verify-key PUBLIC.pem`")
def verify(
    package: PackageArgument,
    verify_key: VerifyKeyOption = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Check the hashes of a package's files and, with a key, that its owner has signed them
    (exit code 3 if not)."""
    from plumbline.release.names import verify_package
    from plumbline.release.resolve import resolve_model

    name = _name_in(params) if params.is_file() else None
    version = verify_package(resolve_model(package, name, verify_key=verify_key)).version
    if verify_key is None:
        log.info(
            "%s: version %s, every file is as its manifest says. No signature was checked: "
            "whoever changes a file can "
            "change the manifest, too. To check who made it: --verify-key PUBLIC.pem",
            package,
            version,
        )
    else:
        log.info("%s: version %s, signed with %s", package, version, verify_key)


@app.command(epilog="Example: `plumbline release tidy --dry-run`")
def tidy(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Remove nothing; say what would go.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option(help="Registered model; without it, this project's.", rich_help_panel=RARE),
    ] = None,
    params: ParamsOption = PARAMS,
) -> None:
    """Remove packages and records of training that are no longer wanted, by the section
    `tidy` of the parameters.

    The champion stays, and so do those before it that `plumbline release rollback` can go back to.
    """
    from plumbline.release.registry import Registry
    from plumbline.release.tidy import tidy as run

    settings = load_params(params).tidy if family_in(params).name == "diagnosis" else Tidy()
    removed = run(settings, Registry(name or _name_in(params)), dry_run)
    for old in removed.packages:
        log.info(
            "package %s, number %d, registered %s",
            old.version,
            old.number,
            f"{old.registered:%Y-%m-%d}",
        )
    action = "would be removed" if dry_run else "removed"
    log.info(f"{action}: {len(removed.packages)} packages, {removed.trainings} records of training")


@app.command("list", epilog="Example: `plumbline release list`")
def list_versions(params: ParamsOption = PARAMS) -> None:
    """List the registered packages, the newest first, with their main figures."""
    from plumbline.release.registry import Registry
    from plumbline.release.versions import MAIN_FIGURES

    registry = Registry(_name_in(params))
    versions = registry.versions()
    if not versions:
        log.info("nothing was released yet")
    metrics = registry.metrics() if versions else {}
    shown = {
        key: head
        for key, head in MAIN_FIGURES.items()
        if any(key in metrics.get(v.run, {}) for v in versions)
    }
    table = Table(
        "number", "version", "state", "registered", "by", "commit", "gates", *shown.values()
    )
    for version in versions:
        measured = metrics.get(version.run, {})
        table.add_row(
            str(version.number),
            version.version,
            version.state,
            f"{version.registered:%Y-%m-%d %H:%M} UTC",
            version.user,
            _shorten(version.commit),
            version.verdict,
            *(f"{measured[key]:.4g}" if key in measured else "" for key in shown),
        )
    print_table(table, LIST_WIDTH)


def _shorten(commit: str) -> str:
    """Return the first digits of a commit, and `-dirty` if files differed from it."""
    digits, dash, dirty = commit.partition("-")
    return f"{digits[:12]}{dash}{dirty}"
