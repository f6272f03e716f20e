"""The page is one file that loads nothing, harms nobody who opens it, and is refused in time where it was not built."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from plumbline.core.source_code import MAP_PAGE, PAGE_FILES, SOURCES
from plumbline.reporting.page import icon
from plumbline.serve.map import page as drawing
from plumbline.serve.map.page import page_html, write_map
from tests.refusals import refuses
from tests.serve.made import judged_of
from tests.serve.map.town import HOSTILE, town, track

ROOT = Path(__file__).parents[3]


class Tags(HTMLParser):
    """Collects start tags; what is inside of scripts and styles is no tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def policy(self) -> str:
        (found,) = [one["content"] for tag, one in self.found if one.get("http-equiv") == "Content-Security-Policy"]
        assert found
        return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.html"
    write_map(judged_of(town()), [track(300)], path, "Ours <i>& theirs</i>")
    return path


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A built page of a few letters, with all that could end a script."""
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "app.js").write_text('"</script><b>" + "</SCRIPT >"')
    (folder / "app.css").write_text("b{}")
    monkeypatch.setattr(drawing, "BUILT", folder)
    return folder


def test_the_page_is_whole_and_asks_for_nothing(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tags = Tags(text)
    fetched = [own for _, own in tags.found if {"src", "href", "data", "action"} & own.keys()]
    assert fetched == [{"rel": "icon", "href": icon()}]
    assert not {"img", "i", "b", "iframe", "object"} & {tag for tag, _ in tags.found}
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags.found
    assert "<title>Ours &lt;i&gt;&amp; theirs&lt;/i&gt;</title>" in text
    styles = "".join(re.findall("<style>(.*?)</style>", text, re.DOTALL))
    assert not re.search(r"@import|url\((?!['\"]?data:)", styles)


def test_its_policy_allows_its_own_script_and_no_network(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = Tags(text).policy()
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "default-src 'none'" in policy
    assert "connect-src data: blob:;" in policy
    assert "http" not in policy
    assert "'self'" not in policy


@pytest.mark.parametrize(
    ("document", "allowed"),
    [
        (None, " 'self'"),  # the page of the service asks its own server alone
        ({"basemap": "https://tiles.example.org:8443/{z}/{x}/{y}.png"}, " https://tiles.example.org:8443"),
        ({"basemap": "javascript:alert(1)"}, ""),
        ({"basemap": "https://a.example; script-src *"}, ""),
        ({"basemap": None}, ""),
    ],
)
def test_a_base_map_is_allowed_by_its_host(small: Path, document: dict[str, object] | None, allowed: str) -> None:
    page = page_html(document)
    policy = Tags(page).policy()
    assert f"connect-src data: blob:{allowed};" in policy
    assert (policy.count("script-src"), policy.count("http")) == (1, 2 * allowed.count("http"))
    assert ('id="document"' in page) == (document is not None)


def test_nothing_ends_a_script_before_its_end(small: Path) -> None:
    text = page_html({"title": HOSTILE, "name": HOSTILE})
    assert text.lower().count("</script") == text.lower().count("<script")
    assert not {"b", "img"} & {tag for tag, _ in Tags(text).found}


def test_without_the_built_page_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(drawing, "BUILT", tmp_path / "page")
    with refuses("map.page_not_built", "app.js", "`make web`"):
        write_map(judged_of(town()), [], tmp_path / "map.html", "Town")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_second_build_gives_the_same_bytes(tmp_path: Path) -> None:
    """DVC files the map under their hash: another clone must find it there."""
    shutil.copytree(ROOT / "web", tmp_path / "web", symlinks=True)
    vite = tmp_path / "web/node_modules/vite/bin/vite.js"
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    node = shutil.which("node", path=path)
    if node is None or not vite.exists():
        pytest.skip("the page was built elsewhere: no node, or no web/node_modules")
    command = [node, str(vite), "build", "--logLevel", "error"]
    subprocess.run(command, cwd=tmp_path / "web", check=True, capture_output=True)
    page = tmp_path / SOURCES / MAP_PAGE
    assert sorted(path.name for path in page.iterdir()) == sorted(PAGE_FILES)
    assert {name: (page / name).read_bytes() for name in PAGE_FILES} == {
        name: (drawing.BUILT / name).read_bytes() for name in PAGE_FILES
    }, "if web/ has changed: `make web`"
