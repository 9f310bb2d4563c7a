"""Collects the commands of the documents and of the help, and puts each in one class.

A command is
- a line of a fenced block `sh`, without its comment and with its continuation lines;
- a line `$ COMMAND` of a block `console`, with the exit status that the block states;
- a line of a step `run` in a block `yaml` of a continuous integration;
- inline code `bentpipe ...` with an argument that is no option, without a word in CAPITALS outside the tables of the README;
- an example of a command's help.

A block with `title=NAME` is a file of the page.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from bentpipe.cli.command_examples import EXAMPLES

__all__ = [
    "CLASSES", "FOLLOWED", "HELP", "NOT_RUN", "PLACEHOLDERS", "SHORTER", "Command", "File", "classify", "collect",
    "command_words", "job_commands", "list_commands", "list_pages", "split_parts",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[2]
HELP = "bentpipe help "
"""Names of the pages of the help begin with this; the name of a command follows."""

CLASSES = ("followed", "fast", "nightly", "lab", "not run")
"""Classes of commands: outputs are compared by test_tutorial.follow; `make test`; `make test-all`; there in real time; none."""

FOLLOWED = (
    "docs/tutorial.md",
    *(
        f"docs/how-to/{name}.md"
        for name in (
            "keep-my-pep",
            "contact-plans",
            "bundle-scenarios",
            "my-site",
            "quic-in-ci",
            "which-controller",
        )
    ),
)
"""Pages whose `console` blocks test_tutorial and test_questions follow."""

TABLES = ("README.md", "docs/README.md")
"""Pages whose tables answer questions by commands."""

FAST = (
    "--version", "calls", "check", "diff", "doctor", "dtn bound", "dtn keygen", "dtn plan", "dtn route", "dtn schema",
    "dtn show", "examples", "export", "help", "import-har", "new", "pack", "presets", "presets export", "presets schema",
    "presets show", "query", "schema", "show", "users", "verify",
)  # fmt: skip
NIGHTLY = (
    "break-even", "capacity", "check-controller", "check-scheduler", "compare-builds", "dtn gap", "dtn passes", "fit",
    "link-layer", "orbit", "report", "run", "study", "suite",
)  # fmt: skip
LAB = (
    "browse", "change", "compare-engines", "dtn node", "dtn perf", "perf call-client", "perf call-server",
    "perf client", "perf server", "serve", "shell", "time", "watch",
)  # fmt: skip
PROGRAMS = {
    "python": "nightly",
    "python -m benchmarks": "lab",
    "mkdir": "fast",
    "curl": "lab",
    "python3 -m http.server": "lab",
    "tar": "fast",
    "echo": "fast",
    "chmod": "fast",
    "openssl": "fast",
}
"""Classes of other programs."""

NOT_RUN: Mapping[str, str] = {
    "make *": "builds; scripts/test and the tests of the build run these targets",
    ". .venv/bin/activate": "test_newcomer runs it in a clean shell",
    "rustup *": "installs a toolchain",
    "python3 -m venv *": "installs packages; test_wheel does so",
    "*pip install *": "installs packages; test_wheel installs a wheel",
    "*https://...*": "the reader's own address on the Internet",
    "*iperf3 -c *": "iperf3 is not among the packages of the tests",
    "bentpipe browse https://*": "a site on the Internet; http://localhost:8000/ stands for it on these pages",
    "bentpipe browse target-a --remote *": "four hours over a real access; test_browse_real has a short form on this machine",
    "bentpipe compare-engines studies/agreement --jobs *": "hours in real time; its scenarios run one at a time on other pages",
    "bentpipe compare-engines studies/agreement --summary *": "hours in real time; its scenarios run one at a time on other pages",
    "bentpipe study thomas-2019 --engine emu*": "an hour in real time; test_browse_real loads such pages",
    "bentpipe study tauran-2018 --part chapter-6": "an hour; test_study_tauran_users runs a short form",
    "bentpipe study tauran-2018 --part nearest-6": "an hour; test_study_tauran_users runs a short form",
    "bentpipe study tauran-2018 --full*": "three processor hours; test_study_tauran_users checks its tables",
    "bentpipe query out/tauran-2018/*-full *": "the stores of the three hours; test_study_tauran_users runs the queries",
    "podman run *": "a container; `make container-test` runs the image",
    "git clone *": "fetches another project",
    "cmake *": "compiles another project that is not here",
    "PICOQUIC_SIM=*": "compiles another project that is not here",
    "bentpipe new mine.toml": "asks for numbers in a terminal; test_new answers",
}
"""Patterns of commands that no test runs, with the reason."""

SHORTER: Mapping[str, str] = {
    "bentpipe break-even --down 50Mbit/s --up 6Mbit/s --rtt 620ms --loss 1%": '--sizes "100 kB" --rtts "620 ms"',
    "bentpipe browse scenarios/page-geo.toml --sessions 10": "--sessions 1",
    "bentpipe browse site.toml --sessions 10": "--sessions 1 --loads 1",
    "bentpipe browse out/my.site-geo-konnect/load.har --access lte-4g --sessions 10": "--sessions 1 --loads 1",
    'bentpipe browse target-a --access my.toml --set path.satellite.delay="300 ms" --pep early': "--sessions 1 --loads 1",
    "bentpipe compare-engines scenarios/dtn/both-clocks.toml": "--seeds 1",
    "bentpipe compare-engines studies/agreement/tcp.toml": "--seeds 1",
    "bentpipe compare-engines studies/andreotti-2025/dtn-both-clocks.toml": "--seeds 1",
    "bentpipe run scenarios/dtn/both-clocks.toml --engine emu": "--seeds 1",
    "bentpipe run scenarios/dtn/return.toml": "--seeds 1",
    "bentpipe run scenarios/dtn/disruptions.toml": "--seeds 1",
    "bentpipe run scenarios/dtn/stops.toml": "--seeds 1",
    "bentpipe study andreotti-2025": "--seeds 1",
    "bentpipe study tauran-2018": "--part 4.1 --seeds 1",
    "bentpipe study thomas-2019": "--seeds 1",
    "bentpipe suite --controller mine=cc.py:Mine": "--quick --seeds 1",
    "bentpipe suite --controller mine=cc.py:Mine --against cubic": "--quick --seeds 1",
    "bentpipe suite --controller aimd --quick": "--seeds 1",
    "bentpipe suite --controller mine=cc.py:Mine --only geo-bulk": "--seeds 1",
}
"""Options that the nightly tests add to a command of more than some minutes, by its text: the last value of an option holds."""

PLACEHOLDERS: Mapping[str, str] = {
    "users DIR": "users out/terminals",
    "FILE": "scenario.toml",
    "DIR": "out/geo",
    "NAME": "geo",
    "CMD": "true",
}
"""Words in capitals that stand for a reader's own, with those that the tests write instead."""

