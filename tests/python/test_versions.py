"""One version, in Cargo.toml: other places agree with it, and no text has another one. Fragments become a changelog."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from documents import staging

ROOT = Path(__file__).resolve().parents[2]
VERSION = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
HOLDERS = {
    "Cargo.toml",
    "Cargo.lock",
    "fuzz/Cargo.lock",
    "CITATION.cff",
    "CHANGELOG.md",
    "docs/reference/versions.md",
}
"""Files that state the version: the source, what `cargo` writes, what a release edits, and the page about versions."""

OWN = rf"{re.escape(VERSION)}(?![\d.+]*\d)"
"""The version, but not an engine's full version: `0.2.0+19eab869` states which engine measured a number."""
STRAY = re.compile(rf"(?<![\d.=])(?<!==){OWN}|bentpipe[-= ]v?\d+\.\d+\.\d+(?!\+)", re.IGNORECASE)


def strays(text: str) -> list[str]:
    """Return the versions of bentpipe that a text states."""
    return STRAY.findall(text)


def tracked_texts() -> dict[str, str]:
    """The text files of the checkout by name, but for pinned requirements and decisions, which are records."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = {}
    for name in filter(None, names.stdout.split("\0")):
        file = ROOT / name
        if name.startswith(("requirements/", "docs/decisions/")) or not file.is_file():
            continue
        try:
            found[name] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # an archive, a picture
    return found


def test_the_release_is_the_version_of_the_engine() -> None:
    engine = pytest.importorskip("bentpipe._engine")
    assert engine.version().partition("+")[0] == VERSION


def test_citation_and_changelog_have_the_version_and_its_date() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    [version, date] = re.search(
        r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ).groups()  # type: ignore[union-attr]
    assert version == citation["version"] == VERSION
    assert date == citation["date-released"].isoformat()


@pytest.mark.parametrize("name", ["Cargo.lock", "fuzz/Cargo.lock"])
def test_locked_crates_have_the_version(name: str) -> None:
    packages = tomllib.loads((ROOT / name).read_text())["package"]
    own = {one["version"] for one in packages if one["name"].startswith("bentpipe-")}
    assert own - {"0.0.0"} == {VERSION}  # the fuzz targets are no part of a release


def test_manifests_inherit_the_version() -> None:
    for manifest in ROOT.glob("crates/**/Cargo.toml"):
        assert tomllib.loads(manifest.read_text())["package"]["version"] == {"workspace": True}, manifest
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"], "maturin reads it from crates/py"


def test_no_other_text_states_a_version() -> None:
    texts = tracked_texts()
    assert len(texts) > 1000
    assert {
        name: found for name, text in texts.items() if name not in HOLDERS and (found := strays(text))
    } == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"pip install bentpipe-{VERSION}-cp311-abi3.whl", True),
        ("pip install bentpipe" + "-0.1.0.tar.gz", True),
        (f"bentpipe {VERSION}", True),
        (f'engine = "{VERSION}"', True),
        (f"measured with engine {VERSION}+19eab869", False),
        (f"another=={VERSION}", False),
        (f"address 10.{VERSION}", False),
        ("bentpipe 3 and 4", False),
    ],
)
def test_a_stray_version_is_found(text: str, expected: bool) -> None:
    assert bool(strays(text)) == expected


def fragments(root: Path, **texts: str) -> None:
    """A checkout with the configuration of this one, a changelog and fragments."""
    (root / "changelog.d").mkdir()
    for name in ("pyproject.toml", "changelog.d/template.jinja", "changelog.d/README.md"):
        (root / name).write_text((ROOT / name).read_text())
    (root / "CHANGELOG.md").write_text(
        f"# Changelog\nMore in `changelog.d/`.\n\n{staging.RELEASES}\n\n## 0.0.1\n"
    )
    for name, text in texts.items():
        (root / f"changelog.d/{name.replace('__', '.')}.md").write_text(text)


def test_fragments_become_a_section_of_the_changelog(tmp_path: Path) -> None:
    texts = {
        "b__fixed": "Two\nlines.\n",
        "a__added": "See [a](../docs/a.md).\n",
        "a__results": "0.1 is 0.2.\n",
    }
    fragments(tmp_path, **texts)
    section = "\n### Results\n\n- 0.1 is 0.2.\n\n### Added\n\n- See [a](docs/a.md).\n\n### Fixed\n\n- Two\n  lines.\n\n"
    page = staging.with_fragments(tmp_path, (tmp_path / "CHANGELOG.md").read_text())
    assert page == f"# Changelog\nMore below.\n\n{staging.RELEASES}\n\n## Unreleased\n{section}## 0.0.1\n"
    build = [
        sys.executable,
        "-m",
        "towncrier",
        "build",
        "--yes",
        "--version",
        "0.0.2",
        "--date",
        "2026-12-24",
    ]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(build, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "CHANGELOG.md").read_text() == (
        f"# Changelog\nMore in `changelog.d/`.\n\n{staging.RELEASES}\n\n## 0.0.2 (2026-12-24)\n{section}## 0.0.1\n"
    )
    assert sorted(one.name for one in (tmp_path / "changelog.d").iterdir()) == ["README.md", "template.jinja"]


def test_a_fragment_of_an_unknown_type_is_an_error(tmp_path: Path) -> None:
    fragments(tmp_path, a__news="Something.\n")
    with pytest.raises(staging.DocumentsError, match=r"Invalid news fragment name: a\.news\.md"):
        staging.with_fragments(tmp_path, (tmp_path / "CHANGELOG.md").read_text())


def test_fragments_of_this_checkout_have_the_form(tmp_path: Path) -> None:
    """Links start with ``../``, which the template removes; towncrier adds the list mark."""
    staging.with_fragments(ROOT, (ROOT / "CHANGELOG.md").read_text())
    for file in ROOT.glob("changelog.d/*.*.md"):
        text = file.read_text()
        assert not re.match(r"[-*] ", text), file
        targets = re.findall(r"\]\(([^)\s]+)\)", text)
        assert [one for one in targets if not one.startswith("../") and "://" not in one] == [], file
