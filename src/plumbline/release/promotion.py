"""Promote packages: make a better one the champion, roll back to the one before, find its files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from plumbline.core.errors import GateRefused, InputError, SignatureRefused
from plumbline.core.extras import need
from plumbline.export.package import MANIFEST, PackageManifest
from plumbline.release.names import DEFAULT_NAME, verify_package
from plumbline.release.registry import SIGNATURE, Registry
from plumbline.release.server import local_folder
from plumbline.release.signature import check_private_key, check_signature, sign
from plumbline.release.versions import FORMER, ROLLED_BACK, Registered, former_champions
from plumbline.validate.gates.verdict import check_format

Compare = Callable[[Path, Path], Path | None]
"""Takes the folders of the candidate and of the champion; raises `GateRefused` where the
candidate is worse. Results in the folder with the evidence, which goes on record with the
candidate, if there is one."""


@dataclass(frozen=True)
class Promotion:
    """Outcome of a promotion or roll-back."""

    champion: Registered
    changed: bool
    """False where the package was the champion already."""
    former: Registered | None
    """The champion it replaced."""


def promote(
    package: Path,
    compare: Compare,
    registry: Registry | None = None,
    allow_former: bool = False,
    sign_key: Path | None = None,
) -> Promotion:
    """Make `package` the champion, if it is unharmed and `compare` accepts it.

    The registry keeps its own copy of the files. A package that is registered already is
    not registered again, unless that copy was damaged, and one that is the champion already
    is left alone. Whatever fails, the champion stays what it was. A package that was rolled
    back, or was the champion until another replaced it, is only promoted where
    `allow_former` says that this is meant.

    Of two promotions at once on one machine the second waits, and is compared with what the
    first made the champion. On two machines with one registry, the one that comes last to
    the alias finds another champion than it was compared with, and is refused; a registry
    has no comparison and change in one, so within the milliseconds between both may still
    get through.

    With `sign_key`, a private key, the registry's copy is signed before it becomes the
    champion, and so is one that is the champion already. What is signed are the files of
    `package`: a copy with other evidence or another card is not taken for it.

    Raises:
        InputError: the key is unfit, or others can read it; the package is damaged, its
            gate is of a format that this version does not know, the registry does not
            answer, or another promotion changed the champion meanwhile.
        GateRefused: the package did not pass its gates, was rolled back or replaced; or
            from `compare`, which is asked only where another package is the champion.
    """
    manifest = _passed(package)
    _check_key(sign_key)
    registry = registry or Registry(manifest.name)
    with registry.server.alone():
        return _promote(
            package, manifest, compare, registry, allow_former=allow_former, sign_key=sign_key
        )


def is_champion(package: Path, registry: Registry | None = None) -> bool:
    """Return whether `package` is the champion already, so that `promote` would change nothing.

    Raises:
        InputError: the package is damaged, or the registry does not answer.
        GateRefused: the package did not pass its gates.
    """
    manifest = _passed(package)
    _, former, candidate = _standing(package, manifest, registry or Registry(manifest.name))
    return former is not None and former == candidate


def _passed(package: Path) -> PackageManifest:
    manifest = verify_package(package)
    if manifest.gate.get("verdict") != "pass":
        raise GateRefused(
            f"{package}: the gate's verdict in its manifest is {manifest.gate.get('verdict')!r}, "
            "not 'pass'.",
            key="gate.not_passed",
        )
    check_format(manifest.gate, package / MANIFEST)
    return manifest


def _check_key(key: Path | None) -> None:
    """Refuse an unusable key before anything is registered."""
    if key is not None:
        need("sign", "--sign-key")
        check_private_key(key)


def _standing(
    package: Path, manifest: PackageManifest, registry: Registry, to_sign: bool = False
) -> tuple[list[Registered], Registered | None, Registered | None]:
    """Return all registered packages, the champion, and the unharmed entry of this very package."""
    registered = registry.versions()
    former = next((item for item in registered if item.champion), None)
    return registered, former, _copy_of(package, manifest, registry, registered, to_sign)


def _copy_of(
    package: Path,
    manifest: PackageManifest,
    registry: Registry,
    registered: list[Registered],
    to_sign: bool,
) -> Registered | None:
    """Return the unharmed entry of the package; if it will be signed, it must have the same
    bytes."""
    same = (item for item in registered if item.version == manifest.version)
    return next(
        (
            i
            for i in same
            if _unharmed(registry, i) and (not to_sign or _is_same(package, registry, i))
        ),
        None,
    )


def _is_same(package: Path, registry: Registry, item: Registered) -> bool:
    """Return whether the registry's unharmed copy equals an unharmed package, by the hashes
    in the manifest."""
    return (registry.folder(item) / MANIFEST).read_bytes() == (package / MANIFEST).read_bytes()


def _sign(package: Path, key: Path, registry: Registry, item: Registered) -> None:
    """Sign the files of `package`, and store the signature with the registry's copy."""
    verify_package(registry.folder(item, anew=True))
    if not _is_same(package, registry, item):
        raise InputError(
            f"{package}: not signed. The registry's copy, number {item.number}, has other files "
            "now. Promote it again.",
            key="registry.copy_changed",
        )
    with TemporaryDirectory() as folder:
        registry.keep_signature(item, sign(package, key, Path(folder) / SIGNATURE))


