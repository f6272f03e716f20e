"""Sign model packages with a key, and refuse a package that is unsigned, altered or signed with another key."""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

from plumbline.core.errors import InputError, SignatureRefused
from plumbline.core.extras import need
from plumbline.core.files import atomic_file
from plumbline.release.names import verify_package

SUFFIX = ".sig"
PASSWORD = "PLUMBLINE_SIGN_KEY_PASSWORD"  # noqa: S105 - the name of the variable that holds it
CURVES = ("secp256r1", "secp384r1", "secp521r1")
"""What Model Signing takes; OpenSSL calls the first prime256v1."""
MOST_BYTES = 4_000_000
"""Of a signature; it lists the package's files, and has a few kB."""
HOW = "See docs/trust.md."
FOUND = {
    "changed": r"Hash mismatch for \\?'([^'\\]+)",
    "added": r"Extra files found in model \\?'[^']*': ([^\"']+)",
    "missing": r"Missing files in model \\?'[^']*': ([^\"']+)",
}
"""What stands in the library's message about files."""


def signature_of(package: Path) -> Path:
    """Return the path of a package's signature, beside its folder, which must not change."""
    folder = package if package.name not in ("", "..") else package.resolve()
    return folder.with_name(folder.name + SUFFIX)


def sign(package: Path, key: Path, signature: Path | None = None) -> Path:
    """Sign a whole and unchanged package; return the path of the signature.

    The format is that of OpenSSF Model Signing: the SHA-256 of every file, signed with ECDSA, in a Sigstore bundle.
    Nothing is sent anywhere.

    Args:
        package: its folder.
        key: private key of an elliptic curve, PEM, readable by its owner alone. Its password stands in the environment
            variable `PLUMBLINE_SIGN_KEY_PASSWORD`, if it has one.
        signature: file to write; None: `signature_of(package)`.

    Raises:
        InputError: the package is damaged, or the key is missing, unfit or readable by others.
        ExtraMissing: the extra `sign` is not installed.
    """
    need("sign", "--sign-key")
    check_private_key(key)
    verify_package(package)
    _refuse_linked_folders(package)
    from model_signing import signing  # three seconds to load, and seldom needed

    signature = signature or signature_of(package)
    password: Any = _password()
    signer = signing.Config().use_elliptic_key_signer(private_key=key, password=password)
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
        SignatureRefused: the signature is missing, unreadable or of another key, or a file was changed, added or
            removed since.
        InputError: the key is missing or unfit.
        ExtraMissing: the extra `sign` is not installed.
    """
    need("sign", "--verify-key")
    expected = _fingerprint(_public_key(key))
    signature = signature or signature_of(package)
    if not package.is_dir():
        raise InputError(f"{package}: no such folder. Give the folder of a model package.")
    if not signature.is_file():
        raise SignatureRefused(
            f"{package}: not signed: there is no {signature}. Get the package with its signature, or sign it: "
            f"`plumbline release sign` or `plumbline release promote --sign-key`. {HOW}"
        )
    found = _signer_of(signature)
    if found != expected:
        raise SignatureRefused(
            f"{package}: signed with another key ({found[:16]}…) than {key} ({expected[:16]}…). "
            f"Give the public key of whoever signed it, if you trust them. {HOW}"
        )
    _refuse_linked_folders(package)
    from model_signing import verifying

    verifier = verifying.Config().use_elliptic_key_verifier(public_key=key).set_hashing_config(_every_file())
    try:
        verifier.verify(package, signature)
    except Exception as error:  # whatever stops the check, the package is refused
        raise SignatureRefused(
            f"{package}: not as it was signed: {_difference(error)}. Get the package and its signature again. {HOW}"
        ) from error


def check_private_key(key: Path) -> None:
    """Refuse a private key that cannot sign, or that other users can read.

    Raises:
        InputError: as said.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    pem = _read(key)
    mode = stat.S_IMODE(key.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(
            f"{key}: others can read or change this private key (mode {mode:04o}). "
            f"Make it yours alone: `chmod 600 {key}`. If others had it, make a new key. {HOW}"
        )
    try:
        found = load_pem_private_key(pem, _password())
    except TypeError:
        state = f"has no password, but {PASSWORD} is set" if _password() else f"has a password: set {PASSWORD}"
        raise InputError(f"{key}: the private key {state}. {HOW}") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(
            f"{key}: not readable as a private key in PEM{', or its password is another' if _password() else ''}. "
            f"Make one with `openssl genpkey`. {HOW}"
        ) from None
    _check_curve(found, key)


def _public_key(key: Path) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    pem = _read(key)
    if b"PRIVATE KEY" in pem:
        raise InputError(f"{key}: this is a private key. Give the public one, and keep this where you sign. {HOW}")
    try:
        found = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise InputError(
            f"{key}: not readable as a public key in PEM. Make it with `openssl pkey -pubout`. {HOW}"
        ) from None
    _check_curve(found, key)
    return found


def _read(key: Path) -> bytes:
    if not key.is_file():
        raise InputError(f"{key}: no such file. Give a key in PEM format. {HOW}")
    try:
        with key.open("rb") as file:
            return file.read(MOST_BYTES)
    except PermissionError:
        raise InputError(f"{key}: not readable for this user. Give a key that you may read.") from None


def _password() -> bytes | None:
    return os.environ[PASSWORD].encode() if os.environ.get(PASSWORD) else None


def _check_curve(key: Any, path: Path) -> None:
    curve = getattr(getattr(key, "curve", None), "name", None)
    if curve not in CURVES:
        raise InputError(
            f"{path}: a key of {f'the curve {curve}' if curve else 'another kind'}; "
            f"an elliptic curve is needed: {', '.join(CURVES)}. {HOW}"
        )


def _fingerprint(public: Any) -> str:
    """Return the SHA-256 of a public key in PEM, which identifies the signer in a signature."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    digest = hashes.Hash(hashes.SHA256())
    digest.update(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return str(digest.finalize().hex())


def _signer_of(signature: Path) -> str:
    """Return the fingerprint that a signature claims; it is verified later, with the signature."""
    try:
        if signature.stat().st_size > MOST_BYTES:
            raise ValueError("too large")
        found = json.loads(signature.read_bytes())["verificationMaterial"]["publicKey"]["hint"]
        if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{64}", found):
            raise ValueError("no fingerprint")
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        raise SignatureRefused(
            f"{signature}: not readable as a signature of Model Signing. Get the signature again. {HOW}"
        ) from None
    return found


def _refuse_linked_folders(package: Path) -> None:
    """Refuse a link to a folder: the files behind it are neither hashed nor listed."""
    linked = next((path for path in package.rglob("*") if path.is_symlink() and path.is_dir()), None)
    if linked is not None:
        raise SignatureRefused(f"{linked}: a link to a folder, which no signature covers. Get the package again. {HOW}")


def _every_file() -> Any:
    from model_signing import hashing

    # Links to files are followed: a DVC cache may consist of them, and what they lead to is hashed.
    return hashing.Config().set_ignored_paths(paths=[], ignore_git_paths=False).set_allow_symlinks(True)


def _difference(error: Exception) -> str:
    """Summarise the library's finding, which comes as a list in Python's notation, perhaps with escaped quotes."""
    text = str(error)
    found = [f"{kind}: {', '.join(names)}" for kind, how in FOUND.items() if (names := re.findall(how, text))]
    if found:
        return "; ".join(found)[:500]
    if type(error).__name__ == "InvalidSignature":
        return "the signature does not fit its own content"
    return f"the signature is unusable ({type(error).__name__}{': ' if text else ''}{text[:200]})"
