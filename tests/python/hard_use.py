"""Robustness cases in numbers beyond those of ordinary tests, drawn by a seed: ``scripts/hard-use``.

A part is a kind of hard use and a case one draw of it. A file records passed cases, so the same command resumes after
an interruption and repeats only failures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import connection_floods
import dtn_floods
import dtn_kills
import lab_kills
import parallel_labs
import realtime
import store_damage

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Came:
    """Result of a case."""

    wrong: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How many of each sort it was of; a part's are added up."""


Case = Callable[[int], str | Came]
"""Runs the case of a seed; returns its fault, or an empty text, and its kinds."""


@dataclass(frozen=True)
class Part:
    """A kind of hard use."""

    name: str
    what: str
    cases: int
    short: int
    """Cases of the short form."""
    at_once: int
    """Cases side by side."""
    open: Callable[[bool], AbstractContextManager[Case]]
    """Opens the environment of the cases; the argument selects the short form."""
    root: bool = False
    """The cases need root, to create separate machines."""


# --- the parts ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kills(_: bool) -> Iterator[Case]:
    """Every third one as an ordinary user."""
    program = realtime.program()

    def case(seed: int) -> Came:
        user = "nobody" if seed % 3 == 0 else "root"
        found = lab_kills.trial(
            lab_kills.draw(seed, ("shell", "emu", "shell", "emu", "browse"), user), program
        )
        return Came(found.wrong, found.counts())

    yield case


@contextlib.contextmanager
def labs(_: bool) -> Iterator[Case]:
    """Eight at once, again and again; every third time of an ordinary user's."""
    program = realtime.program()

    def case(seed: int) -> str:
        with tempfile.TemporaryDirectory(prefix="bp-labs-") as place:
            user = "nobody" if seed % 3 == 0 else "root"
            return "; ".join(parallel_labs.shells(8, program, Path(place), user=user))

    yield case


