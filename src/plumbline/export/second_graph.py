"""Write `predictions.onnx`: what `predict` does after the network, for applications without Python.

The same steps stand in numpy in `serve.base_rate.at_rate`, `prepare.abstention.status_of`
and `serve.predictions.make_predictions`; a test holds both equal. Only the city's share of
damaged buildings is not estimated here: it is an input.

Shape legend: B buildings, L scatterers, F features, C categories, K levels of strain, Q
quadrants, M mechanisms.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import Tensor, nn
from torch.export import Dim

from plumbline.core.files import atomic_file
from plumbline.core.strain import (
    CATEGORY_BOUNDS_PERMILLE,
    INTERVAL_SHARE,
    LEVEL_EDGES_PERMILLE,
    TOP_PERMILLE,
    category_of_levels,
)
from plumbline.export.interface import SET_SHARE, SURE_DAMAGE, SURE_MECHANISM, predictions_interface
from plumbline.export.onnx import LIMIT_BATCH, finish, model_of, quiet
from plumbline.params import Prepare
from plumbline.prepare.abstention import ASKED_REASONS, OK, STATUSES, UNSURE_WHERE
from plumbline.prepare.features.definition import GEOMETRY, SLOPE, names

EMPTY = -1
"""Code of an empty cell."""
LEAST_PROBABILITY = 1e-12
"""Smallest probability of a level that is divided by."""
_ERROR = names(SLOPE).index("differential_displacement_se")
_TRACKS, _SIDE_X, _SIDE_Y = (names(GEOMETRY).index(name) for name in ("tracks", "side_x", "side_y"))


class Predictions(nn.Module):
    """Columns of the predictions from a network's answers, in double precision inside."""

    share_C: Tensor
    damaged_share_C: Tensor
    of_level_K: Tensor
    category_KC: Tensor
    bottom_K: Tensor
    width_K: Tensor
    bounds_E: Tensor
    bit_Q: Tensor
    place_Q: Tensor

    def __init__(self, limits: Prepare, category_share: Sequence[float]) -> None:
        """Set who is judged, and the category shares of the buildings that the network was
        calibrated on."""
        super().__init__()
        self.limits = limits
        of_level = torch.tensor(category_of_levels())
        share_C = torch.tensor(category_share, dtype=torch.float64)
        edges = torch.tensor([0.0, *LEVEL_EDGES_PERMILLE, TOP_PERMILLE], dtype=torch.float64)
        constants = {
            "share_C": share_C,
            "damaged_share_C": share_C[1:] / share_C[1:].sum(),
            "of_level_K": of_level,
            "category_KC": (of_level[:, None] == torch.arange(len(share_C))).double(),
            "bottom_K": edges[:-1],
            "width_K": edges.diff(),
            "bounds_E": torch.tensor(CATEGORY_BOUNDS_PERMILLE, dtype=torch.float64),
            "bit_Q": torch.tensor([1, 2, 4, 8]),
            "place_Q": torch.arange(4),
        }
        for name, value in constants.items():
            self.register_buffer(name, value)

    def forward(
        self,
        slope_BLF: Tensor,
        geometry_BF: Tensor,
        mask_BL: Tensor,
        damage_rate_B: Tensor,
        hides_damage_B: Tensor,
        quadrant_BQ: Tensor,
        severity_B: Tensor,
        low_B: Tensor,
        high_B: Tensor,
        novelty_B: Tensor,
        accepted_BQ: Tensor,
        level_BK: Tensor,
        mechanism_BM: Tensor,
    ) -> tuple[Tensor, ...]:
        """Return the outputs of `predictions_interface`, in its order."""
        level_BK, rate_B1 = level_BK.double(), damage_rate_B.double()[:, None]
        now_BC = torch.cat([1 - rate_B1, rate_B1 * self.damaged_share_C], 1)
        moved_BK = level_BK * (now_BC / self.share_C)[:, self.of_level_K]
        moved_BK = moved_BK / moved_BK.sum(1, keepdim=True).clamp(min=1e-300)
        category_BC = moved_BK @ self.category_KC
        may_be_sound_B = category_BC[:, 0] > 1 - INTERVAL_SHARE
        rest_B = (1 - INTERVAL_SHARE) / 2 * (1 + may_be_sound_B.double())
        half_B = torch.full_like(rest_B, 0.5)
        severity_at_B, low_at_B, high_at_B = (
            self._at_place(place_B, moved_BK) for place_B in (half_B, rest_B, 1 - rest_B)
        )
        low_at_B = torch.where(may_be_sound_B, torch.zeros_like(low_at_B), low_at_B)
        damaged_B = 1 - category_BC[:, 0]

        # Infinity stands for NaN, so that every runtime takes the first of them, as numpy does.
        best_B = torch.where(quadrant_BQ.isnan(), torch.inf, quadrant_BQ).argmax(1)
        confidence_B = accepted_BQ.gather(1, best_B[:, None])[:, 0].double()
        answers = (quadrant_BQ, accepted_BQ, level_BK, mechanism_BM)
        one_a_building = torch.stack([severity_B, low_B, high_B, novelty_B], 1)
        finite_B = torch.stack(
            [value.isfinite().all(1) for value in (*answers, one_a_building)], 1
        ).all(1)
        rules = (
            mask_BL.long().sum(1) - geometry_BF[:, _TRACKS].round().long() < self.limits.min_points,
            ~(
                _strain_error(slope_BLF, geometry_BF, mask_BL)
                <= self.limits.max_strain_error_permille
            ),
            ~(finite_B & (novelty_B <= 1)),
            damaged_B * (1 - confidence_B) > 1 - self.limits.min_quadrant_confidence,
            hides_damage_B & (severity_at_B < self.bounds_E[0]),
        )
        few_B, noisy_B, unlike_B, unsure_B, leaning_B = rules
        unlike_code, insufficient = (
            STATUSES.index("out_of_distribution"),
            STATUSES.index("insufficient_points"),
        )
        status_B = unlike_B.long() * unlike_code
        status_B = torch.where(few_B | noisy_B | unsure_B | leaning_B, insufficient, status_B)
        reason_B = torch.zeros_like(status_B)
        for code in range(len(ASKED_REASONS) - 1, 0, -1):
            reason_B = torch.where(rules[code - 1], code, reason_B)
        answered_B = (status_B == STATUSES.index(OK)) | (
            reason_B == ASKED_REASONS.index(UNSURE_WHERE)
        )

        sure_B = (mechanism_BM.amax(1) >= SURE_MECHANISM) & (damaged_B >= SURE_DAMAGE)
        mechanism_B = torch.where(sure_B, mechanism_BM.argmax(1), EMPTY)
        category_B = (severity_at_B[:, None] >= self.bounds_E).long().sum(1)

        def number(value_B: Tensor) -> Tensor:
            return torch.where(answered_B, value_B.float(), torch.nan)

        def code_of(value_B: Tensor) -> Tensor:
            return torch.where(answered_B, value_B, EMPTY).int()

        return (
            status_B.int(),
            reason_B.int(),
            code_of(best_B),
            number(confidence_B),
            code_of(self._probable_set(quadrant_BQ.double())),
            *(number(quadrant_BQ[:, place]) for place in range(4)),
            *(number(value_B) for value_B in (severity_at_B, low_at_B, high_at_B)),
            code_of(category_B),
            damaged_B.float(),
            *(number(category_BC[:, place]) for place in range(category_BC.shape[1])),
            code_of(mechanism_B),
        )

    def _at_place(self, place_B: Tensor, level_BK: Tensor) -> Tensor:
        """Return the severities (B,), permille, at cumulative probabilities of
        distributions; NaN where these are."""
        up_to_BK = level_BK.cumsum(1)
        is_passed_BK = up_to_BK < (place_B * up_to_BK[:, -1])[:, None]
        level_B1 = is_passed_BK.long().sum(1, keepdim=True).clamp(max=len(self.bottom_K) - 1)
        own_B = level_BK.gather(1, level_B1)[:, 0]
        beyond_B = place_B - (up_to_BK.gather(1, level_B1)[:, 0] - own_B)
        share_B = (beyond_B / own_B.clamp(min=LEAST_PROBABILITY)).clamp(0, 1)
        return self.bottom_K[level_B1[:, 0]] + share_B * self.width_K[level_B1[:, 0]]

    def _probable_set(self, quadrant_BQ: Tensor) -> Tensor:
        """Return (B,) codes of the fewest quadrants that hold `SET_SHARE` of the probability."""
        this_BQ1, other_B1Q = quadrant_BQ[:, :, None], quadrant_BQ[:, None, :]
        earlier_QQ = self.place_Q < self.place_Q[:, None]
        is_ahead_BQQ = (other_B1Q > this_BQ1) | ((other_B1Q == this_BQ1) & earlier_QQ)
        ahead_BQ = torch.where(is_ahead_BQQ, other_B1Q, 0.0).sum(2)
        is_chosen_BQ = ahead_BQ < SET_SHARE * quadrant_BQ.sum(1, keepdim=True)
        return (is_chosen_BQ.long() * self.bit_Q).sum(1)