_BLOCK = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_QUOTED = r"""'[^']*'|"[^"]*\""""


@dataclass(frozen=True)
class File:
    """A file that a page shows."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a page."""

    page: str
    text: str
    status: int = 0
    compared: bool = False
    """Whether it stands in a `console` block of a page that the tests follow."""


def list_pages() -> list[str]:
    """Return all pages, in order; those of the help are last, one a command."""
    patterns = (
        "README.md", "docs/*.md", "docs/how-to/*.md", "docs/reference/*.md", "docs/explanation/*.md", "studies/*/README.md",
        "examples/README.md", "CONTRIBUTING.md",
    )  # fmt: skip
    return [
        *(str(file.relative_to(ROOT)) for pattern in patterns for file in sorted(ROOT.glob(pattern))),
        *(HELP + name for name in EXAMPLES),
    ]


@functools.cache
def collect(page: str) -> tuple[Command | File, ...]:
    """Return the files and commands of a page in order."""
    if page.startswith(HELP):
        return tuple(Command(page, f"bentpipe {line}") for line in EXAMPLES[page.removeprefix(HELP)])
    return tuple(parse(page, (ROOT / page).read_text(encoding="utf-8")))


def list_commands() -> list[Command]:
    """Return the commands of all pages."""
    return [step for page in list_pages() for step in collect(page) if isinstance(step, Command)]


def parse(page: str, text: str) -> Iterator[Command | File]:
    """Yield the files and commands of a page with this text."""
    place = 0
    for block in _BLOCK.finditer(text):
        yield from _inline(page, text[place : block.start()])
        place = block.end()
        kind, _, title = block[2].partition(" title=")
        body = re.sub(f"^{block[1]}", "", block[3], flags=re.MULTILINE)
        if title:
            yield File(title, body)
        if kind == "yaml":
            yield from job_commands(page, body)
        elif title:
            continue
        elif kind == "console":
            yield from _console(page, body)
        elif kind == "sh":
            yield from (Command(page, line) for line in _script_lines(body))
        elif re.search(r"^(bentpipe|make|pip|curl|python3?|cargo) ", body, re.MULTILINE) and not kind:
            raise ValueError(f"{page}: a block of commands without a language; write ```sh\n{body}")
    yield from _inline(page, text[place:])


