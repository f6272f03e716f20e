"""Text of the site, the map and the report stands out from its ground by 4.5 and more: WCAG 2, level AA."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEAST = 4.5
CODE = {"default": "#f5f5f5", "slate": "#272a35"}
"""Ground of code in the theme of the site, by scheme; that of the page contrasts more."""


def luminance(colour: str) -> float:
    """Relative luminance of a colour in sRGB, by WCAG 2.2."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _colours(text: str, name: str) -> list[str]:
    return re.findall(rf"(?<![\w-]){name}: ?(#[0-9a-f]{{6}}|#[0-9a-f]{{3}})(?![0-9a-f])", text)


@pytest.mark.parametrize("path", ["web/src/style.css", "src/plumbline/serve/report/report.html"])
def test_each_text_stands_out_from_each_ground(path: str):
    """A rule with both colours has a ground of its own; text of any other may stand on that of any other."""
    assert contrast("#767676", "#fff") == pytest.approx(4.54, abs=0.005)  # the lightest grey that passes on white
    style = (ROOT / path).read_text(encoding="utf-8")
    for name, colour in re.findall(r"(--\w+): (#[0-9a-f]+)", style):
        style = style.replace(f"var({name})", colour)
    rules = [(_colours(rule, "color"), _colours(rule, "background")) for rule in re.findall(r"\{([^{}]*)\}", style)]
    texts = [text for texts, grounds in rules if not grounds for text in texts]
    grounds = [ground for texts, grounds in rules if not texts for ground in grounds if luminance(ground) > 0.5]
    pairs = [(text, ground) for texts, own in rules for text in texts for ground in own]
    pairs += [(text, ground) for text in texts for ground in grounds]
    assert len(pairs) > 5
    assert {pair: contrast(*pair) for pair in pairs if contrast(*pair) < LEAST} == {}


def test_colours_of_the_site_stand_out_from_code():
    style = (ROOT / "docs/extra.css").read_text(encoding="utf-8")
    found = re.findall(r'scheme="(\w+)".*?\{(.*?)\}', style, re.DOTALL)
    assert {scheme for scheme, _ in found} == CODE.keys()
    for scheme, rule in found:
        for colour in re.findall(r"#[0-9a-f]{6}", rule):
            assert contrast(colour, CODE[scheme]) >= LEAST, (scheme, colour)
