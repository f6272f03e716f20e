"""Make the site from the project's Markdown: generated pages, links out of docs/, lists as
GitHub reads them."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import notebooks
from links import LINK, prose, slug
from notebooks import NOTEBOOKS
from reference import PAGES

ROOT = Path(__file__).resolve().parents[2]
BESIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
"""Pages of the project's root, and where the site has them."""
LOGO = "src/plumbline/reporting/logo.svg"
_ITEM = re.compile(r"( {0,3})([-*+]|\d+\.) ")


def on_config(config: Any) -> Any:
    """Name headings as GitHub does."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = lambda heading, _: slug(heading)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the README, CONTRIBUTING, the notebooks and the pages that are made from the code."""
    for name, place in (*BESIDE.items(), (LOGO, "images/logo.svg")):
        files.append(
            File.generated(config, place, content=(ROOT / name).read_text(encoding="utf-8"))
        )
    for place, page in PAGES.items():
        files.append(File.generated(config, place, content=page()))
    for notebook in NOTEBOOKS:
        for place, content in notebooks.files(notebook):
            files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links to where the site has their pages, and set lists apart from the paragraph
    before."""
    place = page.file.src_uri
    beside = {site: name for name, site in BESIDE.items()}.get(place)
    source = ROOT / beside if beside else ROOT / "docs" / place
    lines: list[str] = []
    for line, said in zip(markdown.splitlines(), prose(markdown), strict=True):
        if said:
            if (
                _ITEM.match(said)
                and lines
                and lines[-1].strip()
                and not re.match(r" *([-*+]|\d+\.) | ", lines[-1])
            ):
                lines.append("")
            line = LINK.sub(lambda match: _led(match, source, place), line)
        lines.append(line)
    return "\n".join(lines)


def _led(match: re.Match[str], source: Path, place: str) -> str:
    """Return the link in the form of the site; only its text if the site lacks the file."""
    before, target, after = match.groups()
    name, mark, anchor = target.partition("#")
    if not name or re.match(r"[a-z][a-z0-9+.-]*:", target):
        return match[0]
    path = (source.parent / name).resolve()
    if not path.exists():
        return match[0]  # as it is, for the strict build to find; or it leads to a generated page
    path = path / "README.md" if path.is_dir() and (path / "README.md").is_file() else path
    inside = path.relative_to(ROOT).as_posix()
    if inside in BESIDE:
        led = BESIDE[inside]
    elif inside.startswith("docs/"):
        led = inside.removeprefix("docs/")
    else:
        text = before[1:-2]
        return text if inside in text else f"{text} (`{inside}`)"
    return f"{before}{posixpath.relpath(led, posixpath.dirname(place) or '.')}{mark}{anchor}{after}"
