"""Choose an adapter by what the points of a scene show: the rules that training found, for `--adapter auto`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plumbline.core.errors import InputError
from plumbline.core.files import read_json
from plumbline.fields.prepare.evidence import Evidence, Figure

FILE = "auto.json"
"""Beside the adapters; a package without it has no rules."""
LOW = ("density",)
"""Figures of `Evidence` that are low where points are bad."""
WORDS = {
    "delay": "the delay that points share is {} of the movement's standard deviation",
    "noise": "the noise of a point is {} of the movement's standard deviation",
    "density": "{} points lie on a square kilometre",
    "apart": "{} of the points stand out from their neighbours",
}


class Rule(BaseModel):
    """When an adapter is taken."""

    model_config = ConfigDict(extra="forbid")
    figure: Figure
    threshold: float = Field(ge=0, allow_inf_nan=False)
    """From which on it is taken; for figures of `LOW`, down from which."""
    gain: float = Field(gt=0, lt=1)
    """Share by which errors (CRPS and slopes alike) fell where the rule took it, in scenes that did not make it."""
    scenes: int = Field(ge=1)
    """Number of these."""

    def takes(self, seen: Evidence) -> bool:
        """Return whether the adapter is taken."""
        value: float = getattr(seen, self.figure)
        return value <= self.threshold if self.figure in LOW else value >= self.threshold

    @property
    def text(self) -> str:
        """Return the rule and what it is worth, in words."""
        return (
            f"{self.figure} {self._needed()}: errors {100 * self.gain:.0f} % less in {self.scenes} scenes that did not "
            "make the rule"
        )

    def said(self, seen: Evidence) -> str:
        """Return the figure in words, with the threshold."""
        return f"{WORDS[self.figure].format(self._told(getattr(seen, self.figure)))} ({self._needed()})"

    def _needed(self) -> str:
        return f"{'at most' if self.figure in LOW else 'from'} {self._told(self.threshold)}"

    def _told(self, value: float) -> str:
        return f"{value:.0f}" if self.figure in LOW else f"{100 * value:.3g} %"


class Choice(NamedTuple):
    """Adapter that is taken."""

    adapter: str | None
    why: str
    """One line: the adapter, or `none`, and the figures that decided."""


class Rules(BaseModel):
    """`auto.json`."""

    model_config = ConfigDict(extra="forbid")
    rules: dict[str, Rule] = {}
    """By the name of the adapter."""

    def choose(self, seen: Evidence) -> Choice:
        """Choose, among the adapters that their rules take for a scene, the one with the largest gain."""
        if not self.rules:
            return Choice(None, "none: this package has no rule for an adapter")
        found = {name: rule for name, rule in self.rules.items() if rule.takes(seen)}
        if not found:
            said = "; ".join(f"{name}: {rule.said(seen)}" for name, rule in self.rules.items())
            return Choice(None, f"none. {said}")
        best = max(found, key=lambda name: found[name].gain)
        return Choice(best, f"{best}: {found[best].said(seen)}")


def read_rules(adapters: Path) -> Rules:
    """Read the rules in the folder of a package's adapters; without the file there are none.

    Raises:
        InputError: the file is damaged.
    """
    path = adapters / FILE
    if not path.exists():
        return Rules()
    try:
        return Rules.model_validate(read_json(path))
    except ValidationError as error:
        place = ".".join(map(str, error.errors()[0]["loc"]))
        raise InputError(
            f"{path}: {place}: {error.errors()[0]['msg']}. Not readable as rules; get the package again."
        ) from None
