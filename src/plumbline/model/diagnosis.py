"""Wrap the network with its units, statistics and interval.

Shape legend: B buildings, F columns of the geometry, C categories, E = C - 1 bounds between
them, K kinds of buildings.

Shape legend: B buildings, L scatterers, F features.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor, nn

from plumbline.core.errors import InputError
from plumbline.core.files import read_json, write_bytes, write_json
from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE, category_of_levels
from plumbline.model.network import Network, RawAnswer, spec_of
from plumbline.model.spec import NetworkSpec
from plumbline.model.weights import PREPARED, read_preparation, read_weights
from plumbline.prepare.features.definition import DISTANCE, GEOMETRY, PREPARATION, SLOPE, names

KIND_BOUNDS = (10, 20)
"""Bounds between the kinds of buildings, in scatterers: their number shows best how well a sensor
sees a building."""
KINDS = len(KIND_BOUNDS) + 1
NOTHING = -1e3
"""Scale, in halves, of a category that is only in intervals whose middle is in it."""
NEAREST = 0.05
"""Smallest distance of an end from the middle, in halves, whatever the categories need."""
MIN_HALF = 0.01
"""Smallest half of an interval, standardised: so every deviation is a finite number of halves."""
MIN_WIDTH = 0.5
"""Smallest standardised length of an interval to which a length is added; few are narrower."""
_LOG_POINTS = names(GEOMETRY).index("log_points")


def kinds(geometry_BF: Tensor) -> Tensor:
    """Return (B, K) 1 in the column of the building's kind, else 0, from raw geometry."""
    # Half a scatterer less: the logarithm of a bound need not be that of a count, bit by bit.
    bounds_E = torch.tensor([math.log(bound - 0.5) for bound in KIND_BOUNDS]).to(geometry_BF)
    passed_BE = (geometry_BF[:, _LOG_POINTS : _LOG_POINTS + 1] >= bounds_E).to(geometry_BF.dtype)
    one_B1 = torch.ones_like(passed_BE[:, :1])
    return torch.cat([one_B1, passed_BE], -1) - torch.cat([passed_BE, 0 * one_B1], -1)


def halves(severity_B3: Tensor) -> tuple[Tensor, Tensor]:
    """Return the (B, 1) lengths of the network's interval below and above its middle."""
    low_B1, middle_B1, high_B1 = severity_B3[:, :1], severity_B3[:, 1:2], severity_B3[:, 2:]
    return (middle_B1 - low_B1).clamp(min=MIN_HALF), (high_B1 - middle_B1).clamp(min=MIN_HALF)


def narrowness(severity_B3: Tensor) -> Tensor:
    """Return (B, 1) one over the length of the network's interval.

    Both sides share the length in proportion to their halves. The more the points show, the
    narrower the interval is.
    """
    below_B1, above_B1 = halves(severity_B3)
    return (below_B1 + above_B1).clamp(min=MIN_WIDTH).reciprocal()


