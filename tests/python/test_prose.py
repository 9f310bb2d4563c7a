"""The prose of the repository has no more findings of `scripts/prose` than its baseline allows."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from prose_lint import baseline
from prose_lint.files import ROOT, checked_files, file_findings
from prose_lint.markdown import markdown_texts
from prose_lint.plain import toml_texts
from prose_lint.python import python_texts
from prose_lint.rules import Finding, check, read_rules
from prose_lint.rust import rust_texts
from prose_lint.templates import template_texts

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


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        ("So are options of Linux.", "inverted"),
        ("Not counted are the others.", "inverted"),
        ("Only then are the runs removed.", "inverted"),
        ("The behavior is analyzed.", "american-spelling"),
        ("It is modeled.", "american-spelling"),
        ("Utilize it in order to measure.", "filler"),
        ("Please note that it ends.", "filler"),
        ("It simply ends.", "filler"),
        ("Two  spaces.", "spacing"),
        ("# Getting The First Result", "title-case"),
        ("| what | loss |\n|---|---|", "pronoun-name"),
    ],
)
def test_a_rule_finds_its_example(sentence: str, rule: str) -> None:
    assert {one.rule for one in markdown_findings(sentence)} == {rule}


@pytest.mark.parametrize(
    "sentence",
    [
        "Only TCP has sequence numbers.",
        "It arrives in order to the application. The link state cue arrives just before it.",
        "# The Kuiper constellation of OneWeb",
        "Neighbours behave. The `color` of a fibre is grey, its tunnelled labels are analysed.",
        "| loss | whatever the seed |\n|---|---|\n| what | 1 |",
    ],
)
def test_no_rule_finds_other_sentences(sentence: str) -> None:
    assert [str(one) for one in markdown_findings(sentence)] == []


def test_an_unknown_key_of_a_rule_is_refused(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[one]\nmaxwords = 3\nexpected = "less"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="one: unknown maxwords, expected one of expected, ignore_case"):
        read_rules(rules)


PYTHON = '''"""Summary of it.

Args:
    one: First entry,
        on two lines.
    two_x (int): Second entry.

- ``a``: An item
- Another item
``module``: Its purpose

    code("of an example")
"""
# A comment
# on two lines.
name = f("One ``code``", key=f"a {value + 1} in it" " goes on", short="a name")  # Beside a statement.
pattern = re.compile("a pattern of words")
query = "SELECT a FROM b WHERE c"
text = "# no comment"


def g():
    """Return what is left."""
'''


def test_the_texts_of_a_python_file() -> None:
    texts = [(one.kind, one.line, one.plain(one.text)) for one in python_texts(PYTHON) if one.text.strip()]
    assert sorted(texts, key=lambda one: one[1]) == [
        ("docstring", 1, "Summary of it."),
        ("docstring", 4, "First entry, on two lines."),
        ("docstring", 6, "Second entry."),
        ("docstring", 8, "An item"),
        ("docstring", 9, "Another item"),
        ("docstring", 10, "Its purpose"),
        ("comment", 14, "A comment on two lines."),
        ("message", 16, "a `value + 1` in it goes on"),
        ("comment", 16, "Beside a statement."),
        ("message", 19, "# no comment"),
        ("docstring", 23, "Return what is left."),
    ]
    assert "message" not in {one.kind for one in python_texts(PYTHON, messages=False)}


@pytest.mark.parametrize(
    "source",
    [
        '"""What is left."""',
        'def f():\n    """Return it. Whose it is, follows."""',
        "# Of these, two are used.",
        "a = 1  # Who may write\n",
        "# Both ends are\n# closed. What remains is counted.",
        'raise ValueError("What remains is lost")',
        f'help(f"{{x}} {TWENTY_FIVE} {{y}}")',
        f'"""Sum.\n\nArgs:\n    a: {TWENTY_FIVE}\n        b c.\n"""',
    ],
)
def test_a_sentence_of_python_that_breaks_a_rule_is_found(source: str) -> None:
    assert [one for text in python_texts(source) for one in check(text)]


@pytest.mark.parametrize(
    "source",
    [
        '"""Return what is left."""',
        "# Offer both.",
        '"""Whole numbers."""',
        f'a = "{TWENTY_FIVE}" if b else "{TWENTY_FIVE}"',
        f'found = "cue"\nraise ValueError(\'found "cue", expected\')\nsql("{TWENTY_FIVE} b c")',
        f'"""Sum.\n\nArgs:\n    a: {TWENTY_FIVE}.\n    b: {TWENTY_FIVE}.\n"""',
    ],
)
def test_other_sentences_of_python_are_not_found(source: str) -> None:
    assert [str(one) for text in python_texts(source) for one in check(text)] == []


RUST = r"""//! A module.
//!
//! 1. `a` (first);
//! 2. `b`.

