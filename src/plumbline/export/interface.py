"""Describe and check the inputs and outputs of a model.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
)

from plumbline import __version__
from plumbline.core.compass import QUADRANTS, join_quadrants
from plumbline.core.errors import InputError
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, LEVEL_EDGES_PERMILLE, MECHANISMS
from plumbline.prepare.abstention import ASKED_REASONS, STATUSES
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, SLOPE, Column

NAME = "plumbline"
WORDS = ("name", "version")
"""Keys of plain text in an ONNX file's properties; the other values are JSON."""

MASK_MEANING = (
    "true where there is a scatterer: in the first places of a row, where they stand in order "
    "along the building's "
    "longer side; elsewhere distance and slope may hold any finite number"
)


PROBABILITIES = ("p_ne", "p_nw", "p_sw", "p_se")
"""Columns of the quadrants' probabilities, in the order of `compass.QUADRANTS`."""
CATEGORIES = tuple(f"p_category_{number}" for number in range(5))
"""Columns of the categories' probabilities."""
SET_SHARE = 0.8
"""Share of the probability of all quadrants that those of the column `quadrants` hold."""
SURE_MECHANISM, SURE_DAMAGE = 0.6, 0.5
"""Least probability of a mechanism that is named, and of damage where one is."""
QUADRANT_SETS = tuple(
    join_quadrants(bool(code >> place & 1) for place in range(4)) for code in range(16)
)
"""Texts of the column `quadrants` by their codes: bit 0 is NE, bit 1 NW, bit 2 SW, bit 3 SE."""
RAW = "raw_"
"""Prefix of the network's outputs where they are inputs of the second graph, whose outputs
have some of their names."""


class _ColumnText(BaseModel):
    name: str
    unit: str


class _InputText(BaseModel):
    name: str
    columns: tuple[_ColumnText, ...] = ()


_INPUT_TEXTS = TypeAdapter(list[_InputText])


