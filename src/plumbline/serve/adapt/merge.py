"""Merge an adapter and its base into one model."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from plumbline.core.errors import InputError
from plumbline.core.files import told_unwritten
from plumbline.export.onnx import export_onnx
from plumbline.export.package import Manifest, check_replaced, write_package
from plumbline.model.diagnosis import save_diagnosis
from plumbline.params import Export
from plumbline.serve.adapt.base_model import base_of
from plumbline.train.adapt.adapter import ADAPTERS, Adapted, Adapter, check_name, load_adapter
from plumbline.train.adapt.adapter_file import AboutAdapter, shown

NO_GATE = {"verdict": "not asked", "rules": []}
"""In the manifest of a merged model."""


def merge(name: str, model: str, output: Path, root: Path = ADAPTERS) -> Manifest:
    """Write base and adapter as one model: a package for `predict` that is also a model folder for `export`.

    Its manifest says that no gate was asked: the registry will not promote it.

    Raises:
        InputError: there is no such adapter, it is of another base, or `output` is that base or holds something else.
    """
    check_replaced(output, NO_GATE)
    check_name(name)
    adapter, base_folder = load_adapter(adapter_folder(name, root)), base_of(model)
    if output.resolve() == base_folder.resolve():
        raise InputError(f"{output}: is the model that was adapted, and would be lost. Give another folder.")
    changed = Adapted(base_folder).use(adapter)
    changed.preparation = min(changed.preparation, adapter.about.preparation)
    with told_unwritten(output), TemporaryDirectory() as temporary:
        folder = Path(temporary)
        save_diagnosis(changed, folder)
        export_onnx(changed, folder / "model.onnx", Export().opset)
        files = {path: folder / path for path in ("model.onnx", "model.safetensors", "model.json")}
        return write_package(files, _package(adapter, changed.preparation), _card(adapter.about), output)


def adapter_folder(name: str, root: Path = ADAPTERS) -> Path:
    """Return the folder of an adapter.

    Raises:
        InputError: there is none of that name.
    """
    if not (root / name).is_dir():
        there = ", ".join(sorted(path.name for path in root.glob("*") if path.is_dir())) or "none"
        raise InputError(f"{root / name}: no such adapter; {there} found. See `plumbline adapters list`.")
    return root / name


def _package(adapter: Adapter, preparation: int) -> dict[str, object]:
    about = adapter.about
    return {
        "name": about.name,
        "default_model": "model.onnx",
        "prepare": about.prepare.model_dump(),
        "preparation": preparation,
        "hashes": {"base": about.base_sha256, "adapter": about.weights_sha256},
        "metrics": {"before": about.before, "after": about.after},
        "gate": NO_GATE,
        "records": {},
    }


def _card(about: AboutAdapter) -> str:
    return "\n".join(
        [
            f"# Plumbline, adapted: {about.name}",
            "",
            f"A trained model with an adapter fitted to {about.labels} labelled buildings. Figures by "
            "cross-validation on these:",
            "",
            "| | base | adapted |",
            "|---|---|---|",
            *(f"| {key} | {shown(about.before[key])} | {shown(about.after[key])} |" for key in about.before),
            "",
            "No gate tested it, so it is not a released model. A judgement is a reason to look at a building. It does "
            "not replace a survey.",
            "",
        ]
    )
