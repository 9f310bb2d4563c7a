"""Files, stores and servers of a reader's own, which commands of the documents name and no page provides."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import commands
import documented_commands
import synthetic_dish

__all__ = ["OWN", "list_needed", "provide"]

ROOT = Path(__file__).resolve().parents[2]

DOWNLOAD = """title = "A download over a satellite"
duration = "5 s"

[[path.segment]]
name = "satellite"
delay = "40 ms"
down = { rate = "20 Mbit/s", queue = "1 BDP" }
up = { rate = "5 Mbit/s", queue = "1 BDP" }

[[flow]]
name = "download"
direction = "down"
congestion = "cubic"
load = { time = "4 s" }
"""
"""A scenario of two processor seconds at most in each command."""

CLIENT = """#!/bin/sh
authority=${1#*://}
case $1 in
https:*) exec bentpipe perf client "${authority%%:*}" --bytes BYTES --direction down ;;
http:*) exec curl -sS -o /dev/null "${1}FILE" ;;
*) exec curl -sS -o /dev/null "http://$1:8000/FILE" ;;
esac
"""
"""A program that downloads over QUIC (`https:`, by bentpipe's own) or over HTTP."""

OLD_CLIENT = CLIENT.replace("BYTES", "1MB").replace("FILE", "200kB")
NEW_CLIENT = CLIENT.replace("BYTES", "100kB").replace("FILE", "")
"""The new build is quicker, so that a comparison has a verdict, which is no regression."""

QUIC_SERVER = """#!/bin/sh
exec bentpipe perf server --listen "0.0.0.0:$2"
"""


def _shown(page: str, name: str) -> str:
    """Return a file that a page shows."""
    found = (step for step in documented_commands.collect(page) if isinstance(step, documented_commands.File))
    return next(file.text for file in found if file.name == name)


def _text(text: Callable[[], str]) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_text(text(), encoding="utf-8")

    return write


def _program(text: str) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        file.write_text(text, encoding="utf-8")
        file.chmod(file.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)

    return write


def _geo() -> str:
    """Return scenarios/geo.toml with short runs and fewer cells."""
    text = (ROOT / "scenarios/geo.toml").read_text(encoding="utf-8")
    text = text.replace('"60 s"', '"4 s"').replace("seeds = 5", "seeds = 2")
    text = re.sub(r'(?m)^("flow.bulk.congestion" = ).*$', r'\1["cubic", "hybla"]', text)
    return re.sub(r'(?m)^("path.satellite.up.loss" = ).*$', r'\1["0 %", "1 %"]', text)


def _lossy_download() -> str:
    """Return a scenario whose results depend on the loss of the downlink."""
    text = DOWNLOAD.replace('"5 s"', '"20 s"').replace('"4 s"', '"20 s"').replace('"40 ms"', '"250 ms"')
    text = text.replace('queue = "1 BDP" }\nup', 'queue = "1 BDP", loss = "0.1 %" }\nup')
    return f'{text}\n[sweep]\n"flow.download.congestion" = ["cubic", "hybla"]\n'


def _iperf3(*, reverse: bool) -> str:
    """Return a log of `iperf3 --json`, of the time of the pings."""
    intervals = [
        {"sum": {"start": at, "end": at + 1, "bits_per_second": 9e7 + 1e6 * (at // 15 % 5), "omitted": False}}
        for at in range(150)
    ]
    start = {"timestamp": {"timesecs": 1_767_225_603}, "test_start": {"reverse": int(reverse)}}
    return json.dumps({"start": start, "intervals": intervals})


def _replayed_delays() -> str:
    """Return one-way delays each 10 ms, of a path that changes every 15 s."""
    at = range(15_000)
    return "".join(f"{20 + 7 * (place // 1500 * 5 % 7) + place % 13 / 10:.2f}\n" for place in at)


def _replayed_rates() -> str:
    """Return the instants of packets, ms, as `mm-link` takes them."""
    return "".join(f"{at}\n" for at in range(150_000) if at // 15_000 % 2 or at % 2)


def _har() -> str:
    return _shown("docs/how-to/my-site.md", "site.har")


def _mars_plan() -> str:
    """Return the contact plan of scenarios/mars.toml as a file."""
    text = (ROOT / "scenarios/mars.toml").read_text(encoding="utf-8")
    return text.partition("[dtn]\n")[2].partition("[sweep]")[0]


def _store(*words: str) -> Callable[[Path], None]:
    """Run a scenario into the place of the store."""

    def run(place: Path) -> None:
        folder = place.parent.parent
        done = commands.bentpipe(folder, "run", *words, "--out", str(place.relative_to(folder)))
        assert done.returncode == 0, done.stderr

    return run


def _own_geo(place: Path) -> None:
    (place.parent / "stand-in-geo.toml").write_text(_geo(), encoding="utf-8")
    _store("out/stand-in-geo.toml")(place)


def _closer(place: Path) -> None:
    (place.parent / "stand-in-geo.toml").write_text(_geo(), encoding="utf-8")
    _store("out/stand-in-geo.toml", "--set", "path.satellite.delay=150 ms")(place)


def _validation(place: Path) -> None:
    """Unpack a store of the validation page, as the page of compare-engines does."""
    with tarfile.open(ROOT / "docs/validation.tar.xz") as archive:
        archive.extractall(place.parent, filter="data")


def _traced(place: Path) -> None:
    (place.parent / "stand-in-traced.toml").write_text(DOWNLOAD, encoding="utf-8")
    _store("out/stand-in-traced.toml", "--set", "duration=1 s", "--set", "trace.packet_steps=true")(place)


SHORT = ("--seeds", "1", "--set", "duration=4 s")

OWN: Mapping[str, Callable[[Path], None]] = {
    "geo.toml": _text(_geo),
    "my.toml": _text(lambda: DOWNLOAD),
    "scenario.toml": _text(lambda: DOWNLOAD),
    "mine.toml": _text(lambda: _shown("docs/how-to/link-layer.md", "leo.toml")),
    "leo.toml": _text(lambda: _shown("docs/how-to/link-layer.md", "leo.toml")),
    "one.toml": _text(lambda: _shown("docs/how-to/bundle-node.md", "one.toml")),
    "two.toml": _text(lambda: _shown("docs/how-to/bundle-node.md", "two.toml")),
    "right.toml": _text(_mars_plan),
    "cc.py": _text(lambda: _shown("docs/how-to/quic-in-ci.md", "cc.py")),
    "old/cc.py": _text(lambda: _shown("docs/how-to/controllers.md", "cc.py")),
    "new/cc.py": _text(lambda: _shown("docs/how-to/controllers.md", "cc.py")),
    "scheduler.py": _text(lambda: _shown("docs/how-to/schedulers.md", "scheduler.py")),
    "fitted.toml": _text(lambda: commands.bentpipe(ROOT, "presets", "show", "starlink").stdout),
    "relay.ionrc": _text((ROOT / "examples/relay.ionrc").read_text),
    "plan.ionrc": _text((ROOT / "examples/relay.ionrc").read_text),
    "image.bin": _text(lambda: "one pixel\n" * 40_000),
    "page.har": _text(_har),
    "pings.txt": _text(lambda: synthetic_dish.pings(1, 150, step_s=0.1)),
    "down.json": _text(lambda: _iperf3(reverse=True)),
    "up.json": _text(lambda: _iperf3(reverse=False)),
    "delay_1.txt": _text(_replayed_delays),
    "bw_1.txt": _text(_replayed_rates),
    "out/my.site-geo-konnect/load.har": _text(_har),
    "client": _program(NEW_CLIENT),
    "old/client": _program(OLD_CLIENT),
    "new/client": _program(NEW_CLIENT),
    "build/client": _program(NEW_CLIENT),
    "build/server": _program(QUIC_SERVER),
    "out/geo": _own_geo,
    "out/closer": _closer,
    "out/large": _own_geo,
    "out/before": _own_geo,
    "out/after": _own_geo,
    "out/traced": _traced,
    "out/agreement/users-emu": _validation,
    "out/calls": _store(str(ROOT / "scenarios/calls.toml"), *SHORT),
    "out/terminals": _store(str(ROOT / "scenarios/terminals.toml"), *SHORT),
    "out/mars": _store(str(ROOT / "scenarios/mars.toml")),
}
"""How to make each. Stores are of scaled copies of the scenarios."""


OWN_OF_PAGE: Mapping[tuple[str, str], Callable[[Path], None]] = {
    ("README.md", "cc.py"): _text(lambda: _shown("docs/how-to/suite.md", "cc.py")),
    ("bentpipe help check-controller", "cc.py"): OWN["old/cc.py"],
    ("bentpipe help compare-builds", "cc.py"): _text(
        lambda: (
            _shown("docs/how-to/quic-in-ci.md", "cc.py").replace("beta = 0.5", "")
            + "    other = 0  # an equal build, so that the exit status is 0\n"
        )
    ),
    ("docs/how-to/ci.md", "geo.toml"): _text(lambda: _shown("docs/how-to/quic-in-ci.md", "geo.toml")),
    ("bentpipe help compare-builds", "geo.toml"): _text(
        lambda: _shown("docs/how-to/quic-in-ci.md", "geo.toml")
    ),
    ("docs/how-to/diff.md", "geo.toml"): _text(_lossy_download),
}
"""Those that a page has otherwise than the other pages."""


def provide(name: str, page: str, folder: Path, saved: Path) -> None:
    """Create a reader's file or store in ``folder``; ``saved`` keeps each for the next page."""
    special = OWN_OF_PAGE.get((page, name))
    made = (saved / re.sub(r"\W", "-", page) if special else saved) / name
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        (special or OWN[name])(made)
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if made.is_dir():
        shutil.copytree(made, target)
    else:
        shutil.copy(made, target)


def list_needed(command: str, folder: Path) -> list[str]:
    """Return the names in ``command`` that are read, not written, and are not in ``folder``."""
    read = re.sub(r"(?:--out|-o|>)[ =]\S+", "", command)
    read = re.sub(r"^(bentpipe new) \S+", r"\1", read)
    written = {f"out/{name}" for name in re.findall(r"bentpipe run (?:\S*/)?([\w-]+)\.toml", read)}
    return [
        name
        for name in OWN
        if name not in written
        and re.search(rf"(?<![\w./-])(?:\./)?{re.escape(name)}(?![\w/-]|\.\w)", read)
        and not os.path.lexists(folder / name)
    ]
