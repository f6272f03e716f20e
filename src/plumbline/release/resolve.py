"""Find the model that a user names."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.pretrained import FIELDS, PACKAGE
from plumbline.pretrained import NAME as PRETRAINED
from plumbline.release.names import CHAMPION, RESTORATION_NAME, name_here
from plumbline.release.signature import check_signature


def resolve_fields(name_or_path: str, verify_key: Path | None = None) -> Path:
    """Return the folder of a package of fields, named as for `resolve_model`.

    Raises:
        InputError: as `resolve_model`.
        SignatureRefused: likewise.
    """
    return resolve_model(name_or_path, RESTORATION_NAME, FIELDS, verify_key)


def resolve_model(
    name_or_path: str,
    name: str | None = None,
    pretrained: Path = PACKAGE,
    verify_key: Path | None = None,
) -> Path:
    """Return the folder of a package: `pretrained`, `champion` for the released one, or the
    path of a package.

    Args:
        name_or_path: which.
        name: of the registered model whose champion is meant; None: that of the project
            here (`name_here`).
        pretrained: the one that comes with Plumbline.
        verify_key: public key that the package must be signed with; None: no signature is
            asked for.

    Raises:
        InputError: it is neither, nothing was released yet, the registry does not answer,
            or the key is unfit.
        SignatureRefused: the package is not signed with that key, or was altered since.
    """
    if name_or_path == PRETRAINED:
        return _signed(pretrained, verify_key)
    if name_or_path == CHAMPION:
        need("pipeline", CHAMPION, f"Or give `{PRETRAINED}` or a package's folder.")
        # MLflow takes two seconds to load, and nobody else asks it.
        from plumbline.release.promotion import signed_folder
        from plumbline.release.registry import Registry
        from plumbline.release.server import default_uri, there

        if not there(default_uri()):
            raise InputError(
                f"{CHAMPION}: no registry at {default_uri()}. Run in the project's folder, set "
                f"MLFLOW_TRACKING_URI, or give `{PRETRAINED}` or a package's folder.",
                key="registry.missing",
            )
        registry = Registry(name or name_here())
        champion = registry.champion()
        if champion is None:
            raise InputError(
                f"{CHAMPION}: nothing was released yet. Promote a package with "
                f"`plumbline release promote PACKAGE_DIR`, or give `{PRETRAINED}` or a package's "
                "folder.",
                key="champion.missing",
            )
        return signed_folder(registry, champion, verify_key)
    folder = Path(name_or_path)
    if not folder.is_dir():
        raise InputError(
            f"{name_or_path}: no such folder. Give `{PRETRAINED}` for the one that comes with "
            f"Plumbline, `{CHAMPION}` for the released one, or the folder of a model package.",
            key="package.missing",
        )
    return _signed(folder, verify_key)


def _signed(folder: Path, verify_key: Path | None) -> Path:
    if verify_key is not None:
        check_signature(folder, verify_key)
    return folder
