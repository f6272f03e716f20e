from pathlib import Path

import geopandas
import pandas as pd
import pytest

from plumbline.core.errors import InputError
from plumbline.sources.city.labelled import of_footprints

FILES = Path("labels.csv"), Path("footprints.geojson")


def matched(names: list[str], there: list[str]) -> list[str]:
    labels = pd.DataFrame({"building_id": names, "severity_permille": 1.0})
    footprints = geopandas.GeoDataFrame(
        {"building_id": there}, geometry=geopandas.points_from_xy(*[range(len(there))] * 2)
    )
    return of_footprints(labels, footprints, *FILES)["building_id"].tolist()


def test_blanks_and_decimals_of_whole_numbers_are_overlooked_where_only_so_there_is_a_building():
    assert matched(["12.0", " H1 ", "-3.00", " 7.0"], ["7", "-3", "H1", "12"]) == ["12", "H1", "-3", "7"]
    assert matched(["12.0", " H1"], ["12", "12.0", "H1", " H1"]) == ["12.0", " H1"]


@pytest.mark.parametrize("name", ["0012", "12.5", "h1", "1 2", "12.0.0", ""])
def test_nothing_else_is(name):
    with pytest.raises(InputError, match=rf"labels\.csv: not in footprints\.geojson: 1 of the labelled .*\('{name}'\)"):
        matched([name, "12"], ["12", "H1"])


def test_the_refusal_shows_what_both_files_call_them_with_their_blanks():
    with pytest.raises(InputError, match=r"\('a ', 'b'\)\. Its buildings are called '0', '1', '2', '3', '4', …\. Mend"):
        matched(["b", "a "], [str(number) for number in range(9)])


def test_two_labels_of_one_building_are_refused():
    with pytest.raises(InputError, match=r"labels\.csv: '12', '12\.0' are of one building of footprints\.geojson"):
        matched(["12", "12.0", "13"], ["12", "13"])