def _promote(
    package: Path,
    manifest: PackageManifest,
    compare: Compare,
    registry: Registry,
    *,
    allow_former: bool,
    sign_key: Path | None,
) -> Promotion:
    registered, former, candidate = _standing(package, manifest, registry, sign_key is not None)
    evidence = None
    if former is None or former.version != manifest.version:
        if not allow_former:
            _refuse_return(package, manifest.version, registered)
        if former is not None:
            evidence = compare(package, registry.folder(former))
    elif former == candidate:
        if sign_key is not None:
            _sign(package, sign_key, registry, former)
        return Promotion(former, changed=False, former=None)
    if candidate is None:
        candidate = registry.register(package, manifest)
        verify_package(registry.folder(candidate))
    if sign_key is not None:
        _sign(package, sign_key, registry, candidate)
    if evidence is not None:
        registry.record(candidate, evidence)
    present = registry.champion()
    if (present and present.number) != (former and former.number):
        now = f"version {present.version}" if present else "none"
        raise InputError(
            f"{package}: not promoted. Meanwhile another promotion changed the champion ({now} "
            "now), and this one was "
            "not compared with it. Promote it again.",
            key="champion.changed_meanwhile",
        )
    registry.set_champion(candidate.number)
    return Promotion(
        replace(candidate, champion=True, rolled_back=False), changed=True, former=former
    )


def _refuse_return(package: Path, version: str, registered: list[Registered]) -> None:
    """Refuse a registered former champion: an old commit or a retry would bring it back by
    accident."""
    states = {item.state for item in registered if item.version == version}
    if states & {FORMER, ROLLED_BACK}:
        fate = (
            "was rolled back"
            if ROLLED_BACK in states
            else "was the champion until another replaced it"
        )
        raise GateRefused(
            f"{package}: version {version} {fate} and stays out. "
            f"`plumbline release promote --again {package}` promotes it all the same; a package "
            "of another version "
            "is promoted as usual.",
            key="package.former_champion",
        )


def rollback(
    name: str = DEFAULT_NAME, registry: Registry | None = None, to: str | None = None
) -> Promotion:
    """Make a former champion the champion again.

    Args:
        name: registered model. registry: where it is, if not in the usual one.
        to: version of that champion; None: the one before the present, so that a repeated
            call goes one further back.

    Raises:
        InputError: there was none before or none of that version, its files are damaged, or
            the registry does not answer.
    """
    registry = registry or Registry(name)
    with registry.server.alone():
        versions = registry.versions()
        present = next((item for item in versions if item.champion), None)
        if to is not None and present is not None and present.version == to:
            return Promotion(present, changed=False, former=present)
        former = former_champions(versions)
        if present is None or not former:
            raise InputError(
                f"{registry.name}: no champion was released before the present one, so there is "
                "none to go back to. "
                "See `plumbline release list`.",
                key="champion.none_before",
            )
        target = next((item for item in former if to in (None, item.version)), None)
        if target is None:
            listed = ", ".join(item.version for item in former)
            raise InputError(
                f"{registry.name}: {to} is no former champion. Former champions: {listed}.",
                key="champion.not_former",
            )
        verify_package(registry.folder(target))
        registry.restore(target)
        return Promotion(replace(target, champion=True), changed=True, former=present)


def challenge(
    package: Path, registry: Registry | None = None, sign_key: Path | None = None
) -> Registered:
    """Make an unharmed package the challenger. It may have failed its gates, since its
    answers are not published.

    With `sign_key` it is signed as by `promote`.

    Raises:
        InputError: the key is unfit, the package is damaged, is the champion, or the
            registry does not answer.
    """
    manifest = verify_package(package)
    _check_key(sign_key)
    registry = registry or Registry(manifest.name)
    with registry.server.alone():
        entries = [item for item in registry.versions() if item.version == manifest.version]
        if any(item.champion for item in entries):
            raise InputError(
                f"{package}: version {manifest.version} is the champion. Give another package.",
                key="package.is_champion",
            )
        entry = _copy_of(package, manifest, registry, entries, sign_key is not None)
        entry = entry or registry.register(package, manifest)
        if sign_key is not None:
            _sign(package, sign_key, registry, entry)
        registry.challenge(entry.number)
        return entry


def find_challenger(
    name: str = DEFAULT_NAME, registry: Registry | None = None, verify_key: Path | None = None
) -> Path | None:
    """Return the folder of the challenger's package; None without a challenger.

    Raises:
        InputError: the registry does not answer, or the files are gone.
        SignatureRefused: it is not signed with the key `verify_key`.
    """
    registry = registry or Registry(name)
    item = registry.challenger()
    return None if item is None else signed_folder(registry, item, verify_key)


def signed_folder(registry: Registry, item: Registered, verify_key: Path | None) -> Path:
    """Return the folder of a registered package; with a public key, only if it is signed with it.

    Raises:
        InputError: the registry does not answer, or the files are gone.
        SignatureRefused: it is not signed with that key.
    """
    folder = registry.folder(item)
    if verify_key is None:
        return folder
    signature = registry.signature(item)
    try:
        check_signature(folder, verify_key, signature)
    except SignatureRefused:
        # A download from before may be of the same version with other evidence: the
        # registry's own may be well.
        if local_folder(item.source) is not None:
            raise
        folder = registry.folder(item, anew=True)
        check_signature(folder, verify_key, signature)
    return folder


def _unharmed(registry: Registry, item: Registered) -> bool:
    try:
        verify_package(registry.folder(item))
    except InputError:
        return False
    return True
