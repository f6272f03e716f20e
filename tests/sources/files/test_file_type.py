"""Which description of `ingest.products` a file gets, by its name and its folders."""

from pathlib import Path

import pytest

from plumbline.params import Product
from plumbline.sources.checks import warn_of_patterns
from plumbline.sources.files.opened import fits, product_params
from tests.refusals import warned, warning_keys


@pytest.mark.parametrize(
    ("path", "pattern", "wanted"),
    [
        ("asc/ts.csv", "ts.csv", True),
        ("asc/ts.csv", "asc/ts.csv", True),
        ("asc/ts.csv", "asc/*", True),
        ("desc/ts.csv", "asc/ts.csv", False),
        ("deep/asc/ts.csv", "asc/ts.csv", True),
        ("asc/ts.csv", "other/asc/ts.csv", False),
        ("a[1].csv", "a[1].csv", True),
        ("a1.csv", "a[1].csv", True),
        ("/data/asc/ts.csv", "/data/asc/ts.csv", True),
        ("/data/asc/ts.csv", "/desc/ts.csv", False),
        ("asc/TS.csv", "asc/ts.csv", False),
    ],
)
def test_a_pattern_fits_by_the_name_and_as_many_folders_as_it_has(path: str, pattern: str, wanted: bool) -> None:
    assert fits(Path(path), pattern) is wanted


def test_files_of_one_name_can_be_described_apart(caplog: pytest.LogCaptureFixture) -> None:
    """Exports of two tracks often have one name, and one line of sight is then wrong for one of them."""
    points = [Path("asc/ts.csv"), Path("desc/ts.csv")]
    up, down = Product(incidence_deg=38, heading_deg=349), Product(incidence_deg=36, heading_deg=191)
    apart = {"asc/ts.csv": up, "desc/ts.csv": down}
    assert [product_params(path, apart) for path in points] == [up, down]
    warn_of_patterns(points, apart)
    warn_of_patterns([points[0], Path("asc/other.csv")], {"*.csv": up})
    warn_of_patterns(points, {})
    assert not warning_keys(caplog)

    warn_of_patterns(points, {"ts.csv": up})
    assert warned(caplog, "products.shared_sight", "asc/ts.csv, desc/ts.csv", "'asc/ts.csv'")
