"""Where the model lies that a user names."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.errors import InputError
from plumbline.core.extras import need
from plumbline.pretrained import FIELDS, PACKAGE
from plumbline.pretrained import NAME as PRETRAINED
from plumbline.release.names import CHAMPION, RESTORATION_NAME, name_here


def resolve_fields(name_or_path: str) -> Path:
    """Folder of a package of fields, named as for `resolve_model`.

    Raises:
        InputError: as `resolve_model`.
    """
    return resolve_model(name_or_path, RESTORATION_NAME, FIELDS)


def resolve_model(name_or_path: str, name: str | None = None, pretrained: Path = PACKAGE) -> Path:
    """Folder of a model package: `pretrained`, `champion` for the released one, or the path of a package.

    Args:
        name_or_path: which.
        name: of the registered model whose champion is meant; None: that of the project here (`name_here`).
        pretrained: the one that comes with Plumbline.

    Raises:
        InputError: it is neither, nothing was released yet, or the registry does not answer.
    """
    if name_or_path == PRETRAINED:
        return pretrained
    if name_or_path == CHAMPION:
        need("pipeline", CHAMPION, f"Or give `{PRETRAINED}` or a package's folder.")
        # MLflow takes two seconds to load, and nobody else asks it.
        from plumbline.release.registry import Registry
        from plumbline.release.server import default_uri, there

        if not there(default_uri()):
            raise InputError(
                f"{CHAMPION}: no registry at {default_uri()}. Run in the project's folder, set MLFLOW_TRACKING_URI, or "
                f"give `{PRETRAINED}` or a package's folder."
            )
        registry = Registry(name or name_here())
        champion = registry.champion()
        if champion is None:
            raise InputError(
                f"{CHAMPION}: nothing was released yet. Promote a package with "
                f"`plumbline release promote PACKAGE_DIR`, or give `{PRETRAINED}` or a package's folder."
            )
        return registry.folder(champion)
    folder = Path(name_or_path)
    if not folder.is_dir():
        raise InputError(
            f"{name_or_path}: no such folder. Give `{PRETRAINED}` for the one that comes with "
            f"Plumbline, `{CHAMPION}` for the released one, or the folder of a model package."
        )
    return folder
