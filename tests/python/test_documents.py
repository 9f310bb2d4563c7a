"""What `make docs` does before and after Zensical: every page has its place, dialect, links, and what a broken site is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from documents import checking, dialect, formulas, gallery, staging

ROOT = Path(__file__).resolve().parents[2]


def test_every_page_has_one_place_in_the_navigation() -> None:
    there = staging.pages(ROOT)
    config = staging.navigation((ROOT / "docs/zensical.toml").read_text(encoding="utf-8"), there)
    assert sorted(staging.named(config)) == sorted([*there, *staging.MADE])
    with pytest.raises(staging.DocumentsError, match=r"nothing/\*\.md stands for no page"):
        staging.navigation('[project]\nnav = [\n "nothing/*.md",\n]\n', there)


def test_every_page_can_be_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        formulas, "_mathml", lambda formula, display: ""
    )  # drawn by what only the site's build has
    shown: dict[str, None] = {}
    for name in staging.pages(ROOT):
        staging.rendered(ROOT, name, (ROOT / name).read_text(encoding="utf-8"), shown)
    assert {"examples/goodput.py", "docs/map.svg", "scenarios/calls.toml"} <= shown.keys()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("words\n- one\n- two", "words\n\n- one\n- two\n"),
        ("- one\n  more\n- two", "- one\n    more\n- two\n"),
        ("1. one\n   - inner\n2. two", "1. one\n    - inner\n2. two\n"),
        ("- one\n\n      code\n\nwords", "- one\n\n        code\n\nwords\n"),
        ("- one\nlazy\n\nwords", "- one\n    lazy\n\nwords\n"),
        ("- one\n  ```sh\n  a\n\n    b\n  ```\n", "- one\n\n    ```sh\n    a\n\n      b\n    ```\n\n"),
        ("```toml title=a.toml\nx\n- y\n```", '```toml title="a.toml"\nx\n- y\n```\n\n'),
        ("- one\n# Two\na\n| b |\n|---|\n| c |", "- one\n\n# Two\na\n\n| b |\n|---|\n| c |\n"),
        ("a <!-- b -->\n`<!-- c -->`", "a `<!-- c -->`\n"),
        ("in\n2005. Words", "in\n2005. Words\n"),
    ],
)
def test_the_other_dialect_says_the_same(text: str, expected: str) -> None:
    assert dialect.python_markdown(text) == expected


def test_formulas_are_drawn_and_code_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "_mathml", lambda formula, display: f"[{display} {formula}]")
    drawn = formulas.with_mathml("$a b$ costs `$HOME $x`, 5$ and 6$.\n```sh\n$ ls $x\n```\n$$c\nd$$")
    assert "[inline a b]" in drawn
    assert "[block c\nd]" in drawn
    assert drawn.count("[") == 2
    assert "`$HOME $x`, 5$ and 6$.\n```sh\n$ ls $x\n```" in drawn


def test_links_lead_to_pages_and_what_is_missing_is_said(tmp_path: Path) -> None:
    for name in ("docs/a.md", "examples/README.md", "examples/b.py", "docs/c.svg", "empty/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shown: dict[str, None] = {}
    text = (
        "[`b`](../examples/b.py) [e](../examples) ![c](c.svg) [a](#here) [w](https://a.b/c.py) `[x](y.md)`\n"
    )
    assert staging.rendered(tmp_path, "docs/a.md", text, shown) == (
        "[`b`](../examples/b.py.md) [e](../examples/README.md) ![c](c.svg) [a](#here) [w](https://a.b/c.py) `[x](y.md)`\n"
    )
    assert list(shown) == ["examples/b.py", "docs/c.svg"]
    for target, said in (("no.md", "docs/a.md: no.md is not there"), ("../empty", "folder without README")):
        with pytest.raises(staging.DocumentsError, match=said):
            staging.rendered(tmp_path, "docs/a.md", f"[x]({target})", shown)


def test_a_broken_site_is_told_of_each_link(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://x.y">4</a>'
        '<img src="//cdn.x/i.png"><link rel="stylesheet" href="s.css"><link rel="canonical" href="https://x.y/a">'
        '<a href="d/">5</a><p style="background: url(https://z/b)">'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><a href="a.html">1</a>')
    (tmp_path / "s.css").write_text("@import url(https://fonts/x); a { b: url(own.svg) }")
    (tmp_path / "d").mkdir()
    assert checking.problems(tmp_path) == [
        "a.html: fetches //cdn.x/i.png from elsewhere",
        "a.html: fetches https://z/b from elsewhere",
        "a.html: b.html#gone leads to an anchor that is not there",
        "a.html: c.html leads nowhere",
        "a.html: d/ leads to a folder, which no browser opens as a page",
        "s.css: fetches https://fonts/x from elsewhere",
    ]


def test_the_gallery_shows_every_scenario_with_words() -> None:
    there = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "scenarios").glob("*.toml")}
    assert there.keys() == gallery.SHOWN.keys()
    for text in there.values():
        assert gallery.words(text).endswith((".", "?", ")"))
        assert "bentpipe run" not in gallery.words(text)
