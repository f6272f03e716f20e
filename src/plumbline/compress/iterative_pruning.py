"""Prune a network in steps, with a short fine-tuning after each."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

import numpy as np

from plumbline.compress.block_pruning import shallower
from plumbline.compress.importance import Slopes, slopes
from plumbline.compress.prune import prune, step_shares
from plumbline.model.diagnosis import Diagnosis
from plumbline.params import Compress, Train
from plumbline.prepare.features.shards import SequenceSet
from plumbline.train.fit.initial_weights import freeze
from plumbline.train.fit.short_run import quick_fit


@dataclass(frozen=True)
class Pruning:
    """Recipe for networks pruned from one `teacher`, all with the same buildings and random numbers."""

    teacher: Diagnosis
    train: SequenceSet
    section: Compress
    losses: Train
    start: Diagnosis
    """The teacher, or what is left of it without the blocks that go; channels are taken from this."""
    slopes: Slopes
    """Of `start`."""

    @classmethod
    def of(cls, teacher: Diagnosis, train: SequenceSet, section: Compress, losses: Train) -> Pruning:
        """Create the recipe with its start and the slopes there, which every ratio shares.

        Raises:
            InputError: `freeze` names what is not there, or everything.
        """
        look = (train, losses, section.importance_batches, losses.seed)
        start = teacher if section.blocks is None else shallower(teacher, section.blocks, *look)
        freeze(deepcopy(start), section.freeze, "compress", tell=False)  # refused before hours, not after
        return cls(teacher, train, section, losses, start, slopes(start, *look))

    def at_once(self, ratio: float) -> Diagnosis:
        """Return the start without `ratio` of its channels, without training."""
        return self._pruned(self.start, 1.0, ratio, self.slopes)

    def shrunk(self, ratio: float) -> Diagnosis:
        """Return the start without `ratio` of its channels, pruned in steps, fine-tuned between them."""
        section = self.section
        model, found = self.start, self.slopes
        for step in range(section.pruning_steps):
            if step:
                self.tune(model)
                # What is left counts otherwise than before: the slopes are taken anew.
                found = slopes(model, self.train, self.losses, section.importance_batches, self.losses.seed)
            model = self._pruned(model, (step + 1) / section.pruning_steps, ratio, found)
        return model

    def _pruned(self, model: Diagnosis, part: float, ratio: float, slopes: Slopes) -> Diagnosis:
        section = self.section
        parts = step_shares(self.start, model, part, ratio, section)
        # Before the last step nothing is rounded, but a stream with a channel or two could give no more of them away.
        multiple = section.multiple if part == 1 else 1
        return prune(model, 0.0, slopes, section.importance, parts, section.heads, multiple, section.multiple)

    def tune(self, model: Diagnosis) -> None:
        """Fine-tune briefly, towards the labels and the teacher's answers."""
        short = self.section.short
        freeze(model, self.section.freeze, "compress", tell=False)
        index = np.random.default_rng(self.losses.seed).permutation(len(self.train))[: short.buildings]
        quick_fit(
            model,
            self.train.take(np.sort(index)),
            self.section.short_run(self.losses),
            teacher=self.teacher,
            distil_weight=self.section.distil_weight,
            section="compress.short",
        )
