"""Choose the adapters that are shipped: those that are better than none on held-back scenes of their domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from plumbline.core.console import log
from plumbline.fields.model.sampling import Denoiser
from plumbline.fields.model.scores import Figures, Settings, paired, ratio_bound, restore_scenes
from plumbline.fields.model.spread import Spread
from plumbline.fields.prepare.conditions import SceneSet
from plumbline.fields.train.rules import find_rule
from plumbline.params.fields import AdapterFields, RestorationParams

METRIC = "crps_mm"


def choose(
    domain: str,
    adapted: tuple[Denoiser, Spread],
    without: Sequence[Figures],
    tune: SceneSet,
    given: RestorationParams,
) -> dict[str, Any]:
    """Restore scenes with an adapter, and return `compare`'s result on its domain, with its `rule` on all.

    Args:
        domain: name of the adapter. adapted: network and spread with it. without: `tune_figures` without it.
        tune: scenes of all domains, which fitted no weight and no spread. given: `adapt`, and how scenes are restored.
    """
    own = tune_figures(adapted, tune, given, f"adapter {domain}")
    rows = [number for number, about in enumerate(tune.about) if about["domain"] == domain]
    found = compare([own[row] for row in rows], [without[row] for row in rows], given.adapt)
    log.info("adapter %s: %s. %s", domain, "shipped" if found["shipped"] else "not shipped", found["reason"])
    rule = find_rule(own, without, [tune.evidence(number) for number in range(len(tune))], given.adapt)
    log.info("adapter %s: %s", domain, rule.text if rule else "no rule for `--adapter auto` is sure to help")
    return {**found, "rule": rule.model_dump() if rule else None}


def tune_figures(model: tuple[Denoiser, Spread], tune: SceneSet, given: RestorationParams, what: str) -> list[Figures]:
    """Restore scenes by a network and its spread; `what` names them where progress is shown."""
    restore, cell_m = given.restore, given.simulate.cell_m
    how = Settings(restore.steps, restore.samples, restore.eta, given.adapt.seed, cell_m, given.adapt.crop)
    return restore_scenes(*model, tune, how, what)


def compare(own: Sequence[Figures], without: Sequence[Figures], params: AdapterFields) -> dict[str, Any]:
    """Decide by figures of the same scenes with and without an adapter; without a bound, it is not shipped.

    A bound and not a mean: the figures of few scenes scatter, and a good mean of these may be chance (decision 38).

    Returns:
        `shipped`, `reason` (a sentence), `scenes`, `crps_mm`, `crps_mm_without`, and `ratio_bound`; None where there
        is no figure.
    """
    a, b = paired(own, without, METRIC)
    known = len(a) >= params.min_scenes and all(map(math.isfinite, [*a, *b]))
    bound = ratio_bound(a, b, params.confidence) if known else math.nan
    means = [sum(values) / len(values) if values else math.nan for values in (a, b)]
    shipped = math.isfinite(bound) and bound <= params.max_ratio
    ratio = f"at most {bound:.4g}" if math.isfinite(bound) else "no figure"
    asked = f"at most {params.max_ratio:.4g} on {params.min_scenes} scenes or more is needed"
    sure = f"with {100 * params.confidence:g} % confidence"
    return {
        "shipped": shipped,
        "reason": f"CRPS on {len(a)} tune scenes, as a share of that without it, {sure}: {ratio}; {asked}",
        "scenes": len(a),
        "crps_mm": _finite(means[0]),
        "crps_mm_without": _finite(means[1]),
        "ratio_bound": _finite(bound),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
