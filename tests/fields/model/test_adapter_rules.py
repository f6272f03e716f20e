"""Rules of `--adapter auto`: what they take, what they say, and files that are none."""

import pytest

from plumbline.core.errors import InputError
from plumbline.core.files import write_json
from plumbline.fields.model.adapter_files import asks_auto
from plumbline.fields.model.adapter_rules import Rules, read_rules
from plumbline.fields.prepare.evidence import Evidence

NOISE = {"figure": "noise", "threshold": 0.9, "gain": 0.05, "scenes": 12}
SPARSE = {"figure": "density", "threshold": 300.0, "gain": 0.1, "scenes": 9}
BOTH = Rules.model_validate({"rules": {"noise": NOISE, "sparse": SPARSE}})


@pytest.mark.parametrize(
    ("noise", "density", "adapter", "said"),
    [
        (0.5, 2000.0, None, "none. noise: the noise of a point is 50 % .* deviation (from 90 %); sparse: 2000 points"),
        (0.9, 2000.0, "noise", "noise: the noise of a point is 90 % of the movement's standard deviation (from 90 %)"),
        (0.5, 300.0, "sparse", "sparse: 300 points lie on a square kilometre (at most 300)"),
        (1.4, 100.0, "sparse", "sparse: 100 points"),  # which has the larger gain
    ],
)
def test_the_points_decide(noise, density, adapter, said):
    found = BOTH.choose(Evidence(delay=0.1, noise=noise, density=density, apart=0.01))
    assert found.adapter == adapter
    for part in said.split(" .* "):
        assert part in found.why


def test_a_package_without_rules_takes_none(tmp_path):
    assert read_rules(tmp_path).choose(Evidence(9.0, 9.0, 1.0, 1.0)) == (
        *(None, "none: this package has no rule for an adapter"),
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "valid dictionary"),
        ({"rules": {"noise": {**NOISE, "figure": "colour"}}}, r"rules\.noise\.figure"),
        ({"rules": {"noise": {**NOISE, "threshold": -0.1}}}, "greater than or equal to 0"),
        ({"rules": {"noise": {**NOISE, "gain": -0.1}}}, "greater than 0"),
        ({"rules": {"noise": {**NOISE, "more": 1}}}, r"rules\.noise\.more"),
    ],
)
def test_files_that_are_no_rules_are_refused(tmp_path, content, said):
    write_json(tmp_path / "auto.json", content)
    with pytest.raises(InputError, match=rf"auto\.json: .*{said}.*get the package again"):
        read_rules(tmp_path)


def test_auto_is_asked_for_alone():
    assert [asks_auto(given) for given in (["auto"], [], ["noise", "sparse=0.5"])] == [True, False, False]
    for given in (["auto", "noise"], ["noise", "auto"], ["auto=0.5"], ["auto", "auto"], ["auto=1"]):
        with pytest.raises(InputError, match=f"--adapter {', '.join(given)}: `auto` chooses by itself"):
            asks_auto(given)