/// Returns [`Text`] of
/// two lines.
///
/// # Errors
/// ```
/// What is told.
/// ```
#[allow(clippy::all, reason = "a lint that is wrong")]
pub fn f<'a>(x: &'a str) -> char {
    // A comment
    // on two lines.
    print!("found {x:?}, expected {{ \"a b\" }} \
            on one line", 'a'); // Beside a statement.
    fail(r#"a "raw" string here"#, "// no comment", "{x}: {y}", '"', "a name");
    run("add rule inet table pre", "<p class=a b>", "GET / HTTP/1.1\r\n"); /* A block. */
}

#[cfg(test)]
mod tests {
    // What a test is.
    const MESSAGE: &str = "what is told of it";
}
"""


def test_the_texts_of_a_rust_file() -> None:
    texts = [(one.kind, one.line, one.plain(one.text)) for one in rust_texts(RUST)]
    assert sorted(texts, key=lambda one: one[1]) == [
        ("sentence", 1, "A module."),
        ("sentence", 3, "`a` (first);"),
        ("sentence", 4, "`b`."),
        ("sentence", 6, "Returns [`Text`] of two lines."),
        ("heading", 9, "Errors"),
        ("message", 13, "a lint that is wrong"),
        ("comment", 15, "A comment on two lines."),
        ("message", 17, 'found `{x:?}`, expected `{{` "a b" `}}` on one line'),
        ("comment", 18, "Beside a statement."),
        ("message", 19, 'a `"raw"` string here'),
        ("message", 19, "// no comment"),
        ("comment", 20, "A block."),
        ("comment", 25, "What a test is."),
    ]
    assert "message" not in {one.kind for one in rust_texts(RUST, messages=False)}


@pytest.mark.parametrize(
    "source",
    [
        "/// What is left.\nfn f() {}",
        "fn f() {} // Of these, two are used.",
        "// Both ends are\n// closed. What remains is counted.",
        "/* It has legs. */",
        'fail("What remains is lost")',
        f'fail("{TWENTY_FIVE} {{y}} \\\n    {{z}}")',
        f"/// Sum.\n///\n/// - {TWENTY_FIVE} b c",
        "// A 'quoted' word\nlet a = 'b'; // It has legs.",
    ],
)
def test_a_sentence_of_rust_that_breaks_a_rule_is_found(source: str) -> None:
    assert [one for text in rust_texts(source) for one in check(text)]


@pytest.mark.parametrize(
    "source",
    [
        "/// `legs` of a path.\nfn legs<'a>(x: &'a str, y: &'a str) {}",
        f"// {TWENTY_FIVE}.\n/// {TWENTY_FIVE}.",
        f'fail("{TWENTY_FIVE}", "{TWENTY_FIVE}")',
        f'fail("{TWENTY_FIVE}; {TWENTY_FIVE}")',
        f'#[cfg(test)]\nmod tests {{ const A: &str = "{TWENTY_FIVE} b c"; }}',
    ],
)
def test_other_sentences_of_rust_are_not_found(source: str) -> None:
    assert [str(one) for text in rust_texts(source) for one in check(text)] == []


def test_the_texts_of_a_toml_file() -> None:
    source = '# What it is\n# for.\n#   bentpipe run a.toml\n\ntitle = "A scenario of two links"  # title\nname = "a"\n'
    texts = [(one.kind, one.line, one.plain(one.text)) for one in toml_texts(source)]
    assert texts == [
        ("comment", 1, "What it is for."),
        ("comment", 5, "title"),
        ("message", 5, "A scenario of two links"),
    ]


def test_a_string_of_several_lines_is_markdown_in_a_toml_file() -> None:
    source = 'why = """\nOne sentence.\n\n| a | b |\n|---|---|\n| first cell | second |\n\n- an item\n"""\n'
    texts = [(one.kind, one.line, one.plain(one.text)) for one in toml_texts(source)]
    assert texts == [
        ("sentence", 2, "One sentence."),
        ("head", 4, "a"),
        ("head", 4, "b"),
        ("cell", 6, "first cell"),
        ("cell", 6, "second"),
        ("sentence", 8, "an item"),
    ]


def test_the_texts_of_a_page() -> None:
    source = (
        "{# no text #}\n<h1>Title of {{ name }}</h1>\n<p>A <b>bold</b> one,\n{% if a %}first{% else %}second{% endif %}"
        " <code>c d</code> end.</p><style>p { color: red }</style><table><tr><th>What</th><td>x</td></tr></table>"
    )
    texts = [(one.kind, one.line, one.plain(one.text)) for one in template_texts(source) if one.text.strip()]
    assert texts == [
        ("heading", 2, "Title of ``"),
        ("sentence", 3, "A bold one, first"),
        ("sentence", 4, "second `` end."),
        ("head", 4, "What"),
        ("sentence", 4, "x"),
    ]


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
    assert (absent.returncode, "absent.md: no such file or folder" in absent.stderr) == (2, True)
