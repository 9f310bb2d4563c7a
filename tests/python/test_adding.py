"""CONTRIBUTING's lists of what to touch, against an example of each that is there: no file more, and none less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MADE = {
    "python/bentpipe/plan/spec/run_spec.py",
    "python/bentpipe/scenario/link/generated.py",
    "python/bentpipe/scenario/link/generated_services.py",
    "python/bentpipe/scenario/dtn/generated.py",
    "docs/reference/options.md",
    "docs/reference/presets.md",
}
"""Written by ``make types``."""

CODE = (
    "crates/*/src/**/*.rs",
    "python/bentpipe/**/*.py",
    "docs/how-to/*.md",
    "docs/reference/*.md",
    "docs/explanation/*.md",
)
TESTS = "crates/link/tests/suite/*.rs"
USERS = ("studies/bentpipe_studies/",)
"""Scenarios that use what is there."""

EXAMPLES = {
    "As `gilbert_elliott` is": (
        r"(?i)gilbert.?elliott",
        (TESTS,),
        (
            "crates/emu/src/live_settings.rs",
            "python/bentpipe/scenario/new_scenario.py",
            "docs/how-to/which-controller.md",
        ),
    ),
    "As `drop-head` is": (
        r"(?i)drop[-_]?head",
        ("crates/link/tests/suite/drop_head.rs", "crates/link/tests/suite/properties.rs"),
        (),
    ),
    "As `rayleigh` is": (
        r"RayleighSpec|rayleigh_power|\"rayleigh\"",
        ("crates/link/tests/suite/channel_*.rs", "crates/link/tests/suite/common/*.rs"),
        ("crates/emu/src/forwarder_tests.rs",),
    ),
    "As `go-back-n` is": (
        r"(?i)go.?back.?n\b",
        (TESTS,),
        ("crates/link/src/service.rs", "crates/link/src/transmitter.rs"),
    ),
    "As `qubicle` is": (
        r"QubicleSpec|\"qubicle\"|draft-ek-dtn-qubicle",
        ("crates/bundle/tests/suite/cla/*.rs",),
        ("crates/bundle/tests/suite/cla/link_properties.rs",),
    ),
    # of a stage's name other things are called too; tests of other things have it on their paths
    "As `reorder` is": (
        r"\bReorderSpec\b|\bReorder\b( \{|\(Table|::new)|(?<!\[)(?<!-order\", )(?<!\"reorder\": )\"reorder\"(?!: \")|^`?reorder`? (holds|\|)|\| `reorder` \|",
        ("crates/link/tests/suite/properties.rs", "crates/link/tests/suite/stages.rs"),
        (),
    ),
    "As `exp-pf` is": (r"(?i)exp[-_]?pf", (TESTS,), ("docs/notes/performance.md",)),
    "As `westwood` is": (
        r"(?i)westwood",
        ("crates/cc/tests/*.rs",),
        ("crates/runtime/src/tcp/kernel.rs", "crates/cc/src/reno.rs"),
    ),
    "An option of QUIC as `unpaced_burst` is": (
        r"unpaced_burst",
        (),
        ("crates/transport/src/quic/driver/endpoint_tests.rs",),
    ),
    "One of TCP as `limited_transmit` is": (r"limited_transmit", (), ()),
}
"""For each list: the example's name in code, further files to search, and files that only test with it."""


def _listed(begin: str) -> set[str]:
    """Paths of the list that begins so; it ends with what is no item."""
    text = TEXT[TEXT.index(begin) :]
    items = re.match(r"(?:[^-\n][^\n]*\n)*((?:- [^\n]*\n(?:  [^\n]*\n)*)+)", text)
    assert items is not None, begin
    return {path for path in re.findall(r"`([^`\s]+)`", items[1]) if "/" in path and "." in path}


def _naming(words: str, globs: tuple[str, ...], root: Path = ROOT) -> set[str]:
    """Return the files that contain the words."""
    pattern = re.compile(words, re.MULTILINE)
    files = {file for glob in globs for file in root.glob(glob)}
    named = {
        str(file.relative_to(root)) for file in files if pattern.search(file.read_text(encoding="utf-8"))
    }
    return {name for name in named if not name.startswith(USERS)} - MADE


@pytest.mark.parametrize("begin", EXAMPLES)
def test_a_list_names_the_files_that_know_its_example(begin: str) -> None:
    words, more, users = EXAMPLES[begin]
    found = _naming(words, (*CODE, *more)) - set(users)
    also = {"crates/runtime/src/tcp/kernel.rs"} if "limited" in begin else set()  # of other options of TCP
    assert found == _listed(begin) - also


def test_a_file_that_is_not_listed_is_found(tmp_path: Path) -> None:
    new = tmp_path / "python/bentpipe/plan/another.py"
    new.parent.mkdir(parents=True)
    new.write_text('KINDS = ("bernoulli", "gilbert_elliott")\n')
    assert _naming(EXAMPLES["As `gilbert_elliott` is"][0], CODE, tmp_path) == {
        "python/bentpipe/plan/another.py"
    }


def test_listed_names_exist() -> None:
    for begin in EXAMPLES:
        for path in _listed(begin):
            assert (ROOT / path).is_file(), f"{begin}: {path}"
