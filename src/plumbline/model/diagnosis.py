"""Define the released model: raw features in, probabilities and permille out.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor, nn

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_bytes, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category_of_levels
from plumbline.model.heads import RawAnswer
from plumbline.model.interval import KINDS, kinds, narrowness, stretched
from plumbline.model.network import Network, spec_of
from plumbline.model.spec import NetworkSpec
from plumbline.model.weights import PREPARED, read_weights, take_older_buffers, told_preparation
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, PREPARATION, SLOPE, names

SEVERITY_FLOOR = 0.1
"""Added to permille before the logarithm: differences far below category 1 do not matter."""

FARTHEST_STANDARD = 1e18
"""Standard deviations; no feature is so far out."""

YEARS = names(GEOMETRY).index("years")
SHORTEST = 1e-3
"""Years that are divided by at least."""


class Answer(NamedTuple):
    """The released outputs, in this order and by these names."""

    quadrant_probability: Tensor
    """(B, 4) in the order of `compass.QUADRANTS`."""
    severity_permille: Tensor
    """(B,)"""
    severity_low: Tensor
    """(B,) lower end of the interval, permille."""
    severity_high: Tensor
    """(B,) upper end, permille."""
    novelty: Tensor
    """(B,) how far outside of the training buildings; above 1: too far to be answered for."""
    accepted_probability: Tensor
    """(B, 4) how probable it is, if the building is damaged, that each quadrant is a right answer: strained nearly as
    much as the worst. Where damage is spread, several are."""
    category_probability: Tensor
    """(B, 5) of the Burland categories, at the share of damaged buildings that the model was calibrated on."""
    level_probability: Tensor
    """(B, 16) the same in finer levels of strain, see `strain.LEVEL_EDGES_PERMILLE`."""
    mechanism_probability: Tensor
    """(B, 6) in the order of `strain.MECHANISMS`, if the building is damaged."""


class Diagnosis(nn.Module):
    """The network with its standardisation, temperature, interval and measure of novelty.

    All statistics are buffers: fitted once on the training data, saved with the weights, never recomputed.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.preparation = PREPARATION
        """`features.PREPARATION` of the points that it was trained on."""
        self.network = Network(spec)
        self.register_load_state_dict_pre_hook(take_older_buffers)  # type: ignore[no-untyped-call]
        for name, columns in (("distance", DISTANCE), ("slope", SLOPE), ("geometry", GEOMETRY)):
            self.register_buffer(f"{name}_mean", torch.zeros(len(columns)))
            self.register_buffer(f"{name}_sd", torch.ones(len(columns)))
        self.register_buffer("severity_mean", torch.zeros(()))
        self.register_buffer("severity_sd", torch.ones(()))
        self.register_buffer("severity_limit", torch.full((), torch.inf))
        self.register_buffer("temperature", torch.ones(()))
        # Of each kind of building: what few points tell is as unsure as it seems, what many tell is surer.
        self.register_buffer("quadrant_scale", torch.ones(KINDS))
        self.register_buffer("accepted_scale", torch.ones(KINDS))
        self.register_buffer("accepted_shift", torch.zeros(KINDS))
        self.register_buffer("level_scale", torch.ones(KINDS))
        self.register_buffer("level_shift", torch.zeros(KINDS, len(CATEGORY_BOUNDS_PERMILLE) + 1))
        self.register_buffer("category_share", torch.full((len(CATEGORY_BOUNDS_PERMILLE) + 1,), 0.2))
        self.register_buffer("mechanism_scale", torch.ones(()))
        self.register_buffer("category_of_level", one_hot_categories(), persistent=False)
        categories = len(CATEGORY_BOUNDS_PERMILLE) + 1
        self.register_buffer("interval_below", torch.ones(KINDS, categories))
        self.register_buffer("interval_above", torch.ones(KINDS, categories))
        self.register_buffer("interval_length", torch.zeros(categories))
        self.register_buffer("novelty_whitening", torch.eye(len(GEOMETRY)))
        self.register_buffer("novelty_limit", torch.full((), 1e3))
        self.register_buffer("geometry_middle", torch.zeros(len(GEOMETRY)))
        self.register_buffer("geometry_reach", torch.full((len(GEOMETRY),), torch.inf))
        self.register_buffer("least_years", torch.zeros(()))

    def standardise(self, name: str, values: Tensor) -> Tensor:
        """Standardise and compress features: `asinh` is linear near zero and logarithmic far from it."""
        standard = (values - self.get_buffer(f"{name}_mean")) / self.get_buffer(f"{name}_sd")
        return asinh(standard)

    def raw(self, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> RawAnswer:
        """Return the network's answer to raw features, as the losses need it."""
        answer: RawAnswer = self.network(
            self.standardise("distance", distance),
            self.standardise("slope", slope),
            self.standardise("geometry", geometry),
            mask,
        )
        return answer

    def standard_severity(self, permille: Tensor) -> Tensor:
        """Convert severity to the scale of `RawAnswer.severity_B3`."""
        return ((permille + SEVERITY_FLOOR).log() - self.severity_mean) / self.severity_sd  # type: ignore[operator]

    def permille(self, standard: Tensor) -> Tensor:
        """Convert standardised severity to permille, from 0 to the largest severity in training."""
        permille = (standard * self.severity_sd + self.severity_mean).exp() - SEVERITY_FLOOR  # type: ignore[operator]
        return torch.minimum(permille.clamp(min=0), self.get_buffer("severity_limit"))

    def novelty_distance(self, geometry: Tensor) -> Tensor:
        """Return (B,) Mahalanobis distances of standardised geometry to the training buildings, over its dimension."""
        whitened = self.standardise("geometry", geometry) @ cast(Tensor, self.novelty_whitening)
        return whitened.square().mean(-1).sqrt()

    def novelty(self, geometry: Tensor) -> Tensor:
        """Return (B,) the larger of the distance over its limit and any column's deviation over its reach.

        The distance sees odd combinations. It grows slowly with one value far out, so each value is bounded as well.
        Of the years only too few are strange: least asked for over those that were observed.
        """
        beyond = (geometry - self.get_buffer("geometry_middle")).abs() / self.get_buffer("geometry_reach")
        short = self.get_buffer("least_years") / geometry[:, YEARS].clamp(min=SHORTEST)
        of_all = torch.maximum(self.novelty_distance(geometry) / self.get_buffer("novelty_limit"), beyond.amax(-1))
        return torch.maximum(of_all, short)

    def forward(self, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Answer:
        """Judge buildings by raw features (columns as in `prepare.features`).

        Args:
            distance: (B, L, F). slope: (B, L, F). geometry: (B, F). mask: (B, L) bool, one True a building at least.
        """
        raw = self.raw(distance, slope, geometry, mask)
        kind_BG = kinds(geometry)
        low_B1, high_B1 = self.interval(raw.severity_B3, kind_BG)
        level_BK = self.level_logits(raw.levels_BK, kind_BG).softmax(-1)

        def own(name: str) -> Tensor:
            return of_kind(kind_BG, self.get_buffer(name)[:, None])

        return Answer(
            quadrant_probability=(raw.logits_B4 * own("quadrant_scale") / self.temperature).softmax(-1),  # type: ignore[operator]
            severity_permille=self.permille(raw.severity_B3[:, 1:2]).squeeze(-1),
            severity_low=self.permille(low_B1).squeeze(-1),
            severity_high=self.permille(high_B1).squeeze(-1),
            novelty=self.novelty(geometry),
            accepted_probability=(raw.accepted_B4 * own("accepted_scale") + own("accepted_shift")).sigmoid(),
            category_probability=(level_BK[:, :, None] * self.get_buffer("category_of_level")).sum(1),
            level_probability=level_BK,
            mechanism_probability=(raw.mechanism_BM * self.mechanism_scale).softmax(-1),  # type: ignore[operator]
        )

    def level_logits(self, levels_BK: Tensor, kind_BG: Tensor) -> Tensor:
        """Return calibrated logits (B, K): each kind of building has a scale, and a shift for each category."""
        scale_B1 = of_kind(kind_BG, self.get_buffer("level_scale")[:, None])
        shift_BC = of_kind(kind_BG, self.get_buffer("level_shift"))
        return levels_BK * scale_B1 + (shift_BC[:, None, :] * self.get_buffer("category_of_level")).sum(-1)

    def interval(self, severity_B3: Tensor, kind_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends (B, 1) of the severity's interval, standardised, about the middle of `severity_B3`.

        `kind_BK`: see `interval.kinds`.
        """
        return stretched(severity_B3, *self.interval_scales(severity_B3, kind_BK), self.category_edges())

    def interval_scales(self, severity_B3: Tensor, kind_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, C), below the middle and above, how many halves the interval must reach to enter each category."""
        longer_BC = self.get_buffer("interval_length") * narrowness(severity_B3)
        # Sums of products, written out: a product of matrices would be rounded with the network's.
        below_BC, above_BC = (
            (kind_BK[:, :, None] * self.get_buffer(f"interval_{side}")).sum(1) + longer_BC
            for side in ("below", "above")
        )
        return below_BC, above_BC

    def category_edges(self) -> Tensor:
        """(E,) bounds between the categories, standardised."""
        return self.standard_severity(torch.tensor(CATEGORY_BOUNDS_PERMILLE).to(self.get_buffer("severity_sd")))


def of_kind(kind_BG: Tensor, values_GN: Tensor) -> Tensor:
    """Return (B, N) the values of each building's kind, as sums of products, which a graph does not round."""
    return (kind_BG[:, :, None] * values_GN).sum(1)


def one_hot_categories() -> Tensor:
    """Return a matrix (K, C): 1 where a level lies in a category."""
    return nn.functional.one_hot(torch.from_numpy(category_of_levels()), len(CATEGORY_BOUNDS_PERMILLE) + 1).float()


def asinh(x: Tensor) -> Tensor:
    """Compute the inverse hyperbolic sine in the fastest way for the device and gradients."""
    # Written out, the slope at 0 itself is 0 and not 1.
    is_plain = x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled())
    return x.asinh() if is_plain and not torch.compiler.is_exporting() else asinh_written_out(x)


def asinh_written_out(x: Tensor) -> Tensor:
    """Compute the inverse hyperbolic sine as a logarithm (Abramowitz and Stegun 1964, 4.6.20), to 1e-6 absolute.

    Neither ONNX Runtime nor torch on a CPU has a fast way for the operator: it took a tenth of the time of a pruned
    network, and 4 % of a step of training; so written, a third of that. Any number gives a finite one; beyond
    `FARTHEST_STANDARD`, whose square a float32 just holds, the answer is that of the bound.
    """
    size = x.abs().clamp(max=FARTHEST_STANDARD)
    return x.sign() * (size + (size * size + 1).sqrt()).log()


def save_diagnosis(model: Diagnosis, folder: Path) -> None:
    """Write `model.safetensors` and `model.json` (the widths) into `folder`.

    The weights say which preparation of points they are for: it is not seen in any shape.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    said = {PREPARED: str(model.preparation)}
    write_bytes(folder / "model.safetensors", save(state, said))  # `save_file` lets nobody else read it
    write_json(folder / "model.json", spec_of(model.network).model_dump())


def load_diagnosis(folder: Path, broken: bool = False) -> Diagnosis:
    """Read what `save_diagnosis` wrote; in evaluation mode. `broken`: see `read_weights`.

    Raises:
        InputError: a file is missing or damaged, or the weights do not fit the widths.
    """
    try:
        model = Diagnosis(NetworkSpec.model_validate(read_json(folder / "model.json")))
        model.load_state_dict(read_weights(folder / "model.safetensors", broken))
        told = told_preparation(folder)
        model.preparation = PREPARATION if told is None else told
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{folder}: not a readable model ({error}). Run the stage again that wrote it (`plumbline train`, "
            "`plumbline compress`), or copy the folder again."
        ) from None
    return model.eval()
