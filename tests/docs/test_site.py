"""The site names every page once, no link is dead, and the reference pages come from the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from plumbline.cli import app
from plumbline.params.fields import RestorationParams
from plumbline.params.load import Params
from plumbline.params.section import Section

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS / "site"))

import links  # noqa: E402
import notebooks  # noqa: E402
import parameters  # noqa: E402
import reference  # noqa: E402

GENERATED = {"index.md", "contributing.md", *reference.PAGES, *notebooks.NOTEBOOKS}
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "data").glob("*/README.md")])


class _Loader(yaml.SafeLoader):
    """Of YAML with names of Python objects in it, which count as text."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: suffix)


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    for part in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from _leaves(part)


def test_navigation_names_every_page_once():
    config = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    named = list(_leaves(config["nav"]))
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert len(named) == len(set(named))
    assert set(named) == pages | GENERATED


def test_links_lead_to_files_and_headings():
    assert [link for page in PAGES for link in links.dead(page, ROOT)] == []
    assert PAGES


def test_what_the_pages_import_is_on_the_page_of_python():
    public = re.findall(r"^::: (\S+)", (DOCS / "reference/python.md").read_text(encoding="utf-8"), re.MULTILINE)
    texts = [page.read_text(encoding="utf-8") for page in DOCS.rglob("*.md")]
    texts += ["\n".join(notebooks.code(path)) for path in notebooks.NOTEBOOKS.values()]
    lines = re.findall(r"^from (plumbline\S*) import (.+)$", "\n".join(texts), re.MULTILINE)
    imports = [(module, name) for module, names in lines for name in names.split(", ")]
    names = {f"{module}.{name}" for module, name in imports if module != "plumbline.pretrained"}
    assert len(names) > 5
    assert names <= {*public}


def test_generated_pages_are_not_kept():
    assert not [name for name in GENERATED if (DOCS / name).exists()]


def test_a_dead_link_is_found(tmp_path: Path):
    (tmp_path / "other.md").write_text("# A page\n\n## What it *is*: 2 `things`\n")
    (tmp_path / "page.md").write_text(
        "[gone](gone.md) [there](other.md#what-it-is-2-things) [lost](other.md#nowhere)\n"
        "[![picture](gone.png)](https://example.org)\n\n```\n[code](gone.md)\n```\n\n    [code](gone.md)\n"
        "`[code](gone.md)` [self](#page)\n\n[out](../outside.md)\n"
    )
    assert links.dead(tmp_path / "page.md", tmp_path) == [
        "page.md:1: gone.md: no such file",
        "page.md:1: other.md#nowhere: no such heading",
        "page.md:2: gone.png: no such file",
        "page.md:9: #page: no such heading",
        "page.md:11: ../outside.md: no such file",
    ]


def test_every_command_and_option_is_on_the_page_of_commands():
    page = reference.cli_page()
    parts = dict(re.findall(r"^## plumbline (.+?)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    found = 0
    names = _all_commands()
    for name in names:
        text = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).output
        for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)) - {"--help"}:
            assert f"`{option}`" in parts[name], (name, option)
            found += 1
    assert found > 100
    assert set(parts) == set(names)


def _all_commands(before: tuple[str, ...] = ()) -> list[str]:
    """As the help itself lists them."""
    text = CliRunner().invoke(app, [*before, "--help"], env={"COLUMNS": "400", "NO_COLOR": "1"}).output
    _, _, listed = text.partition("Commands ")
    names = re.findall(r"^│ ([a-z][a-z-]*) ", listed, re.MULTILINE)
    return [one for name in names for one in (_all_commands((*before, name)) or [" ".join((*before, name))])]


def test_every_parameter_is_on_a_page_of_parameters():
    pages = parameters.params_pages()
    for family, (whole, folder) in parameters.FAMILIES.items():
        for path, section in parameters.sections(whole):
            name = path.partition(".")[0] or "file"
            heading = path if "." in path else f"Parameters: {name} ({family})"
            text = _part(pages[f"reference/params/{folder}{name}.md"], links.slug(heading))
            again = re.search(r"The same keys as \[.*\]\((?:\.\./)?(\w+\.md)#(.+)\)", text)
            if again:
                text = _part(pages[f"reference/params/{again[1]}"], again[2])
            for key, field in section.model_fields.items():
                assert f"| `{field.alias or key}` |" in text, (path, key)
    assert not [page for page in pages.values() if "| `bay_m` |" in page]  # no such parameter
    assert "| `buffer_m` | number | ≥ 0, ≤ 20 | `2.0` | m |" in pages["reference/params/prepare.md"]
    assert max(page.count("\n| `") for page in pages.values()) < 80  # none too long to read


def _part(page: str, anchor: str) -> str:
    """The text below a heading."""
    parts = re.split(r"^#+ (.+)$", page, flags=re.MULTILINE)
    return dict(zip(map(links.slug, parts[1::2]), parts[2::2], strict=True))[anchor]


def test_every_section_of_the_params_file_is_reached():
    """By a walk of its own over all models that the whole files hold."""
    reached = {section for whole in (Params, RestorationParams) for _, section in parameters.sections(whole)}
    module = sys.modules
    defined = {
        kind
        for name, found in list(module.items())
        if name.startswith("plumbline.params")
        for kind in vars(found).values()
        if isinstance(kind, type) and issubclass(kind, Section) and kind.model_fields
    }
    held = {base for kind in reached for base in kind.__mro__}
    assert defined - held - {Params, RestorationParams} == set()


def test_every_operation_of_the_service_is_on_its_page():
    pytest.importorskip("fastapi")
    page = reference.http_page()
    for operation in ("POST /v1/predict", "POST /v1/restore", "GET /v1/jobs/{job}/result", "DELETE /v1/jobs/{job}"):
        assert f"## {operation}\n" in page
    assert "| `min_quadrant_confidence` |" in page


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    shown = {"cli": "plumbline predict", "python": "prepare_buildings", "params": 'href="restoration/train/"'}
    for page, words in shown.items():
        assert words in (tmp_path / "site" / "reference" / page / "index.html").read_text(encoding="utf-8")
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert {"Line of sight", "Telemetry: what leaves the machine"} <= {entry["title"] for entry in index["docs"]}
    separator = index["config"]["separator"]
    assert re.split(separator, "of sight, `severity_low`: 0.5") == ["of", "sight", "severity_low", "0.5"]
    shutil.rmtree(tmp_path / "site")
