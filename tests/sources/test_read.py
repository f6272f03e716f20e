import pytest

from plumbline.errors import InputError
from plumbline.sources.read import read_points

from .make import egms, rows, text


def test_egms_is_told_by_its_content_whatever_the_name(tmp_path):
    assert len(read_points(egms(tmp_path / "no_suffix"))) == 6


def test_an_egms_file_without_a_column_is_not_an_unknown_format(tmp_path):
    cells = rows()
    (tmp_path / "a.csv").write_text(text(cells, [name for name in cells[0] if name != "pid"]))
    with pytest.raises(InputError, match="column pid is missing"):
        read_points(tmp_path / "a.csv")


def test_an_unknown_format_is_refused_with_the_formats_known(tmp_path):
    (tmp_path / "a.csv").write_text("lat,lon,v\n1,2,3\n")
    with pytest.raises(InputError, match=r"a\.csv: unknown format, its header begins lat, lon, v\. Known: EGMS L2a"):
        read_points(tmp_path / "a.csv")