def deviations(severity_B3: Tensor, standard_B: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B,) by how many halves of the network's interval the truth is below its
    middle, and above; else negative.

    From above, all severities of category 0 are one, its upper edge: an interval lets in
    all of it, or nothing.
    """
    below_B1, above_B1 = halves(severity_B3)
    beyond_B = standard_B - severity_B3[:, 1]
    short_B = severity_B3[:, 1] - standard_B.clamp(min=float(edges_E[0]))
    return short_B / below_B1[:, 0], beyond_B / above_B1[:, 0]


def distances(severity_B3: Tensor, edges_E: Tensor) -> tuple[Tensor, Tensor]:
    """(B, C) how many halves each category's upper edge is below the middle, and its lower
    edge above; so a scale that is at least 0 and at least this lets the category in.
    Negative if the edge is not there."""
    below_B1, above_B1 = halves(severity_B3)
    middle_B1, endless_1 = severity_B3[:, 1:2], torch.full_like(edges_E[:1], torch.inf)
    return (
        (middle_B1 - torch.cat([edges_E, endless_1])) / below_B1,
        (torch.cat([-endless_1, edges_E]) - middle_B1) / above_B1,
    )


def stretched(
    severity_B3: Tensor, below_BC: Tensor, above_BC: Tensor, edges_E: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the ends (B, 1): each half times its scale (at least 0), or a category's own
    scale if it reaches into it.

    The lower end is the least that a category lets in, minus infinity where category 0 is: the
    damage below category 1 is not resolved. The upper end is the greatest. No end is within
    `NEAREST` of the middle.
    """
    half_below_B1, half_above_B1 = halves(severity_B3)
    middle_B1, endless_1 = severity_B3[:, 1:2], torch.full_like(edges_E[:1], torch.inf)
    bottom_C, top_C = torch.cat([-endless_1, edges_E]), torch.cat([edges_E, endless_1])
    nowhere_BC = torch.full_like(below_BC, torch.inf)
    reach_BC = middle_B1 - below_BC.clamp(min=0) * half_below_B1
    # Category 0, let in, is let in to its end.
    whole_C = torch.cat([-endless_1, torch.zeros_like(edges_E)])
    from_BC = torch.where(
        reach_BC <= top_C, torch.maximum(reach_BC, bottom_C) + whole_C, nowhere_BC
    )
    reach_BC = middle_B1 + above_BC.clamp(min=0) * half_above_B1
    to_BC = torch.where(reach_BC >= bottom_C, torch.minimum(reach_BC, top_C), -nowhere_BC)
    return (
        torch.minimum(from_BC.amin(-1, keepdim=True), middle_B1 - NEAREST * half_below_B1),
        torch.maximum(to_BC.amax(-1, keepdim=True), middle_B1 + NEAREST * half_above_B1),
    )


SEVERITY_FLOOR = 0.1
"""Permille that are added before the logarithm: differences far below category 1 do not matter."""

FARTHEST_STANDARD = 1e18
"""Largest standardised feature whose square a float32 holds; no feature is so far out."""

YEARS = names(GEOMETRY).index("years")
SHORTEST = 1e-3
"""Smallest number of years in a denominator."""


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
    """(B, 4) how probable it is, if the building is damaged, that each quadrant is a right
    answer: strained nearly as much as the worst. Where damage is spread, several are."""
    category_probability: Tensor
    """(B, 5) of the Burland categories, at the share of damaged buildings that the model
    was calibrated on."""
    level_probability: Tensor
    """(B, 16) the same in finer levels of strain, see `strain.LEVEL_EDGES_PERMILLE`."""
    mechanism_probability: Tensor
    """(B, 6) in the order of `strain.MECHANISMS`, if the building is damaged."""