def _console(page: str, body: str) -> Iterator[Command]:
    for step in re.split(r"^\$ ", re.sub(r"\s*\\\n\s*", " ", body), flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        status = re.search(r"^\[exit status (\d+)\]$", output, re.MULTILINE)
        yield Command(page, _uncommented(command), int(status[1]) if status else 0, compared=page in FOLLOWED)


def job_commands(page: str, text: str) -> list[Command]:
    """Return the commands of the steps ``run`` of a job, in order; those of a checkout without their ``.venv/bin/``."""
    lines = [line for script in _scripts(yaml.safe_load(text)) for line in _script_lines(script)]
    return [Command(page, line.removeprefix(".venv/bin/")) for line in lines]


def _scripts(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from [value] if key == "run" else _scripts(value)
    elif isinstance(node, list):
        for one in node:
            yield from _scripts(one)


def _script_lines(text: str) -> list[str]:
    """Return the commands of a shell script without comments, with their continuation lines."""
    return [found for line in re.sub(r"\s*\\\n\s*", " ", text).splitlines() if (found := _uncommented(line))]


def _inline(page: str, text: str) -> Iterator[Command]:
    for line in text.splitlines():
        for code in _INLINE.findall(line):
            if not code.startswith("bentpipe ") or "..." in code:
                continue
            words = shlex.split(code)
            rest = words[1 + len(command_words(code).split()) :]
            form = re.search(r"[A-Z]{3}", re.sub(_QUOTED, "", code))
            answers = page in TABLES and line.startswith("|")
            if any(not word.startswith("--") for word in rest) and (answers or not form):
                yield Command(page, code.replace("\\|", "|"))


def _uncommented(line: str) -> str:
    """Return a line of a shell without its comment."""
    return re.sub(rf"({_QUOTED})|(?:^|\s)#.*", lambda found: found[1] or "", line).strip()


def split_parts(text: str) -> list[str]:
    """Return the commands that `&&`, `|` and `;` join."""
    quoted: list[str] = []

    def keep(found: re.Match[str]) -> str:
        quoted.append(found[0])
        return f"\0{len(quoted) - 1}\0"

    parts = re.split(r"\s+(?:&&|\||;)\s+", re.sub(_QUOTED, keep, text))
    return [re.sub(r"\0(\d+)\0", lambda found: quoted[int(found[1])], part) for part in parts]


def command_words(text: str) -> str:
    """Return the words that name the command: `dtn route` of bentpipe's, else the program."""
    words = shlex.split(text.removesuffix("&"))
    if words[0] != "bentpipe":
        return " ".join(words[:3]) if words[1] == "-m" else words[0]
    known = (*FAST, *NIGHTLY, *LAB)
    return next(
        (name for size in (2, 1) if (name := " ".join(words[1 : 1 + size])) in known), " ".join(words[:2])
    )


def _class_of_part(text: str) -> str | None:
    words = command_words(text)
    if words in ("run", "study"):
        return "lab" if "--engine emu" in text else "nightly"
    if words == "compare-builds":
        return "lab" if " -- " in text else "nightly"
    if words in FAST:
        return "fast"
    if words in NIGHTLY:
        return "nightly"
    return "lab" if words in LAB else PROGRAMS.get(words)


def classify(command: Command, own: Collection[str] = ()) -> str | None:
    """Return the class of a command, or None; ``own`` names the files and stores that the tests provide."""
    if command.compared:
        return "followed"
    if any(fnmatchcase(command.text, pattern) for pattern in NOT_RUN):
        return "not run"
    found = [_class_of_part(part) for part in split_parts(command.text)]
    if None in found:
        return None
    text = re.sub(r"(--out|-o|>) \S+", "", command.text)
    stores = set(re.findall(r"(?<![\w=/-])out/[\w./-]+", text))
    if stores - set(own):
        found.append("nightly")
    return max(found, key=lambda name: CLASSES.index(name or ""))
