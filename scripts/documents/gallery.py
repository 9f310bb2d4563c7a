"""The gallery: every scenario of `scenarios` with its description and a picture of its runs.

Pictures are cached beside the site. Their names have a hash of scenario, options and engine, so a second build draws
nothing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from documents.staging import DocumentsError

HEAD = """# Gallery

These are the example scenarios, each with a picture of its runs. `bentpipe examples NAME` copies one.
`bentpipe run NAME.toml` and `bentpipe report out/NAME` write its report with all figures.

"""


@dataclass(frozen=True, slots=True)
class Entry:
    """Figure and seeds of a scenario in the gallery."""

    figure: str
    seeds: int | None = None
    """``None`` takes those of the scenario. A smaller number keeps the run below half a minute on two processors."""


ENTRIES = {
    "geo": Entry("goodput-by-parameter"),
    "leo": Entry("goodput-shares"),
    "starlink": Entry("goodput"),
    "constellation": Entry("propagation-delay"),
    "page-geo": Entry("page-load-time"),
    "split-tcp": Entry("cwnd"),
    "calls": Entry("call-mos"),
    "terminals": Entry("user-goodput"),
    "mobile-harq": Entry("goodput-by-parameter", seeds=1),
    "rlc-or-harq": Entry("goodput-by-parameter", seeds=1),
    "mars": Entry("bundles"),
}
"""The scenarios in the order of the page."""


def write(root: Path, pages: Path, cache: Path) -> None:
    """Write the page and its pictures; run scenarios that have no cached picture. Raises DocumentsError."""
    files = {file.stem for file in (root / "scenarios").glob("*.toml")}
    if files != ENTRIES.keys():
        raise DocumentsError(
            f"gallery: ENTRIES and scenarios/*.toml differ by {', '.join(sorted(files ^ ENTRIES.keys()))}"
        )
    bentpipe = root / ".venv/bin/bentpipe"
    engine = _run([bentpipe, "--version"])
    parts, used = [HEAD], set()
    for name, entry in ENTRIES.items():
        file = root / f"scenarios/{name}.toml"
        text = file.read_text(encoding="utf-8")
        key = hashlib.sha256(f"{engine}\n{entry}\n{text}".encode()).hexdigest()[:16]
        picture = cache / f"{name}-{key}.svg"
        used.add(picture)
        if not picture.exists():
            print(f"gallery: {file.relative_to(root)}", file=sys.stderr)
            _draw(bentpipe, file, entry, cache / f"{name}-{key}", picture)
        target = pages / f"docs/gallery/{name}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
        parts.append(section(name, text, entry))
    (pages / "docs/gallery.md").write_text("\n".join(parts), encoding="utf-8")
    for old in set(cache.iterdir()) - used:  # pictures of earlier scenarios and engines
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def section(name: str, text: str, entry: Entry) -> str:
    """Return the section of a scenario."""
    title = tomllib.loads(text)["title"]
    seeds = f" The picture has seed {entry.seeds} only." if entry.seeds == 1 else ""
    return (
        f"## {title}\n\n{description(text)}{seeds}\n\n[![{title}](gallery/{name}.svg)](gallery/{name}.svg)\n\n"
        f"[`scenarios/{name}.toml`](../scenarios/{name}.toml.md)\n"
    )


def description(text: str) -> str:
    """Return the first comment of a scenario up to an empty line or a command."""
    lines = []
    for line in text.splitlines():
        comment = line.removeprefix("#")
        if not line.startswith("#") or not comment.strip() or re.match(r" +(bentpipe|python) ", comment):
            break
        lines.append(comment.strip())
    return " ".join(lines)


def _draw(bentpipe: Path, file: Path, entry: Entry, store: Path, picture: Path) -> None:
    """Run a scenario into ``store`` and draw its figure."""
    seeds = ["--seeds", str(entry.seeds)] if entry.seeds else []
    _run([bentpipe, "run", file, "--out", store, *seeds])
    drawn = store.with_suffix(".figures")
    _run(
        [
            bentpipe,
            "report",
            store,
            "-o",
            drawn / "report.html",
            "--figures",
            drawn,
            "--figure",
            entry.figure,
            "--format",
            "svg",
        ]
    )
    (found,) = drawn.glob("*.svg")
    found.replace(picture)
    shutil.rmtree(drawn)
    shutil.rmtree(store)


def _run(command: list[str | Path]) -> str:
    """Return the output of a command; raise DocumentsError with its error output if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DocumentsError(f"gallery: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout
