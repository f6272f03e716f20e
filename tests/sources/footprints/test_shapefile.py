"""Shapefiles of footprints that are not whole: GDAL reads them without a word."""

import pandas as pd
import pytest
from hypothesis import given as whatever
from hypothesis import strategies as st

from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import refuses, warned
from tests.sources.make import FEWER, squares, zipped

CRS = "EPSG:3035"
pytestmark = pytest.mark.filterwarnings("ignore:Column names longer", "ignore:Normalized/laundered")


every_way = pytest.mark.parametrize("given", ["file", "folder", "zip"], indirect=True)


@pytest.fixture
def given(request, tmp_path):
    """Write three footprints, change their files by name, and give what the user gives: a file if nothing is said."""
    way = getattr(request, "param", "file")

    def make(change):
        folder = tmp_path / "shape"
        folder.mkdir()
        squares().to_file(folder / "f.shp")
        change(folder)
        if way == "zip":
            return zipped(tmp_path / "f.zip", {f"deep/{path.name}": path.read_bytes() for path in folder.iterdir()})
        return folder / next(folder.glob("*.[sS][hH][pP]")).name if way == "file" else folder

    return make


def misstate(folder):
    squares().assign(name="Café").to_file(folder / "f.shp", encoding="ISO-8859-1")
    (folder / "f.cpg").write_text("UTF-8")


def misname(folder):
    path = folder / "f.prj"
    path.write_bytes(path.read_text().replace('PROJCS["', 'PROJCS["Système_', 1).encode("cp1252"))


def cut(folder):
    path = folder / "f.shp"
    path.write_bytes(path.read_bytes()[:-100])


def cut_index(folder):
    """GDAL reads as many outlines as its index has, without a word."""
    path = folder / "f.shx"
    path.write_bytes(path.read_bytes()[:-8])


REFUSED = {
    "encoding": (misstate, "footprints.unreadable"),
    "name of the crs": (misname, "footprints.unreadable"),
    "length": (cut, "shapefile.cut_off", "408 bytes"),
    "index": (cut_index, "shapefile.unequal_parts", "2 outlines", "3 rows"),
    "ids": (lambda folder: (folder / "f.dbf").unlink(), "shapefile.no_table", "f.dbf"),
    "no index": (lambda folder: (folder / "f.shx").unlink(), "footprints.unreadable"),
}
"""What is wrong -> how it comes about, the key, and the figures or the part that the message names."""


@every_way
@pytest.mark.parametrize("case", REFUSED)
def test_one_that_is_not_whole_is_refused(given, case):
    change, key, *places = REFUSED[case]
    path = given(change)
    with refuses(key, path, *places):
        read_buildings(path, CRS)


@every_way
def test_one_that_is_whole_is_read(given):
    assert read_buildings(given(lambda folder: None), CRS)["building_id"].tolist() == ["H0", "H1", "H2"]


@every_way
def test_the_table_may_be_named_in_other_letters(given):
    def rename(folder):
        for path in list(folder.iterdir()):
            path.rename(path.with_suffix(path.suffix.upper()))

    assert read_buildings(given(rename), CRS)["building_id"].tolist() == ["H0", "H1", "H2"]


RUSSIAN, WINDOWS = 0xC9, 0x03
STATED = {
    "code page": (["Привет", "Ёлка", "Н"], "cp1251", RUSSIAN, None),
    "plain": (["a", "b", "c"], "UTF-8", WINDOWS, None),
    "UTF-8 under Windows": (["Höhe", "b", "Straße"], "UTF-8", WINDOWS, "'Höhe'"),
    "UTF-8 under Russian": (["Ёлка", "b", "c"], "UTF-8", RUSSIAN, "'Ёлка'"),
}
"""What the texts are -> texts, encoding, language that the .dbf states, and the text that the warning shows."""


def silent(names, encoding, language=None):
    """Write texts in their encoding, without a .cpg; `language` is stated in the .dbf."""

    def change(folder):
        squares().assign(NAME=names).to_file(folder / "f.shp", encoding=encoding)
        (folder / "f.cpg").unlink()
        if language is not None:
            content = bytearray((folder / "f.dbf").read_bytes())
            content[29] = language
            (folder / "f.dbf").write_bytes(content)

    return change


@pytest.mark.parametrize(
    ("names", "encoding"), [(["Höhe Straße", "Δρόμος", "a"], "UTF-8"), (["Café – 1", "œuvre", "a"], "cp1252")]
)
def test_texts_are_utf_8_by_their_bytes_or_windows_1252_with_a_warning(given, caplog, names, encoding):
    read = read_buildings(given(silent(names=names, encoding=encoding)), CRS, id_column="NAME")
    assert read["building_id"].tolist() == names
    assert bool(warned(caplog, "shapefile.no_encoding", "'Café – 1'", "Windows-1252")) == (encoding == "cp1252")


def test_large_numbers_beside_empty_cells_stay_exact_in_a_column_that_utf_8_names(given):
    def number(folder):
        numbers = pd.array([2**53 + 1, None, 2**53 + 3], "Int64")
        squares().assign(größe=numbers).to_file(folder / "f.shp", encoding="UTF-8")
        (folder / "f.cpg").unlink()

    read = read_buildings(given(number), CRS, id_column="größe")
    assert read["building_id"].tolist() == ["9007199254740993", "B0000002", "9007199254740995"]


def test_bytes_that_windows_1252_lacks_cost_no_building(given, caplog):
    read = read_buildings(given(silent(names=["Привет", "Ёлка", "Н"], encoding="cp1251")), CRS, id_column="NAME")
    assert len(set(read["building_id"])) == 3
    assert warned(caplog, "shapefile.no_encoding", ".cpg")


def test_a_letter_that_was_cut_at_the_end_of_its_cell_goes(given, caplog):
    def cut(folder):
        silent(names=["H\u00f6he 1", "H\u00f6he 2", "Caf\u00e9"], encoding="UTF-8")(folder)
        table = folder / "f.dbf"
        content = bytearray(table.read_bytes())
        at = content.index("Höhe 1".encode()) + 80 - 1
        content[at] = 0xC3
        table.write_bytes(content)

    read = read_buildings(given(cut), CRS, id_column="NAME")
    assert [name.strip() for name in read["building_id"]] == ["Höhe 1", "Höhe 2", "Café"]


@pytest.mark.parametrize(("names", "encoding", "language", "word"), STATED.values(), ids=STATED)
def test_a_language_that_the_table_states_counts_unless_the_texts_are_utf_8(
    given, caplog, names, encoding, language, word
):
    read = read_buildings(given(silent(names, encoding, language)), CRS, id_column="NAME")
    assert read["building_id"].tolist() == names
    assert bool(warned(caplog, "shapefile.wrong_code_page", word or "")) == (word is not None)


LETTERS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zs")), min_size=1, max_size=8)


@FEWER
@whatever(names=st.lists(LETTERS, min_size=3, max_size=3))
def test_whatever_was_written_in_utf_8_is_read_as_that(tmp_path, names):
    squares().assign(NAME=names).to_file(tmp_path / "f.shp", encoding="UTF-8")
    (tmp_path / "f.cpg").unlink()
    assert read_buildings(tmp_path / "f.shp", CRS)["NAME"].tolist() == names
