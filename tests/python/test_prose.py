"""The prose of the repository has no more findings of `scripts/prose` than its baseline allows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prose_lint import baseline
from prose_lint.files import ROOT, checked_files, file_findings
from prose_lint.markdown import markdown_texts
from prose_lint.rules import Finding, check

TWENTY_FIVE = " ".join(["word"] * 24)


def markdown_findings(source: str) -> list[Finding]:
    return [finding for text in markdown_texts(source) for finding in check(text)]


def test_no_file_has_more_findings_than_its_baseline() -> None:
    findings = {name: file_findings(ROOT / name) for name in checked_files()}
    counts = {name: len(found) for name, found in findings.items()}
    allowed = baseline.allowances(list(counts))
    lines = [f"{name}:{one}" for name in baseline.above(counts, allowed) for one in findings[name]]
    assert lines == [], "\n".join(["more findings than scripts/prose_lint/baseline.toml allows:", *lines])


@pytest.mark.parametrize(
    ("source", "line", "rule"),
    [
        (f"# Title\n\nA {TWENTY_FIVE} end.", 3, "sentence-length"),
        (f"Short. A {TWENTY_FIVE} end.\nShort.", 1, "sentence-length"),
        (f"- item\n- A {TWENTY_FIVE} end", 2, "sentence-length"),
        (f"| a | b |\n|---|---|\n| c | {TWENTY_FIVE} d e |", 3, "sentence-length"),
        ("A run ends.\nWhat is left\nis counted.", 2, "clause-first"),
        ("Runs: whose they are. *Of* these two are used.", 1, "clause-first"),
        ("The result: What it is follows.", 1, "clause-first"),
        ("It has three\nlegs.", 1, "home-made-word"),
        ("Each hand-over drops packets.", 1, "home-made-word"),
        ("The user is told of it.", 1, "passive-report"),
    ],
)  # fmt: skip
def test_a_sentence_that_breaks_a_rule_is_found(source: str, line: int, rule: str) -> None:
    assert [(one.line, one.rule) for one in markdown_findings(source)] == [(line, rule)]


@pytest.mark.parametrize(
    "source",
    [
        f"A {TWENTY_FIVE}.",
        f"{TWENTY_FIVE} `a code span with six words`.",
        f"{TWENTY_FIVE} [text](https://example.org/page).",
        f"{TWENTY_FIVE} $a + b + c$ = −",
        f"One sentence, e.g. this. {TWENTY_FIVE} end.",
        f"```\nA {TWENTY_FIVE} end. What is told.\n```",
        f"<!-- A {TWENTY_FIVE} end -->",
        f"| {TWENTY_FIVE} | {TWENTY_FIVE} |\n|---|---|\n| a | b |",
        "# What is a run?",
        "`legs` is the old name of `links`.",
        "A column has what a packet waited.",
        "1. First. Offer both.",
    ],
)  # fmt: skip
def test_other_sentences_are_not_found(source: str) -> None:
    assert [str(one) for one in markdown_findings(source)] == []


def test_a_finding_names_place_rule_sentence_and_remedy() -> None:
    (finding,) = markdown_findings("Text.\n\nIt has `a b`\nlegs.")
    assert str(finding) == (
        '3: home-made-word: "legs" in "It has `a b` legs."; expected link, or split connection'
    )


def test_the_allowance_follows_a_file_to_another_folder() -> None:
    entries = {"docs/manual/tcp.md": 3, "docs/models/tcp.md": 2, "docs/manual/run.md": 1}
    names = ["docs/how-to/run.md", "docs/models/tcp.md", "docs/reference/tcp.md", "docs/new.md"]
    allowed = baseline.allowances(names, entries)
    assert list(allowed.items()) == list(zip(names, [1, 2, 3, 0], strict=True))
    assert baseline.above(dict.fromkeys(names, 2), allowed) == ["docs/how-to/run.md", "docs/new.md"]


def test_the_command_prints_the_findings_of_a_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("What is left is counted.\n", encoding="utf-8")
    done = subprocess.run([ROOT / "scripts/prose", page], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith(f"{page}:1: clause-first: ")
    page.write_text("It counts the rest.\n", encoding="utf-8")
    assert subprocess.run([ROOT / "scripts/prose", page]).returncode == 0
    absent = subprocess.run([ROOT / "scripts/prose", tmp_path / "absent.md"], capture_output=True, text=True)
    assert (absent.returncode, "absent.md: not a file" in absent.stderr) == (2, True)
