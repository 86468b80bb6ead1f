"""How `make site` builds these pages into `build/site`. Nothing in them comes from another host."""

import os
import re
from pathlib import Path
from typing import Any

from sphinx.errors import ExtensionError

DOCS = Path(__file__).parent
REPOSITORY_LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<target>(?:\.\./)+[^)#]+)\)")
INDEX_ENTRY = re.compile(r"^(?:## (?P<caption>.+)|- .*?\]\((?P<page>[\w/-]+)\.md\))", re.MULTILINE)

LOADED = re.compile(r"""<(?:script|img|iframe|source|link)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^>]*>""")

project = "memproxy"
author = "the memproxy authors"
extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["requirements.in"]
nitpicky = True

myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = ["misc.highlighting_failure"]  # placeholders like dream_… are no tokens of any language

html_theme = "furo"
html_title = "memproxy"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
html_theme_options = {"top_of_page_buttons": []}


def of_the_repository(page: Path, text: str) -> str:
    """Links that leave `docs/`: folders and pages of the repository are named, files stay links (to a copy)."""

    def link(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match["target"]))
        if target.is_relative_to(DOCS) or (target.is_file() and target.suffix != ".md"):
            return match[0]
        return f"{match['text']} (`{target.relative_to(DOCS.parent)}`)"

    return REPOSITORY_LINK.sub(link, text)


def menu(index: str) -> str:
    """The menu at the side: what `index.md` lists, by its headings."""
    trees: list[str] = []
    for match in INDEX_ENTRY.finditer(index):
        if match["caption"]:
            trees.append(f"```{{toctree}}\n:hidden:\n:caption: {match['caption']}\n")
        else:
            trees[-1] += f"\n{match['page']}"
    return "".join(f"\n{tree}\n```\n" for tree in trees)


def read(_app: Any, name: str, source: list[str]) -> None:
    """A page as Sphinx is to read it."""
    source[0] = of_the_repository(DOCS / f"{name}.md", source[0])
    if name == root_doc:
        source[0] += menu(source[0])
    elif name == "decisions/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n0*\n```\n"


def nothing_from_elsewhere(app: Any, problem: Exception | None) -> None:
    """Links may lead anywhere; what a page loads is its own."""
    pages = [] if problem else sorted(Path(app.outdir).rglob("*.html"))
    for page in pages:
        if found := LOADED.search(page.read_text(encoding="utf-8")):
            raise ExtensionError(f"{page.relative_to(app.outdir)} loads something from another host: {found[0]}")


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", read)
    app.connect("build-finished", nothing_from_elsewhere)
