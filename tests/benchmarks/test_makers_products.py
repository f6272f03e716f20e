"""Real products that makers borrow noise from: which are taken, and what is said of others."""

import zipfile

import pytest

from benchmarks.makers.products import read_product
from plumbline.core.errors import InputError

HEAD = "pid,easting,northing,incidence_angle,track_angle,20200101,20200107"
ROW = "a,1,2,38,{},0.5,1.5"


@pytest.mark.parametrize(("direction", "heading"), [("ascending", 349.0), ("ascending", -12.0), ("descending", 191.0)])
@pytest.mark.parametrize("packed", [False, True])
def test_a_product_of_its_direction_is_read(tmp_path, direction, heading, packed):
    content, path = f"{HEAD}\n{ROW.format(heading)}\n", tmp_path / ("a.zip" if packed else "a.csv")
    if packed:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.xml", "<about/>")
            archive.writestr("a.csv", content)
    else:
        path.write_text(content)
    table, days = read_product(path, direction)
    assert table[days].to_numpy().tolist() == [[0.5, 1.5]]
    assert days == ["20200101", "20200107"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"{HEAD}\n{ROW.format(191)}\n", "has a track angle of 191 degrees, and is not ascending"),
        (f"{HEAD}\n", "has a track angle of nan degrees"),
        ("pid,easting,20200101\na,1,2\n", "has no northing, incidence_angle, track_angle"),
        (f"{HEAD[:-18]}\na,1,2,38,349\n", "has no column of a day"),
        ("", "the file is empty"),
        ("PK\x03\x04 and no more", "not readable as a zip (it is cut off)"),
        ('a,"b\n1\n', "is no table"),
        (None, "no such file"),
    ],
)
def test_what_is_no_such_product_is_refused_by_name(tmp_path, content, said):
    path = tmp_path / "given.csv"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InputError, match=r"--residuals: .*given\.csv") as ended:
        read_product(path, "ascending")
    assert said in str(ended.value)


def test_an_archive_without_a_table_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.xml", "<about/>")
    with pytest.raises(InputError, match=r"--residuals: .*a\.zip: .*no csv"):
        read_product(tmp_path / "a.zip", "ascending")
