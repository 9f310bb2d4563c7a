"""Copies the documents as Zensical reads them.

The copy has the layout of the checkout, so links between documents need no change. A link to a file of the checkout
leads to a page that shows it. A link to a folder leads to its README.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath

from documents.dialect import outside_code, python_markdown
from documents.formulas import with_mathml

FOLDERS = ("docs", "examples", "studies", "crates")
GENERATED = ("docs/api.md", "docs/gallery.md")
"""Pages that the build writes."""
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
LANGUAGES = {".py": "python", ".toml": "toml", ".rs": "rust", ".json": "json", "": "python"}
AS_THEY_ARE = (".svg", ".png", ".xz", ".ipynb")
RELEASES = "<!-- towncrier release notes start -->"
"""Line of the changelog before its latest release."""


class DocumentsError(Exception):
    """An invalid document or navigation."""


def pages(root: Path) -> list[str]:
    """Return the paths of all documents of a checkout that become pages."""
    inner = [one for folder in FOLDERS for one in root.glob(f"{folder}/**/*.md")]
    found = [*root.glob("*.md"), *inner]
    return sorted(str(PurePosixPath(one.relative_to(root))) for one in found)


def _is_page(name: str) -> bool:
    """Return whether a Markdown file of a checkout is among its pages."""
    return "/" not in name or PurePosixPath(name).parts[0] in FOLDERS


def navigation(text: str, names: list[str]) -> str:
    """Return a configuration with the pages in place of the patterns that match them."""

    def pages_of(pattern: re.Match[str]) -> str:
        matches = [name for name in names if PurePosixPath(name).match(pattern[1])]
        if not matches:
            raise DocumentsError(f"docs/zensical.toml: {pattern[1]} matches no page")
        return ", ".join(f'"{name}"' for name in matches)

    head, _, rest = text.partition("\nnav = [")
    nav, _, tail = rest.partition("\n]\n")
    return head + "\nnav = [" + re.sub(r'"([^"]*\*[^"]*\.md)"', pages_of, nav) + "\n]\n" + tail


def list_pages(config: str) -> list[str]:
    """Return the pages of a configuration's navigation, in its order."""

    def walk(entry: object) -> Iterator[str]:
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, list):
            for one in entry:
                yield from walk(one)
        elif isinstance(entry, dict):
            for one in entry.values():
                yield from walk(one)

    return list(walk(tomllib.loads(config)["project"]["nav"]))


def stage(root: Path, out: Path) -> None:
    """Copy all documents of ``root`` and the files that they link to ``out``. Raises DocumentsError."""
    shown: dict[str, None] = {}
    for name in pages(root):
        text = (root / name).read_text(encoding="utf-8")
        if name == "CHANGELOG.md":
            text = with_fragments(root, text)
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(convert(root, name, text, shown), encoding="utf-8")
    scenarios = (str(PurePosixPath(one.relative_to(root))) for one in root.glob("scenarios/*.toml"))
    for name in {**shown, **dict.fromkeys(scenarios)}:
        _show(root, name, out)


def convert(root: Path, name: str, text: str, shown: dict[str, None]) -> str:
    """Return the page ``name`` as Zensical reads it, and add the files that it links to ``shown``."""

    def lead(link: re.Match[str]) -> str:
        target = link[2]
        place = normpath(PurePosixPath(name).parent / target)
        if not (root / place).exists() and place not in GENERATED:
            raise DocumentsError(f"{name}: {target} does not exist")
        if (root / place).is_dir():
            if not (root / place / "README.md").exists():
                raise DocumentsError(f"{name}: {target} is a folder without README.md")
            target = f"{target.rstrip('/')}/README.md"
        elif target.endswith(".md") and place not in GENERATED and not _is_page(place):
            raise DocumentsError(f"{name}: {target} is no page of the site; write its path without a link")
        elif not target.endswith(".md"):
            shown[place] = None
            if not target.endswith(AS_THEY_ARE):
                target += ".md"
        return f"{link[1]}{target}{link[3] or ''}{link[4]}"

    return with_mathml(python_markdown(outside_code(text, lambda part: LINK.sub(lead, part))))


def _show(root: Path, name: str, out: Path) -> None:
    """Copy a file beside the pages, and write a page that shows it unless it is a picture or an archive."""
    file, target = root / name, out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)
    if file.suffix in AS_THEY_ARE:
        return
    language = LANGUAGES.get(file.suffix, "text")
    text = file.read_text(encoding="utf-8").rstrip("\n")
    page = f"# `{name}`\n\n[As a file]({file.name})\n\n````{language}\n{text}\n````\n"
    printed = file.with_suffix(".out")
    if file.suffix == ".py" and printed.exists():
        page += f"\nIt prints:\n\n````text\n{printed.read_text(encoding='utf-8').rstrip()}\n````\n"
    target.with_name(f"{target.name}.md").write_text(page, encoding="utf-8")


def with_fragments(root: Path, text: str) -> str:
    """Return the changelog with the fragments of ``changelog.d`` as its first section. Raises DocumentsError."""
    draft = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next", "--dir", str(root)]
    done = subprocess.run(draft, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DocumentsError(f"towncrier: {done.stderr.strip()}")
    _, _, entries = done.stdout.strip().partition("\n")
    head, mark, rest = text.partition(RELEASES)
    if not mark:
        raise DocumentsError(f"CHANGELOG.md: lacks the line {RELEASES}")
    if not entries.strip():
        return text
    return head.replace("in `changelog.d/`", "below") + f"{mark}\n\n## Unreleased\n\n{entries.strip()}" + rest