@contextlib.contextmanager
def scenarios(_: bool) -> Iterator[Case]:
    """A case is so many mutated scenarios, through ``check`` and short runs, in a process that may end as it likes."""

    def case(seed: int) -> Came:
        words = [
            sys.executable,
            str(ROOT / "tests/python/mutations.py"),
            str(MUTATIONS),
            str(seed * MUTATIONS),
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            return Came(f"ended with {done.returncode}: {done.stdout[-4000:]}{done.stderr[-500:]}")
        return Came(counts=json.loads(done.stdout))

    yield case


MUTATIONS = 50
"""Scenarios of a case."""


@contextlib.contextmanager
def flips(_: bool) -> Iterator[Case]:
    """Bits of the files of a store."""
    with tempfile.TemporaryDirectory(prefix="bentpipe-flips-") as folder:
        scenario = Path(folder) / "small.toml"
        scenario.write_text(SMALL, encoding="utf-8")
        store = Path(folder) / "store"
        words = [sys.executable, "-m", "bentpipe", "run", str(scenario), "--out", str(store), "--json"]
        subprocess.run(words, check=True, capture_output=True, cwd=ROOT / "python")
        whole = store_damage.values(store)

        def case(seed: int) -> str:
            (flip,) = store_damage.flips(store, seed, 1)
            found = store_damage.judge(store, flip, whole)
            return "" if found in ("identical", "named") else found

        yield case


SMALL = """
duration = "2 s"
seeds = 2
[[path.segment]]
name = "satellite"
delay = "40 ms"
both = { rate = "2 Mbit/s", loss = "1 %" }
[[flow]]
name = "bulk"
congestion = "cubic"
load = { bytes = "100 kB" }
[sweep]
"flow.bulk.congestion" = ["cubic", "bbr"]
"""


@contextlib.contextmanager
def connections(short: bool) -> Iterator[Case]:
    """A case is one kind of live server."""
    with connection_floods.Masses() as found:

        def case(seed: int) -> Came:
            kind = connection_floods.KINDS[seed % len(connection_floods.KINDS)]
            count = 4_000 if short else 100_000
            return Came(found.short_connections(kind, count), {kind: count})

        yield case


@contextlib.contextmanager
def stores(_: bool) -> Iterator[Case]:
    """A bundle node with a store is killed under load, once or twice."""
    program = realtime.program()
    yield lambda seed: dtn_kills.trial(program, dtn_kills.draw(seed))


@contextlib.contextmanager
def nodes(short: bool) -> Iterator[Case]:
    """A bundle node is flooded beside a neighbour; in the short form a case is every flood, each beside another layer."""
    program = realtime.program()

    def case(seed: int) -> str:
        if not short:
            return dtn_floods.trial(program, dtn_floods.draw(seed, short=False), seed)
        count = len(dtn_floods.FLOODS)
        # Neighbours' layers change from one flood to the next, so that each of both is there.
        drawn = [
            dtn_floods.draw(number + count * ((seed + number) % len(dtn_floods.LAYERS)), short=True)
            for number in range(count)
        ]
        return "; ".join(filter(None, (dtn_floods.trial(program, one, seed) for one in drawn)))

    yield case


PARTS = (
    Part("kills", "kills over processes, stages and users: nothing is left", 500, 4, 4, kills, root=True),
    Part("labs", "rounds of eight labs at once: none fails to set up", 50, 1, 1, labs, root=True),
    Part("scenarios", f"{MUTATIONS} mutated scenarios each: what check passes, runs", 200, 2, 2, scenarios),
    Part("flips", "flipped bits of a store: the same values, or a name", 3000, 60, 1, flips),
    Part("connections", "100,000 short connections to a live server: its memory stays", len(connection_floods.KINDS),
         len(connection_floods.KINDS), 1, connections),
    Part("nodes", "floods of a bundle node by strangers and liars: its neighbour's bundles arrive, its memory stays", 140,
         1, 1, nodes),
    Part("stores", "kills of bundle nodes that store on disk: what was promised arrives once", 100, 1, 2, stores),
)  # fmt: skip


# --- carrying them out ----------------------------------------------------------------------------------------


@dataclass
class Tally:
    """Result of a part."""

    passed: int = 0
    saved: int = 0
    """Cases among them that passed in an earlier session."""
    failed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """Kinds of all passed cases."""
    seconds: float = 0.0


def carry(part: Part, *, seed: int, short: bool, out: Path) -> Tally:
    """Carries out the cases of a part that have not passed yet; each is written down as it ends."""
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{part.name}{'.short' if short else ''}.jsonl"
    count = part.short if short else part.cases
    done = _passed(file, seed)
    wanted = [seed * 1_000_000 + number for number in range(count)]
    saved = [done[one] for one in wanted if one in done]
    tally = Tally(passed=len(saved), saved=len(saved), counts=sum(saved, Counter()))
    todo = [one for one in wanted if one not in done]
    began = time.monotonic()
    if todo:
        with (
            part.open(short) as case,
            file.open("a", encoding="utf-8") as record,
            ThreadPoolExecutor(part.at_once) as pool,
        ):
            record.write("" if _ends_whole(file) else "\n")
            started = {pool.submit(_timed, case, one): one for one in todo}
            try:
                for ended in as_completed(started):
                    came, seconds = ended.result()
                    wrong = came.wrong
                    line = {"case": started[ended], "wrong": wrong, "seconds": round(seconds, 2)}
                    line |= {"counts": came.counts} if came.counts else {}
                    record.write(json.dumps(line) + "\n")
                    record.flush()
                    tally.passed += not wrong
                    tally.failed += bool(wrong)
                    tally.counts.update({} if wrong else came.counts)
                    if wrong:
                        print(f"{part.name} {line['case']}: {wrong}", file=sys.stderr, flush=True)
                    _tell(part, tally, len(wanted), time.monotonic() - began)
            except KeyboardInterrupt:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    tally.seconds = time.monotonic() - began
    return tally


def _timed(case: Case, seed: int) -> tuple[Came, float]:
    began = time.monotonic()
    try:
        came = case(seed)
    except Exception as error:  # noqa: BLE001 - whatever a case raises is its finding
        came = f"{type(error).__name__}: {error}"
    return came if isinstance(came, Came) else Came(came), time.monotonic() - began


def _passed(file: Path, seed: int) -> dict[int, Counter[str]]:
    """Cases of ``seed`` that have passed, with their counts; a line cut off by a kill counts for nothing."""
    found: dict[int, Counter[str]] = {}
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    for text in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = json.loads(text)
            if line["case"] // 1_000_000 == seed:
                found.pop(line["case"], None)
                if not line["wrong"]:
                    found[line["case"]] = Counter(line.get("counts", {}))
    return found


def _ends_whole(file: Path) -> bool:
    """Return whether the last line of the record is complete: a kill can truncate it."""
    data = file.read_bytes() if file.exists() else b""
    return not data or data.endswith(b"\n")


def _tell(part: Part, tally: Tally, count: int, seconds: float) -> None:
    if sys.stderr.isatty():
        text = (
            f"{part.name}: {tally.passed + tally.failed} of {count}, {tally.failed} failed, {seconds:.0f} s"
        )
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Exit status: 0 nothing found, 1 something, 130 interrupted."""
    parser = argparse.ArgumentParser(
        prog="scripts/hard-use", description=__doc__.split("\n\n")[0],
        epilog="\n".join(f"{part.name:12} {part.cases:>6,}  {part.what}" for part in PARTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    names = [part.name for part in PARTS]
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--short", action="store_true", help="two minutes of everything")
    parser.add_argument("--seed", type=int, default=1, help="draws other cases (1)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "out/hard-use", help="what has passed is kept here"
    )
    asked = parser.parse_args(words)
    if unknown := set(asked.parts) - set(names):
        parser.error(f"no part {min(unknown)!r}, expected one of: {', '.join(names)}")
    chosen = [part for part in PARTS if not asked.parts or part.name in asked.parts]
    if os.geteuid() != 0 and (closed := [part.name for part in chosen if part.root]):
        parser.error(
            f"{' and '.join(closed)} need root; without it: {', '.join(part.name for part in PARTS if not part.root)}"
        )
    failed = 0
    for part in chosen:
        try:
            tally = carry(part, seed=asked.seed, short=asked.short, out=asked.out)
        except KeyboardInterrupt:
            print(f"\ninterrupted in {part.name}; the same command goes on from here", file=sys.stderr)
            return 130
        failed += tally.failed
        saved = f" ({tally.saved:,} before)" if tally.saved else ""
        end = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(end, end="", file=sys.stderr)
        print(
            f"{part.name:12} {tally.passed:>6,} passed{saved}, {tally.failed} failed, {tally.seconds:.0f} s",
            flush=True,
        )
        if tally.counts:
            print(
                " " * 13 + ", ".join(f"{what} {count:,}" for what, count in sorted(tally.counts.items())),
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