def _check_inputs(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Refuse inputs that lack what `signature` reads, and return them as they are."""
    _INPUT_TEXTS.validate_python(inputs)
    return inputs


class ModelProperties(BaseModel):
    """Metadata of an ONNX file, under these keys; the last four fields are as in the manifest."""

    model_config = ConfigDict(extra="ignore")  # a later version may say more
    name: str
    version: str
    """Version of Plumbline."""
    preparation: int = Field(ge=1)
    """`features.PREPARATION` of the points that the model was trained on."""
    max_length: int = Field(ge=1)
    """Largest number of scatterers of a building."""
    inputs: Annotated[list[dict[str, Any]], AfterValidator(_check_inputs)]
    outputs: list[dict[str, Any]]
    quadrants: list[str]
    category_bounds_permille: list[float]
    category_share: list[float] = Field(min_length=5, max_length=5)
    """Shares of the categories in calibration, to which the model's probabilities refer."""


def _tensor(name: str, kind: str, *shape: str | int, **about: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "shape": list(shape), **about}


def interface() -> dict[str, Any]:
    """Return inputs and outputs of the network with shapes, units and order."""

    def columns(parts: tuple[Column, ...]) -> list[dict[str, str]]:
        return [{"name": column.name, "unit": column.unit} for column in parts]

    tensor = _tensor
    return {
        "inputs": [
            tensor(
                "distance", "float32", "batch", "length", len(DISTANCE), columns=columns(DISTANCE)
            ),
            tensor("slope", "float32", "batch", "length", len(SLOPE), columns=columns(SLOPE)),
            tensor("geometry", "float32", "batch", len(GEOMETRY), columns=columns(GEOMETRY)),
            tensor("mask", "bool", "batch", "length", meaning=MASK_MEANING),
        ],
        "outputs": [
            tensor("quadrant_probability", "float32", "batch", 4, unit="1", order=list(QUADRANTS)),
            tensor("severity_permille", "float32", "batch", unit="permille of tensile strain"),
            tensor(
                "severity_low", "float32", "batch", unit="permille; 0 where there may be no damage"
            ),
            tensor(
                "severity_high",
                "float32",
                "batch",
                unit="permille; 90 % of true values lie between both",
            ),
            tensor("novelty", "float32", "batch", unit="1; above 1: unlike the training data"),
            tensor(
                "accepted_probability",
                *("float32", "batch", 4),
                unit="1; if damaged, that a quadrant has 0.9 of the building's strain at least",
                order=list(QUADRANTS),
            ),
            tensor(
                "category_probability",
                "float32",
                "batch",
                5,
                unit="1; at category_share",
                order=list(range(5)),
            ),
            tensor(
                "level_probability",
                *("float32", "batch", len(LEVEL_EDGES_PERMILLE) + 1),
                unit="1; the same in finer levels",
                lower_bounds_permille=[0.0, *LEVEL_EDGES_PERMILLE],
            ),
            tensor(
                "mechanism_probability",
                *("float32", "batch", len(MECHANISMS)),
                unit="1; if damaged",
                order=list(MECHANISMS),
            ),
        ],
        "quadrants": list(QUADRANTS),
        "category_bounds_permille": list(CATEGORY_BOUNDS_PERMILLE),
    }


def predictions_interface() -> dict[str, Any]:
    """Return inputs and outputs of `predictions.onnx`, which makes columns of the
    predictions from a network's answers.

    Its inputs `slope` and `geometry` have the columns of the network's. An output of type
    int32 is a code: its text is `values[code]`, and -1 is an empty cell. Of float32, NaN is
    one.
    """
    network = interface()
    inputs = [
        {key: value for key, value in tensor.items() if key != "columns"}
        for tensor in network["inputs"]
        if tensor["name"] != "distance"
    ]
    raw = [{**tensor, "name": RAW + tensor["name"]} for tensor in network["outputs"]]

    def number(name: str, unit: str) -> dict[str, Any]:
        return _tensor(name, "float32", "batch", unit=unit)

    def code(name: str, values: Sequence[Any]) -> dict[str, Any]:
        return _tensor(name, "int32", "batch", values=list(values))

    return {
        "inputs": [
            *inputs,
            _tensor(
                "damage_rate",
                "float32",
                "batch",
                unit="1; share of damaged buildings, above 0 and below 1",
            ),
            _tensor(
                "hides_damage",
                "bool",
                "batch",
                meaning="true where a lean may hide damage; false if not known",
            ),
            *(tensor for tensor in raw if tensor["name"] != f"{RAW}category_probability"),
        ],
        "outputs": [
            code("status", STATUSES),
            code("reason", ASKED_REASONS),
            code("quadrant", QUADRANTS),
            number("quadrant_confidence", "1; if damaged, that the quadrant is a right answer"),
            code("quadrants", QUADRANT_SETS),
            *(number(name, "1; if damaged") for name in PROBABILITIES),
            *(
                number(f"severity_{name}", "permille of tensile strain")
                for name in ("permille", "low", "high")
            ),
            code("burland_category", range(len(CATEGORY_BOUNDS_PERMILLE) + 1)),
            number("p_damaged", "1; that the category is 1 or above"),
            *(number(name, "1") for name in CATEGORIES),
            code("mechanism", MECHANISMS),
        ],
    }


def same_inputs(tensors: list[dict[str, Any]]) -> bool:
    """Return whether tensors and columns are those of this version, whatever their descriptions."""

    def bare(inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{key: value for key, value in item.items() if key != "meaning"} for item in inputs]

    return bare(tensors) == bare(interface()["inputs"])


def properties(max_length: int, preparation: int, category_share: list[float]) -> dict[str, str]:
    """Return the metadata of an ONNX file as `metadata_props`: text, or JSON for more than a
    word."""
    about = ModelProperties(
        name=NAME,
        version=__version__,
        preparation=preparation,
        max_length=max_length,
        category_share=category_share,
        **interface(),
    )
    return {
        key: value if key in WORDS else json.dumps(value)
        for key, value in about.model_dump().items()
    }


def read_properties(metadata: Mapping[str, str], where: str) -> ModelProperties:
    """Read what `properties` made.

    Raises:
        InputError: there are no such metadata, or others.
    """
    texts = {key: text for key, text in metadata.items() if key in ModelProperties.model_fields}
    try:
        return ModelProperties.model_validate(
            {key: text if key in WORDS else json.loads(text) for key, text in texts.items()}
        )
    except ValidationError as error:
        fault = ".".join(map(str, error.errors()[0]["loc"]))
    except json.JSONDecodeError:
        fault = "no JSON"
    raise InputError(
        f"{where}: its metadata are not those of a Plumbline model ({fault}). Export it again.",
        key="onnx.foreign_metadata",
    )


SEQUENCES = ("distance", "slope")
FLOATS = (*SEQUENCES, "geometry")
MASK = "mask"
NAMES = (*FLOATS, MASK)
"""Inputs of every released model, in their order."""


@dataclass(frozen=True)
class Signature:
    """Inputs of a model, by its own tensors and by its metadata."""

    columns: Mapping[str, int]
    """F of `FLOATS`."""
    column_names: Mapping[str, list[str]]
    """Names and units of the columns; empty where the metadata have none."""
    max_length: int | None = None
    """Largest number of scatterers of a building; None where the metadata have no limit."""
    max_batch: int | None = None
    """Largest number of buildings of a batch; None: as many as fit into the memory."""

    def check(self, inputs: Mapping[str, NDArray[Any]], finite: bool = True) -> None:
        """Refuse inputs on which the model would fail or answer NaN; `finite`: also refuse
        NaN and infinity.

        Raises:
            InputError: a tensor is missing, unknown, no array, of another type or shape
                than the model's or than the others, longer than the model allows, without
                any scatterer in a building, with padding before one, or not finite.
        """
        if not isinstance(inputs, Mapping):
            raise InputError(
                f"model inputs: {type(inputs).__name__} found, a dictionary with "
                f"{', '.join(NAMES)} needed.",
                key="inputs.not_a_dictionary",
            )
        if wrong := set(inputs) ^ set(NAMES):
            name = min(wrong, key=str)
            state = "unknown" if name in inputs else "missing"
            raise InputError(
                f"model inputs: {name!r} is {state}; {', '.join(NAMES)} are needed.",
                key="inputs.wrong_name",
            )
        batch, length = self._check_arrays(inputs)
        self._check_size(batch, length)
        if not (real_B := inputs[MASK].any(axis=1)).all():
            raise InputError(
                f"model inputs: mask: building {int(np.argmin(real_B))} of the batch has no "
                "scatterer. Leave such buildings out.",
                key="inputs.no_scatterer",
            )
        mask_BL = inputs[MASK]
        # Neighbours in a row are neighbours on the building: a gap between them would change
        # the answer, unnoticed.
        if (late_B := (mask_BL[:, 1:] > mask_BL[:, :-1]).any(axis=1)).any():
            raise InputError(
                f"model inputs: mask: building {int(np.argmax(late_B))} of the batch has padding "
                "before a scatterer. Scatterers take the first places of a row, in order along "
                "the longer side; padding comes behind them.",
                key="inputs.padding_first",
            )
        for name in FLOATS if finite else ():
            self._check_finite(name, inputs)

    def check_lengths(self, length_B: NDArray[np.integer[Any]]) -> None:
        """Refuse buildings by their number of scatterers, before the first is answered.

        Raises:
            InputError: one has none, or more than the model allows.
        """
        if len(length_B) == 0:
            return
        for b in (int(np.argmin(length_B)), int(np.argmax(length_B))):
            n_scatterers = int(length_B[b])
            if n_scatterers < 1 or (self.max_length is not None and n_scatterers > self.max_length):
                limit = "or more" if self.max_length is None else f"to {self.max_length}"
                raise InputError(
                    f"building {b} of the data: {n_scatterers} scatterers found, 1 {limit} needed. "
                    "`prepare.min_points` and `prepare.max_points` see to that.",
                    key="inputs.scatterer_count",
                )

    def _check_arrays(self, inputs: Mapping[str, Any]) -> tuple[int, int]:
        """Refuse arrays of another type or shape; return the numbers of buildings and of
        places in a row."""
        try:
            of_mask = np.shape(inputs[MASK])
        except ValueError:
            raise InputError(
                "model inputs: mask: rows of different lengths found, a numpy array of bool "
                "(batch, length) needed.",
                key="inputs.unequal_rows",
            ) from None
        batch: Any
        length: Any
        batch, length = of_mask if len(of_mask) == 2 else ("batch", "length")
        for name in NAMES:
            value, kind = inputs[name], np.dtype(bool if name == MASK else np.float32)
            places = (batch,) if name == "geometry" else (batch, length)
            shape = places if name == MASK else (*places, self.columns[name])
            if not isinstance(value, np.ndarray) or value.dtype != kind or value.shape != shape:
                is_array = isinstance(value, np.ndarray)
                kind_found = f"{value.dtype} {value.shape}" if is_array else type(value).__name__
                raise InputError(
                    f"model inputs: {name}: {kind_found} found, a numpy array of {kind} "
                    f"({', '.join(map(str, shape))}) needed: buildings, places in a row as in "
                    "mask, columns.",
                    key="inputs.wrong_array",
                )
        return batch, length

    def _check_size(self, batch: int, length: int) -> None:
        if self.max_length is not None and length > self.max_length:
            raise InputError(
                f"model inputs: {length} scatterers a building found, at most {self.max_length} "
                "allowed. `prepare.max_points` leaves so many; a model for more must be trained "
                "with a larger one.",
                key="inputs.too_long",
            )
        if self.max_batch is not None and batch > self.max_batch:
            raise InputError(
                f"model inputs: {batch} buildings found, this engine takes at most "
                f"{self.max_batch} at a "
                "time. Give smaller batches.",
                key="inputs.too_large_batch",
            )

    def _check_finite(self, name: str, inputs: Mapping[str, NDArray[Any]]) -> None:
        value = inputs[name]
        with np.errstate(over="ignore", invalid="ignore"):
            # One sum is many times faster than a look at each value; where it is finite, so
            # are they.
            if np.isfinite(value.sum()):
                return
        if (finite := np.isfinite(value)).all():
            return
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        names_of_columns = self.column_names.get(name)
        column = names_of_columns[place[-1]] if names_of_columns else f"column {place[-1]}"
        padding = name in SEQUENCES and not inputs[MASK][place[:2]]
        position = f"building {place[0]}" + (f", scatterer {place[1]}" if name in SEQUENCES else "")
        raise InputError(
            f"model inputs: {name}: {value[place]} found at {position}, {column}; numbers are "
            "needed"
            + (
                ", in the padding too: give zeros there."
                if padding
                else ". Leave such buildings or scatterers out."
            ),
            key="inputs.not_a_number",
        )


def signature(
    columns: Mapping[str, int], inputs: list[dict[str, Any]], **limits: int | None
) -> Signature:
    """Return a signature with the columns' names from `inputs`, as the manifest and the
    metadata list them."""
    columns_of = {
        item["name"]: [f"{c['name']} ({c['unit']})" for c in item.get("columns", [])]
        for item in inputs
    }
    return Signature(
        columns, {name: texts for name, texts in columns_of.items() if texts}, **limits
    )
