"""A suggested description holds what the file's own columns show, and leaves the rest open."""

from pathlib import Path

import pandas as pd
import pytest
import yaml

from plumbline.core.errors import InputError
from plumbline.params import Ingest, parse_params
from plumbline.sources.points.epochs import check_pattern, find_days
from plumbline.sources.points.formats.columns import suggest_description
from tests.refusals import refuses
from tests.sources.make import text
from tests.sources.points.formats.write_layouts import rows as rows_of_layout
from tests.sources.points.opening import read_points
from tests.sources.points.write_columns import described, rows
from tests.sources.points.write_ortho import cells as ortho_cells
from tests.sources.points.write_points import assert_track

PARAMS = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text(encoding="utf-8"))
PLACES = ["id", "lat", "lon"]


def suggested(*header):
    return yaml.safe_load(suggest_description("f.csv", [*header]))["ingest"]["products"]["f.csv"]


@pytest.mark.parametrize(
    ("days", "pattern"),
    [
        (("D20190104", "D20190116"), "D%Y%m%d"),
        (("100%_20190104_x", "100%_20190116_x"), "100%%_%Y%m%d_x"),
        (("2019-01-04", "2019-01-16"), "PATTERN"),
        (("D20190104", "2019-01-16"), "PATTERN"),
    ],
)
def test_a_usual_pattern_is_proposed_and_any_other_is_asked_with_the_names(days, pattern):
    assert suggested(*PLACES, *days)["epochs"] == pattern
    assert f"({', '.join(days)}); docs/formats.md has the patterns" in suggest_description("f.csv", [*PLACES, *days])
    if "%" in pattern:
        assert list(find_days("f", [*PLACES, *days], check_pattern("f", pattern))) == list(days)


def test_what_the_file_does_not_show_is_left_open_and_refused():
    about = suggested(*PLACES, "D20190104", "D20190116")
    assert about["columns"] == {"point_id": "id", "latitude": "lat", "longitude": "lon"}
    for changes, left in (({"positive": "away"}, "UNIT"), ({"units": {"displacement": "mm"}}, "SIGN")):
        with pytest.raises(InputError, match=f"'{left}' found"):
            parse_params(PARAMS | {"ingest": {"products": {"f.csv": about | changes}}})


def test_an_attribute_is_proposed_before_the_geometry_s_height():
    header = ["geometry_longitude", "geometry_latitude", "geometry_height", "ELEVATION", "D20190104"]
    assert suggested(*header)["columns"]["height"] == "ELEVATION"
    assert suggested(*header[:3])["columns"]["height"] == "geometry_height"


def test_a_line_of_sight_among_the_columns_is_proposed_in_place_of_angles():
    about = suggested(*PLACES, "los_e", "los_n", "los_u", "D20190104")
    assert (about["columns"]["los_east"], about["columns"]["los_up"]) == ("los_e", "los_u")
    assert "incidence_deg" not in about
    assert "los_east" not in suggested(*PLACES, "los_e", "D20190104")["columns"]


def test_a_long_table_is_named_as_what_it_is(tmp_path):
    (tmp_path / "l.csv").write_text("id,lat,lon,date,displacement\na,52,5,2019-01-04,0\na,52,5,2019-01-16,1\n")
    with refuses("points.long_table", "l.csv", "(date)", "(displacement)"):
        read_points(tmp_path / "l.csv")


def test_the_lines_of_the_docs_turn_a_long_table_into_one_that_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"p{n},52.{n},5.{n},2019-01-{4 + 12 * t:02d},{n + t}" for n in range(3) for t in range(2)]
    Path("long.csv").write_text("id,lat,lon,date,displacement\n" + "\n".join(lines) + "\n")
    page = (Path(__file__).parents[3] / "docs" / "formats.md").read_text(encoding="utf-8")
    exec(page[page.index("import pandas as pd") :].split("```")[0], {})
    wide = pd.read_csv("wide.csv")
    assert list(wide) == ["id", "lat", "lon", "D20190104", "D20190116"]
    assert wide.D20190116.tolist() == [1, 2, 3]


def test_the_description_to_begin_with_reads_the_file_once_it_is_filled_in(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text(text(rows()))
    with refuses("points.unknown_format", path, "No pattern of ingest.products") as refused:
        read_points(path, {"other.csv": described()})
    lines = "ingest:" + str(refused.value).split("ingest:")[-1]
    lines = lines.replace("NUMBER", "37.0", 1).replace("NUMBER", "349.0").replace("UNIT", "cm").replace("SIGN", "away")
    about = parse_params(PARAMS | yaml.safe_load(lines)).ingest.products
    assert_track(read_points(path, about), read_points(path, {"*": described()}))


@pytest.mark.parametrize("name", ["it's a[1].csv", 'a "b".csv', "\u00e4 # b: c.csv"])
def test_the_lines_of_a_message_fit_the_very_file(tmp_path, name):
    path = tmp_path / name
    for cells, key in ((ortho_cells(), "egms.unknown_component"), (rows_of_layout("depsi"), "products.unstated")):
        path.write_text(text(cells))
        with refuses(key, path) as refused:
            read_points(path)
        lines = yaml.safe_load("ingest:" + str(refused.value).partition("ingest:")[2])
        assert len(read_points(path, Ingest.model_validate(lines["ingest"]).products)) == 6
