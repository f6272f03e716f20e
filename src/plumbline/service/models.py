"""Open the served models, and switch to a new champion without losing a request."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plumbline.core.console import log, warn
from plumbline.core.errors import PlumblineError
from plumbline.export.package import Manifest, PackageManifest, open_package
from plumbline.export.runtime import OnnxModel
from plumbline.fields.release.package import adapters_in, verify_fields
from plumbline.release.resolve import resolve_fields, resolve_model
from plumbline.service.job_store import Kind
from plumbline.service.settings import ServiceSettings


@dataclass(frozen=True)
class ServedModel:
    """A model of diagnosis in use. A request keeps its model, even after a switch."""

    package: Path
    manifest: Manifest
    model: OnnxModel


@dataclass(frozen=True)
class ServedFields:
    """A package of restoration; each job opens it again."""

    package: Path
    manifest: PackageManifest
    adapters: tuple[str, ...]


class Models:
    """Models that are served now."""

    def __init__(self, settings: ServiceSettings) -> None:
        """Open both models.

        Raises:
            InputError: one cannot be opened.
            SignatureRefused: one is not signed with the key of the settings.
        """
        self._settings = settings
        self.diagnosis = _open(self._find())
        self.restoration = _open_fields(self._find_fields())
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="models", daemon=True)

    def package(self, kind: Kind) -> Path:
        """Return the package for a kind of job."""
        return self.restoration.package if kind == "restore" else self.diagnosis.package

    def watch(self) -> None:
        """Start to look for new champions."""
        self._watcher.start()

    def stop(self) -> None:
        """Stop looking for new champions."""
        self._ended.set()

    def refresh(self) -> None:
        """Switch to the models that the settings name now; keep a model if the new one
        cannot be opened."""
        try:
            if (package := self._find()) != self.diagnosis.package:
                self.diagnosis = _open(package)
                log.info(
                    "model %s: %s is served now",
                    self._settings.model,
                    self.diagnosis.manifest.version,
                )
            if (package := self._find_fields()) != self.restoration.package:
                self.restoration = _open_fields(package)
                log.info("fields: %s is served now", self.restoration.manifest.version)
        except (PlumblineError, OSError) as error:
            warn("models: %s. The one before is served on.", error, key="model.not_replaced")

    def describe(self) -> list[dict[str, Any]]:
        """Return version, metrics and gate verdict of each model, for users."""
        manifests: dict[str, PackageManifest] = {
            "diagnosis": self.diagnosis.manifest,
            "restoration": self.restoration.manifest,
        }
        return [
            {
                "name": manifest.name,
                "family": family,
                "version": manifest.version,
                "metrics": manifest.metrics,
                "gate": {
                    "verdict": manifest.gate.get("verdict"),
                    "rules": manifest.gate.get("rules", []),
                },
                **(
                    {"adapters": list(self.restoration.adapters)} if family == "restoration" else {}
                ),
            }
            for family, manifest in manifests.items()
        ]

    def _watch(self) -> None:
        while not self._ended.wait(self._settings.poll_seconds):
            self.refresh()

    def _find(self) -> Path:
        return resolve_model(self._settings.model, verify_key=self._settings.verify_key).resolve()

    def _find_fields(self) -> Path:
        return resolve_fields(
            self._settings.restoration_model, verify_key=self._settings.verify_key
        ).resolve()


def _open(package: Path) -> ServedModel:
    return ServedModel(package, *open_package(package))


def _open_fields(package: Path) -> ServedFields:
    return ServedFields(package, verify_fields(package), tuple(adapters_in(package)))
