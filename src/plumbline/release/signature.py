"""Sign model packages with a key, and refuse a package that is unsigned, altered or signed
with another key."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from plumbline.core.errors import InputError, SignatureRefused
from plumbline.core.extras import need
from plumbline.core.files import atomic_file
from plumbline.release.names import verify_package

SUFFIX = ".sig"
PASSWORD = "PLUMBLINE_SIGN_KEY_PASSWORD"  # noqa: S105 - the name of the variable that holds it
HOW = "See docs/trust.md."


def signature_of(package: Path) -> Path:
    """Return the path of a package's signature, beside its folder, which must not change."""
    folder = package if package.name not in ("", "..") else package.resolve()
    return folder.with_name(folder.name + SUFFIX)


def sign(package: Path, key: Path, signature: Path | None = None) -> Path:
    """Sign a whole and unchanged package; return the path of the signature.

    The format is that of OpenSSF Model Signing: the SHA-256 of every file, signed with
    ECDSA, in a Sigstore bundle. Nothing is sent anywhere.

    Args:
        package: its folder.
        key: private key of an elliptic curve, PEM, readable by its owner alone. Its
            password stands in the environment variable `PLUMBLINE_SIGN_KEY_PASSWORD`, if it
            has one.
        signature: file to write; None: `signature_of(package)`.

    Raises:
        InputError: the package is damaged, or the key is missing, unfit or readable by others.
        ExtraMissing: the extra `sign` is not installed.
    """
    need("sign", "--sign-key")
    signer = check_private_key(key)
    verify_package(package)
    _refuse_linked_folders(package)
    signature = signature or signature_of(package)
    with atomic_file(signature) as temporary:
        signer.set_hashing_config(_every_file()).sign(package, temporary)
    return signature


def check_signature(package: Path, key: Path, signature: Path | None = None) -> None:
    """Refuse a package that differs from what the owner of the key has signed.

    Args:
        package: its folder.
        key: public key of an elliptic curve, PEM.
        signature: file with the signature; None: `signature_of(package)`.

    Raises:
        SignatureRefused: the signature is missing, unreadable or of another key, or a file
            was changed, added or removed since.
        InputError: the key is missing or unfit.
        ExtraMissing: the extra `sign` is not installed.
    """
    need("sign", "--verify-key")
    verifier = _verifier(key)
    signature = signature or signature_of(package)
    if not package.is_dir():
        raise InputError(
            f"{package}: no such folder. Give the folder of a model package.", key="package.missing"
        )
    if not signature.is_file():
        raise SignatureRefused(
            f"{package}: not signed: there is no {signature}. Get the package with its "
            "signature, or sign it: "
            f"`plumbline release sign` or `plumbline release promote --sign-key`. {HOW}",
            key="signature.missing",
        )
    _refuse_linked_folders(package)
    try:
        verifier.set_hashing_config(_every_file()).verify(package, signature)
    except Exception as error:  # whatever stops the check, the package is refused
        reason = " ".join(str(error).split())[:500] or type(error).__name__
        raise SignatureRefused(
            f"{package}: differs from what the owner of {key} signed: {reason}. Get it and its "
            f"signature again. {HOW}",
            key="signature.mismatch",
        ) from error


def check_private_key(key: Path) -> Any:
    """Return the library's signer of a private key that only its owner can read.

    Raises:
        InputError: the key is missing, unfit, has another password, or others can read it.
    """
    mode = stat.S_IMODE(key.stat().st_mode) if key.is_file() else 0
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            f"{key}: others can read or change this private key (mode {mode:04o}). "
            f"Make it yours alone: `chmod 600 {key}`. If others had it, make a new key. {HOW}",
            key="sign_key.open_to_others",
        )
    from model_signing import signing  # three seconds to load, and seldom needed

    password: Any = os.environ[PASSWORD].encode() if os.environ.get(PASSWORD) else None
    try:
        return signing.Config().use_elliptic_key_signer(private_key=key, password=password)
    except Exception as error:  # of several libraries
        raise InputError(
            f"{key}: cannot sign ({error}). Give a private key of the curve P-256, P-384 or "
            "P-521 in PEM, and set "
            f"{PASSWORD} to its password, if it has one. {HOW}",
            key="sign_key.unusable",
        ) from error


def _verifier(key: Path) -> Any:
    """Return the library's verifier of a public key."""
    from model_signing import verifying

    try:
        return verifying.Config().use_elliptic_key_verifier(public_key=key)
    except Exception as error:  # of several libraries
        raise InputError(
            f"{key}: cannot verify ({error}). Give the public key in PEM: `openssl pkey "
            f"-pubout`. {HOW}",
            key="verify_key.unusable",
        ) from error


def _refuse_linked_folders(package: Path) -> None:
    """Refuse a link to a folder: the files behind it are neither hashed nor listed."""
    linked = next(
        (path for path in package.rglob("*") if path.is_symlink() and path.is_dir()), None
    )
    if linked is not None:
        raise SignatureRefused(
            f"{linked}: a link to a folder, which no signature covers. Get the package again. "
            f"{HOW}",
            key="package.linked_folder",
        )


def _every_file() -> Any:
    from model_signing import hashing

    # Links to files are followed: a DVC cache may consist of them, and what they lead to is hashed.
    return (
        hashing.Config()
        .set_ignored_paths(paths=[], ignore_git_paths=False)
        .set_allow_symlinks(True)
    )