def _strain_error(slope_BLF: Tensor, geometry_BF: Tensor, mask_BL: Tensor) -> Tensor:
    """Return (B,) what `abstention.strain_error` does, permille."""
    error_BL = slope_BLF[:, :, _ERROR].double().clamp(min=1e-6)
    precision_B = torch.where(mask_BL, 1 / (error_BL * error_BL), 0.0).sum(1).clamp(min=1e-12)
    area_B = (geometry_BF[:, _SIDE_X] * geometry_BF[:, _SIDE_Y]).clamp(min=1e-6)
    return ((4 + 4 / 3) / precision_B).sqrt() / area_B.sqrt().double()


def export_predictions(
    limits: Prepare, category_share: Sequence[float], path: Path, opset: int
) -> None:
    """Write `predictions.onnx`.

    Args:
        limits: of the package; `min_points`, `max_strain_error_permille` and
            `min_quadrant_confidence` of it count.
        category_share: of the buildings that the network was calibrated on.
        path: file to write. opset: of ONNX.
    """
    declared = predictions_interface()
    batch, length = Dim("batch", max=LIMIT_BATCH), Dim("length", max=limits.max_points)
    sizes = {"batch": batch, "length": length}
    shapes = [
        [sizes[n] if isinstance(n, str) else None for n in tensor["shape"]]
        for tensor in declared["inputs"]
    ]
    with atomic_file(path) as temporary, quiet(), torch.no_grad():
        program = torch.onnx.export(
            Predictions(limits, category_share),
            tuple(_example(tensor) for tensor in declared["inputs"]),
            dynamo=True,
            opset_version=opset,
            input_names=[tensor["name"] for tensor in declared["inputs"]],
            output_names=[tensor["name"] for tensor in declared["outputs"]],
            dynamic_shapes=[
                {i: size for i, size in enumerate(shape) if size is not None} for shape in shapes
            ],
            verbose=False,
        )
        onnx.save(model_of(program), temporary)
        thresholds = limits.model_dump(
            include={"min_points", "max_strain_error_permille", "min_quadrant_confidence"}
        )
        about: dict[str, Any] = {
            **declared,
            "prepare": thresholds,
            "category_share": list(category_share),
        }
        finish(
            temporary,
            {
                "name": "plumbline-predictions",
                **{key: json.dumps(value) for key, value in about.items()},
            },
        )


def _example(tensor: dict[str, Any]) -> Tensor:
    """Return an input to trace the graph with; sizes above 1, which torch would take for
    constants."""
    size = [{"batch": 3, "length": 5}.get(n, n) for n in tensor["shape"]]
    return (
        torch.ones(size, dtype=torch.bool) if tensor["type"] == "bool" else torch.full(size, 0.25)
    )