class Diagnosis(nn.Module):
    """The network with its standardisation, temperature, interval and measure of novelty.

    All statistics are buffers: fitted once on the training data, saved with the weights,
    never recomputed.
    """

    def __init__(self, spec: NetworkSpec) -> None:
        super().__init__()
        self.preparation = PREPARATION
        """`features.PREPARATION` of the points that it was trained on."""
        self.network = Network(spec)
        for name, value in _statistics().items():
            self.register_buffer(name, value)
        self.register_buffer("category_of_level", one_hot_categories(), persistent=False)

    def standardise(self, name: str, values: Tensor) -> Tensor:
        """Standardise and compress features: `asinh` is linear near zero and logarithmic
        far from it."""
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
        """Return (B,) Mahalanobis distances of standardised geometry to the training
        buildings, over its dimension."""
        whitened = self.standardise("geometry", geometry) @ cast(Tensor, self.novelty_whitening)
        return whitened.square().mean(-1).sqrt()

    def novelty(self, geometry: Tensor) -> Tensor:
        """Return (B,) the larger of the distance over its limit and any column's deviation
        over its reach.

        The distance sees odd combinations. It grows slowly with one value far out, so each
        value is bounded as well. Of the years only too few are strange: least asked for
        over those that were observed.
        """
        deviation_BF = (geometry - self.get_buffer("geometry_middle")).abs() / self.get_buffer(
            "geometry_reach"
        )
        shortness_B = self.get_buffer("least_years") / geometry[:, YEARS].clamp(min=SHORTEST)
        distance_B = self.novelty_distance(geometry) / self.get_buffer("novelty_limit")
        return torch.maximum(torch.maximum(distance_B, deviation_BF.amax(-1)), shortness_B)

    def forward(self, distance: Tensor, slope: Tensor, geometry: Tensor, mask: Tensor) -> Answer:
        """Judge buildings by raw features (columns as in `prepare.features`).

        Args:
            distance: (B, L, F). slope: (B, L, F). geometry: (B, F). mask: (B, L) bool, one
                True a building at least.
        """
        raw = self.raw(distance, slope, geometry, mask)
        kind_BG = kinds(geometry)
        low_B1, high_B1 = self.interval(raw.severity_B3, kind_BG)
        level_BK = self.level_logits(raw.levels_BK, kind_BG).softmax(-1)

        def by_kind(name: str) -> Tensor:
            return of_kind(kind_BG, self.get_buffer(name)[:, None])

        logits_B4 = raw.logits_B4 * by_kind("quadrant_scale") / self.temperature  # type: ignore[operator]
        return Answer(
            quadrant_probability=logits_B4.softmax(-1),
            severity_permille=self.permille(raw.severity_B3[:, 1:2]).squeeze(-1),
            severity_low=self.permille(low_B1).squeeze(-1),
            severity_high=self.permille(high_B1).squeeze(-1),
            novelty=self.novelty(geometry),
            accepted_probability=(
                raw.accepted_B4 * by_kind("accepted_scale") + by_kind("accepted_shift")
            ).sigmoid(),
            category_probability=(level_BK[:, :, None] * self.get_buffer("category_of_level")).sum(
                1
            ),
            level_probability=level_BK,
            mechanism_probability=(raw.mechanism_BM * self.mechanism_scale).softmax(-1),  # type: ignore[operator]
        )

    def level_logits(self, levels_BK: Tensor, kind_BG: Tensor) -> Tensor:
        """Return calibrated logits (B, K): each kind of building has a scale, and a shift
        for each category."""
        scale_B1 = of_kind(kind_BG, self.get_buffer("level_scale")[:, None])
        shift_BC = of_kind(kind_BG, self.get_buffer("level_shift"))
        return levels_BK * scale_B1 + (
            shift_BC[:, None, :] * self.get_buffer("category_of_level")
        ).sum(-1)

    def interval(self, severity_B3: Tensor, kind_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Return the ends (B, 1) of the severity's interval, standardised, about the middle
        of `severity_B3`.

        `kind_BK`: see `interval.kinds`.
        """
        return stretched(
            severity_B3, *self.interval_scales(severity_B3, kind_BK), self.category_edges()
        )

    def interval_scales(self, severity_B3: Tensor, kind_BK: Tensor) -> tuple[Tensor, Tensor]:
        """Return (B, C), below the middle and above, how many halves the interval must
        reach to enter each category."""
        longer_BC = self.get_buffer("interval_length") * narrowness(severity_B3)
        # Sums of products, written out: a product of matrices would be rounded with the network's.
        below_BC, above_BC = (
            (kind_BK[:, :, None] * self.get_buffer(f"interval_{side}")).sum(1) + longer_BC
            for side in ("below", "above")
        )
        return below_BC, above_BC

    def category_edges(self) -> Tensor:
        """(E,) bounds between the categories, standardised."""
        return self.standard_severity(
            torch.tensor(CATEGORY_BOUNDS_PERMILLE).to(self.get_buffer("severity_sd"))
        )


def _statistics() -> dict[str, Tensor]:
    """Return the statistics that are fitted on the training data, each at its neutral value."""
    categories = len(CATEGORY_BOUNDS_PERMILLE) + 1
    tables = {"distance": len(DISTANCE), "slope": len(SLOPE), "geometry": len(GEOMETRY)}
    return {
        **{f"{name}_mean": torch.zeros(columns) for name, columns in tables.items()},
        **{f"{name}_sd": torch.ones(columns) for name, columns in tables.items()},
        "severity_mean": torch.zeros(()),
        "severity_sd": torch.ones(()),
        "severity_limit": torch.full((), torch.inf),
        "temperature": torch.ones(()),
        # By kind of building: answers from few points are as unsure as they seem, those from many
        # are surer.
        "quadrant_scale": torch.ones(KINDS),
        "accepted_scale": torch.ones(KINDS),
        "accepted_shift": torch.zeros(KINDS),
        "level_scale": torch.ones(KINDS),
        "level_shift": torch.zeros(KINDS, categories),
        "category_share": torch.full((categories,), 0.2),
        "mechanism_scale": torch.ones(()),
        "interval_below": torch.ones(KINDS, categories),
        "interval_above": torch.ones(KINDS, categories),
        "interval_length": torch.zeros(categories),
        "novelty_whitening": torch.eye(len(GEOMETRY)),
        "novelty_limit": torch.full((), 1e3),
        "geometry_middle": torch.zeros(len(GEOMETRY)),
        "geometry_reach": torch.full((len(GEOMETRY),), torch.inf),
        "least_years": torch.zeros(()),
    }


def of_kind(kind_BG: Tensor, values_GN: Tensor) -> Tensor:
    """Return (B, N) the values of each building's kind, as sums of products, which a graph
    does not round."""
    return (kind_BG[:, :, None] * values_GN).sum(1)


def one_hot_categories() -> Tensor:
    """Return a matrix (K, C): 1 where a level belongs to a category."""
    return nn.functional.one_hot(
        torch.from_numpy(category_of_levels()), len(CATEGORY_BOUNDS_PERMILLE) + 1
    ).float()


def asinh(x: Tensor) -> Tensor:
    """Compute the inverse hyperbolic sine in the fastest way for the device and gradients."""
    # Written out, the slope at 0 itself is 0 and not 1.
    is_plain = x.device.type != "cpu" or (x.requires_grad and torch.is_grad_enabled())
    return x.asinh() if is_plain and not torch.compiler.is_exporting() else asinh_written_out(x)


def asinh_written_out(x: Tensor) -> Tensor:
    """Compute the inverse hyperbolic sine as a logarithm (Abramowitz and Stegun 1964,
    4.6.20), to 1e-6 absolute.

    Neither ONNX Runtime nor torch on a CPU has a fast way for the operator: it took a tenth
    of the time of a pruned network, and 4 % of a step of training; so written, a third of
    that. Any number gives a finite one; beyond `FARTHEST_STANDARD`, whose square a float32
    just holds, the answer is that of the bound.
    """
    size = x.abs().clamp(max=FARTHEST_STANDARD)
    return x.sign() * (size + (size * size + 1).sqrt()).log()


def save_diagnosis(model: Diagnosis, folder: Path) -> None:
    """Write `model.safetensors` and `model.json` (the widths) into `folder`.

    The file of weights names the preparation of points that they are for: no shape shows it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    metadata = {PREPARED: str(model.preparation)}
    # `save_file` lets nobody else read it.
    write_bytes(folder / "model.safetensors", save(state, metadata))
    write_json(folder / "model.json", spec_of(model.network).model_dump())


def load_diagnosis(folder: Path, broken: bool = False) -> Diagnosis:
    """Read what `save_diagnosis` wrote; in evaluation mode. `broken`: see `read_weights`.

    Raises:
        InputError: a file is missing or damaged, or the weights do not fit the widths.
    """
    try:
        model = Diagnosis(NetworkSpec.model_validate(read_json(folder / "model.json")))
        model.load_state_dict(read_weights(folder / "model.safetensors", broken))
        preparation = read_preparation(folder)
        model.preparation = PREPARATION if preparation is None else preparation
    except (SafetensorError, OSError, RuntimeError, ValueError) as error:
        raise InputError(
            f"{folder}: not a readable model ({error}). Run the stage again that wrote it "
            "(`plumbline train`, `plumbline compress`), or copy the folder again.",
            key="model.unreadable",
        ) from None
    return model.eval()
