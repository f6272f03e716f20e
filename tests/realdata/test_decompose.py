"""Two tracks of an island, taken apart into up and east, against what the service made of the same data."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USTICA = ROOT.parent / "shared/data/ustica"
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not USTICA.is_dir(), reason="the real files are not there (../shared/data)"),
]


@pytest.fixture(scope="module")
def cells():
    from benchmarks.decompose import compare

    return compare(USTICA)


@pytest.mark.parametrize("component", ["up", "east"])
@pytest.mark.parametrize("points", [1, 3])
def test_cell_means_are_those_of_the_services_own_decomposition(cells, component, points):
    from benchmarks.decompose import agreement

    part = cells[cells["points"] >= points]
    assert len(part) > 400
    correlation, slope = agreement(part[component], part[f"service_{component}"])
    assert correlation >= 0.95
    assert 0.9 <= slope <= 1.1
    # Both products refer to the same frame, so no constant is left between them.
    assert abs((part[component] - part[f"service_{component}"]).median()) < 0.1


@pytest.mark.parametrize("component", ["up", "east"])
def test_differences_are_within_the_stated_errors(cells, component):
    scaled = (cells[component] - cells[f"service_{component}"]) / cells[f"{component}_se"]
    assert (scaled.abs() < 1.96).mean() > 0.95  # the service saw the same points: mostly closer than that
