"""Find when an adapter helps, by what the points show: one figure and one threshold (a decision stump)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from plumbline.fields.model.adapter_rules import LOW, Rule
from plumbline.fields.model.scores import Figures, ratio_bound
from plumbline.fields.model.spread import Float
from plumbline.fields.prepare.evidence import FIGURES, Evidence
from plumbline.params.fields import AdapterFields

FOLDS = 5
JUDGED = ("crps_mm", "gradient_error_mm_m")
"""By values alone an adapter may seem good that roughens every slope: both count alike."""


def find_rule(
    own: Sequence[Figures], without: Sequence[Figures], seen: Sequence[Evidence], params: AdapterFields
) -> Rule | None:
    """Return the rule with the least mean error over scenes; None if it is not sure to help.

    The error of a scene is the mean logarithm of the ratios with to without, of `JUDGED`. Of many rules tried, the best
    one always seems to help in the scenes that it is made of. So each fold of the scenes is judged by a rule made of
    the others: there, the mean ratio has to be below 1 with `params.confidence`.

    Args:
        own, without: figures of the same scenes with and without the adapter, of all domains.
        seen: their evidence. params: `confidence`, and `min_scenes` that a rule has to take.
    """
    a, b = (np.array([[row[name] for name in JUDGED] for row in rows]) for rows in (own, without))
    told = ~np.isnan(a + b).any(axis=1) if len(a) else np.zeros(0, bool)
    a, b, figures = a[told], b[told], np.array(seen)[told]
    if not len(a) or not (np.isfinite(a + b).all() and (a > 0).all() and (b > 0).all()):
        return None
    logs = np.log(a / b).mean(axis=1)
    best = _stump(logs, figures, params.min_scenes)
    if best is None:
        return None
    taken, fold = np.zeros(len(logs), bool), np.arange(len(logs)) % FOLDS
    for number in range(FOLDS):  # scenes are in the order of their domains: a fold has a share of each
        out = fold == number
        rule = _stump(logs[~out], figures[~out], params.min_scenes)
        if rule is not None:
            taken |= out & np.array([rule.takes(Evidence(*row)) for row in figures])
    held = np.where(taken, np.exp(logs), 1.0)
    gain = -math.expm1(float(logs[taken].mean())) if taken.any() else 0.0
    if gain <= 0 or ratio_bound(held.tolist(), [1.0] * len(held), params.confidence) >= 1:
        return None
    return best.model_copy(update={"gain": gain, "scenes": int(taken.sum())})


def _stump(logs: Float, seen: Float, least: int) -> Rule | None:
    """Return the rule that is best in these scenes and takes at least `least` of them; None if it is not below 0.

    Args:
        logs: (S,) error of each scene. seen: (S, figures) evidence. least: number of scenes.
    """
    best, lowest = None, 0.0
    for figure in FIGURES:
        values = seen[:, Evidence._fields.index(figure)]
        order = np.argsort(values if figure in LOW else -values, kind="stable")
        ordered, total = values[order], np.cumsum(logs[order])
        # All scenes are taken from 0 on: a least value of few scenes would leave others out.
        after = np.append(ordered[1:], ordered[-1] if figure in LOW else -ordered[-1])
        for last in range(least - 1, len(logs)):
            if total[last] < lowest and after[last] != ordered[last]:
                lowest, threshold = float(total[last]), float(ordered[last] + after[last]) / 2
                gain = -math.expm1(lowest / (last + 1))
                best = Rule(figure=figure, threshold=threshold, gain=gain, scenes=last + 1)
    return best
