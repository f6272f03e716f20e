"""Whether the network takes sequences of the lengths that were prepared: no weight's shape shows that it does not."""

from __future__ import annotations

from pathlib import Path

from plumbline.core.console import log
from plumbline.core.errors import InputError
from plumbline.model.spec import NetworkSpec
from plumbline.train.data.splits import Splits


def check_lengths(splits: Splits, prepared: Path, spec: NetworkSpec, trained: Path | None = None) -> None:
    """Refuse buildings that are longer than the network's longest, and warn of attention that no building gets.

    Args:
        splits: of the folder `prepared`, which is for messages.
        prepared: see `splits`.
        spec: of the network, whose `max_length` is `prepare.max_points` as it stood when it was made.
        trained: folder that the network was read from; without one it was made by the params as they are now.

    Raises:
        InputError: the data were prepared with another `prepare.max_points`.
    """
    when, cure = "found", "Run `plumbline prepare` again, or give the value it had then."
    if trained is not None:
        when, cure = f"was what {trained} was trained with", "Run `plumbline train` again, or prepare as it was then."
    for name, split in splits._asdict().items():
        if (longest := int(split.length.max())) > spec.max_length:
            raise InputError(
                f"prepare.max_points: {spec.max_length} {when}, but {prepared / name} has buildings of up to {longest} "
                f"scatterers: it was prepared with more. {cure}"
            )
    shortest = int(splits.train.length.min())
    if spec.attention_layers and spec.max_attention_length < shortest:
        log.warning(
            "model.max_attention_length: %d found, and the shortest building of %s has %d scatterers: attention is "
            "neither trained nor used. Raise it, or set model.attention_layers to 0.",
            spec.max_attention_length, prepared / "train", shortest,
        )  # fmt: skip
