"""Which files are pages, and a copy of them as Zensical reads it.

The copy is laid out as the checkout is, so that links between documents stay as they are. A link to a file of the
checkout leads to a page that shows it, one to a folder leads to its README.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath

from documents.dialect import outside_code, python_markdown
from documents.formulas import with_mathml

FOLDERS = ("docs", "examples", "studies", "crates")
MADE = ("docs/api.md", "docs/gallery.md")
"""Pages that are written by the build itself."""
LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
LANGUAGES = {".py": "python", ".toml": "toml", ".rs": "rust", ".json": "json", "": "python"}
AS_THEY_ARE = (".svg", ".png", ".xz", ".ipynb")
FRAGMENTS = ("results", "added", "changed", "fixed", "removed")


class DocumentsError(Exception):
    """A document, or the list of them, is not as it has to be; the message says which."""


def pages(root: Path) -> list[str]:
    """Every document of a checkout that is a page, by its path."""
    inner = [one for folder in FOLDERS for one in root.glob(f"{folder}/**/*.md")]
    found = [*root.glob("*.md"), *inner]
    return sorted(str(PurePosixPath(one.relative_to(root))) for one in found)


def navigation(text: str, there: list[str]) -> str:
    """A configuration whose patterns are the pages that they stand for."""

    def pages_of(pattern: re.Match[str]) -> str:
        names = [name for name in there if PurePosixPath(name).match(pattern[1])]
        if not names:
            raise DocumentsError(f"docs/zensical.toml: {pattern[1]} stands for no page")
        return ", ".join(f'"{name}"' for name in names)

    head, _, rest = text.partition("\nnav = [")
    nav, _, tail = rest.partition("\n]\n")
    return head + "\nnav = [" + re.sub(r'"([^"]*\*[^"]*\.md)"', pages_of, nav) + "\n]\n" + tail


def named(config: str) -> list[str]:
    """The pages of a configuration's navigation, in its order."""

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
    """Copies all documents of ``root``, and what they show or link, to ``out``. Raises DocumentsError."""
    shown: dict[str, None] = {}
    for name in pages(root):
        text = (root / name).read_text(encoding="utf-8")
        if name == "CHANGELOG.md":
            text = _with_fragments(root, text)
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(rendered(root, name, text, shown), encoding="utf-8")
    scenarios = (str(PurePosixPath(one.relative_to(root))) for one in root.glob("scenarios/*.toml"))
    for name in {**shown, **dict.fromkeys(scenarios)}:
        _show(root, name, out)


def rendered(root: Path, name: str, text: str, shown: dict[str, None]) -> str:
    """The page ``name`` as Zensical reads it; files that it links are added to ``shown``."""

    def lead(link: re.Match[str]) -> str:
        target = link[2]
        place = normpath(PurePosixPath(name).parent / target)
        if not (root / place).exists() and place not in MADE:
            raise DocumentsError(f"{name}: {target} is not there")
        if (root / place).is_dir():
            if not (root / place / "README.md").exists():
                raise DocumentsError(f"{name}: {target} is a folder without README.md")
            target = f"{target.rstrip('/')}/README.md"
        elif not target.endswith(".md"):
            shown[place] = None
            if not target.endswith(AS_THEY_ARE):
                target += ".md"
        return f"{link[1]}{target}{link[3] or ''}{link[4]}"

    return with_mathml(python_markdown(outside_code(text, lambda part: LINK.sub(lead, part))))


def _show(root: Path, name: str, out: Path) -> None:
    """A file beside the pages, and unless it is a picture or an archive a page that shows it."""
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


def _with_fragments(root: Path, text: str) -> str:
    """The changelog with what has changed since the last release, by kind."""
    parts = ["## Not released yet\n"]
    for kind in FRAGMENTS:
        found = sorted((root / "changelog.d").glob(f"*.{kind}.md"))
        if found:
            items = (
                " ".join(one.read_text(encoding="utf-8").split()).replace("](../", "](") for one in found
            )
            parts += [f"### {kind.capitalize()}", *(f"- {item}" for item in items), ""]
    head, mark, rest = text.partition("\n## ")
    return head.replace("in `changelog.d/`", "below") + "\n" + "\n".join(parts) + mark + rest
