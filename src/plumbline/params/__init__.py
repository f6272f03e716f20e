"""Hold `params.yaml` as typed, validated sections, named as the stages; one module for each
section."""

from plumbline.params.compress import Compress, Export
from plumbline.params.ingest import (
    FORMATS,
    PARAMS_FILE,
    Footprints,
    Ingest,
    Product,
    Units,
)
from plumbline.params.load import (
    Params,
    check_sections,
    is_partial,
    load_ingest,
    load_params,
    load_section,
    parse_params,
)
from plumbline.params.options import JudgingOptions, PointsOptions, ReadingOptions
from plumbline.params.prepare import Audit, Prepare, RecordedPrepare, without_audit
from plumbline.params.section import Section
from plumbline.params.serve import Adapt, Score, Tidy
from plumbline.params.simulate import Borrowed, City, Simulate
from plumbline.params.train import FitOptions, Model, Optimise, Train
from plumbline.params.validate import Gate, Gates, Package, Validate

__all__ = [
    "FORMATS",
    "PARAMS_FILE",
    "Adapt",
    "Audit",
    "Borrowed",
    "City",
    "Compress",
    "Export",
    "FitOptions",
    "Footprints",
    "Gate",
    "Gates",
    "Ingest",
    "JudgingOptions",
    "Model",
    "Optimise",
    "Package",
    "Params",
    "PointsOptions",
    "Prepare",
    "Product",
    "ReadingOptions",
    "RecordedPrepare",
    "Score",
    "Section",
    "Simulate",
    "Tidy",
    "Train",
    "Units",
    "Validate",
    "check_sections",
    "is_partial",
    "load_ingest",
    "load_params",
    "load_section",
    "parse_params",
    "without_audit",
]
