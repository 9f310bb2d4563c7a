"""Damage of stores, drawn by a seed: flipped bits, lost files, a killed command.

Functions for tests and for longer trials; each returns the result, and none judges time.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bentpipe.store.codec import TABLES
from bentpipe.store.files import MissingTableError, StoreError
from bentpipe.store.reader import Store, open_store

OUTSIDE = ("journal.jsonl",)
"""Files outside the promise of equal bytes."""


@dataclass(frozen=True)
class Flip:
    """One bit of one file of a store."""

    file: Path
    """In the store."""
    byte: int
    bit: int


def flips(store: Path, seed: int, count: int) -> Iterator[Flip]:
    """``count`` bits of a store's files. Each file is as likely as the next: the small ones matter as much."""
    chance = random.Random(seed)  # noqa: S311 - a draw that can be made again
    files = sorted(
        file.relative_to(store) for file in store.rglob("*") if file.is_file() and file.stat().st_size
    )
    for _ in range(count):
        file = chance.choice(files)
        yield Flip(file, chance.randrange((store / file).stat().st_size), chance.randrange(8))


@contextlib.contextmanager
def flipped(store: Path, flip: Flip) -> Iterator[None]:
    """The store with that bit the other way round; afterwards as it was."""
    file = store / flip.file
    data = file.read_bytes()
    wrong = bytearray(data)
    wrong[flip.byte] ^= 1 << flip.bit
    file.write_bytes(wrong)
    try:
        yield
    finally:
        file.write_bytes(data)


def values(store: Path) -> dict[str, str]:
    """A hash of all that readers see of a store: title, scenario, runs, every table in three ways, traces.

    Raises:
        StoreError: something is damaged.
    """
    opened = Store(store)
    found = {
        "head": repr((opened.title, opened.engine, opened.settings, opened.planned)),
        "scenario": opened.scenario,
    }
    reading = open_store(store)
    answers = opened.connect()
    for name in ("runs", *TABLES):
        try:
            found[name] = str(opened.table(name).to_dicts())
        except MissingTableError:
            continue
        answer = answers.execute(f"FROM {name}").fetchall()
        found[f"{name} by DuckDB"] = repr(sorted(map(repr, answer)))
        if name != "runs":
            found[f"{name} by column"] = str(reading.rows(name).to_dicts())
    for file in opened.files("log"):
        found[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return {key: hashlib.sha256(value.encode()).hexdigest() for key, value in found.items()}


def judge(store: Path, flip: Flip, whole: Mapping[str, str]) -> str:
    """Result of a flipped bit: ``identical``, ``named``, or the fault of the answer."""
    with flipped(store, flip):
        try:
            found = values(store)
        except StoreError as error:
            # The name is that of the file, or of the list that has its checksum.
            run = flip.file.parts[1] if flip.file.parts[0] in ("runs", "packs") else flip.file.name
            return "named" if run in str(error) else f"{flip}: another file is named: {error}"
        except Exception as error:  # noqa: BLE001 - any other exception is the finding
            return f"{flip}: {type(error).__name__}: {error}"
    if found == whole:
        return "identical"
    return f"{flip}: other values without a word in {', '.join(key for key in whole if found.get(key) != whole[key])}"


def contents(store: Path) -> dict[str, bytes]:
    """Every file that is inside the promise of equal bytes."""
    return {
        str(file.relative_to(store)): file.read_bytes()
        for file in sorted(store.rglob("*"))
        if file.is_file() and file.name not in OUTSIDE
    }


def kill_and_resume(command: Sequence[str], folder: Path, after_s: float) -> tuple[bool, int]:
    """Starts ``command`` in ``folder``, kills it (SIGKILL) after ``after_s`` seconds, and lets it end a second time.

    Returns:
        Whether the kill came before its end, and the exit status of the second time.
    """
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        try:
            first.wait(after_s)
        except subprocess.TimeoutExpired:
            first.send_signal(signal.SIGKILL)
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=600)
    return first.returncode == -signal.SIGKILL, done.returncode


LOSSES = ("table", "run", "sums", "spec", "plan", "scenario", "both", "second run")


def lose(store: Path, what: str, seed: int) -> None:
    """Takes something away from a store, as a careless hand or a disk would: one of :data:`LOSSES`."""
    chance = random.Random(seed)  # noqa: S311
    run = chance.choice(sorted((store / "runs").iterdir()))
    if what == "table":
        chance.choice(sorted(run.glob("*.parquet"))).unlink()
    elif what in ("run", "second run"):  # what was in it: an empty directory stays, or a file
        shutil.rmtree(run)
        run.mkdir() if what == "run" else run.touch()
    elif what in ("sums", "spec"):
        (run / {"sums": "SHA256SUMS", "spec": "spec.json"}[what]).unlink()
    if what in ("plan", "both"):
        (store / "plan.json").unlink()
    if what in ("scenario", "both"):
        (store / "scenario.toml").unlink()
