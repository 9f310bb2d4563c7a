"""The gallery: every scenario of `scenarios`, with what its head says and a picture of its own runs.

Runs are kept beside the site, under a name that changes with the scenario, its options and the engine, and so is the
picture: the second build draws nothing.
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

Scenarios that come along, each with a picture of its runs, made when these pages were made. `bentpipe examples NAME`
copies one; `bentpipe run NAME.toml` and `bentpipe report out/NAME` make its page, with every figure.

"""


@dataclass(frozen=True, slots=True)
class Shown:
    """What of a scenario is shown."""

    figure: str
    seeds: int | None = None
    """As many as the scenario says; fewer where it would take more than half a minute on two processors."""


SHOWN = {
    "geo": Shown("goodput-by-parameter"),
    "leo": Shown("goodput-shares"),
    "starlink": Shown("goodput"),
    "constellation": Shown("propagation-delay"),
    "page-geo": Shown("page-load-time"),
    "split-tcp": Shown("cwnd"),
    "calls": Shown("call-mos"),
    "terminals": Shown("user-goodput"),
    "mobile-harq": Shown("goodput-by-parameter", seeds=1),
    "rlc-or-harq": Shown("goodput-by-parameter", seeds=1),
    "mars": Shown("bundles"),
}
"""In the order of the page."""


def make(root: Path, pages: Path, kept: Path) -> None:
    """Writes the page and its pictures; runs what was not run before. Raises DocumentsError."""
    there = {file.stem for file in (root / "scenarios").glob("*.toml")}
    if there != SHOWN.keys():
        raise DocumentsError(
            f"gallery: SHOWN and scenarios/*.toml differ by {', '.join(sorted(there ^ SHOWN.keys()))}"
        )
    bentpipe = root / ".venv/bin/bentpipe"
    engine = _said([bentpipe, "--version"])
    parts, used = [HEAD], set()
    for name, shown in SHOWN.items():
        file = root / f"scenarios/{name}.toml"
        text = file.read_text(encoding="utf-8")
        key = hashlib.sha256(f"{engine}\n{shown}\n{text}".encode()).hexdigest()[:16]
        picture = kept / f"{name}-{key}.svg"
        used.add(picture)
        if not picture.exists():
            print(f"gallery: {file.relative_to(root)}", file=sys.stderr)
            _draw(bentpipe, file, shown, kept / f"{name}-{key}", picture)
        target = pages / f"docs/gallery/{name}.svg"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
        parts.append(section(name, text, shown))
    (pages / "docs/gallery.md").write_text("\n".join(parts), encoding="utf-8")
    for old in set(kept.iterdir()) - used:  # of scenarios and engines that were
        shutil.rmtree(old) if old.is_dir() else old.unlink()


def section(name: str, text: str, shown: Shown) -> str:
    """A scenario on the page."""
    title = tomllib.loads(text)["title"]
    seeds = f" Here with seed {shown.seeds} alone." if shown.seeds == 1 else ""
    return (
        f"## {title}\n\n{words(text)}{seeds}\n\n[![{title}](gallery/{name}.svg)](gallery/{name}.svg)\n\n"
        f"[`scenarios/{name}.toml`](../scenarios/{name}.toml.md)\n"
    )


def words(text: str) -> str:
    """What a scenario's head says of it: its comment until an empty line of it, or its commands."""
    lines = []
    for line in text.splitlines():
        said = line.removeprefix("#")
        if not line.startswith("#") or not said.strip() or re.match(r" +(bentpipe|python) ", said):
            break
        lines.append(said.strip())
    return " ".join(lines)


def _draw(bentpipe: Path, file: Path, shown: Shown, store: Path, picture: Path) -> None:
    """Runs a scenario into ``store`` and draws its figure."""
    seeds = ["--seeds", str(shown.seeds)] if shown.seeds else []
    _said([bentpipe, "run", file, "--out", store, *seeds])
    drawn = store.with_suffix(".figures")
    _said(
        [
            bentpipe,
            "report",
            store,
            "-o",
            drawn / "report.html",
            "--figures",
            drawn,
            "--figure",
            shown.figure,
            "--format",
            "svg",
        ]
    )
    (found,) = drawn.glob("*.svg")
    found.replace(picture)
    shutil.rmtree(drawn)
    shutil.rmtree(store)


def _said(words: list[str | Path]) -> str:
    """What a command prints; raises DocumentsError with what it said where it fails."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise DocumentsError(f"gallery: {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout
