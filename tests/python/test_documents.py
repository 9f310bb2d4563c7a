"""Tests of the build steps of `make docs` around Zensical: navigation, dialect, formulas, links and gallery."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bentpipe
from documents import api, checking, dialect, formulas, gallery, staging

ROOT = Path(__file__).resolve().parents[2]


def test_every_page_has_one_place_in_the_navigation() -> None:
    names = staging.pages(ROOT)
    config = staging.navigation((ROOT / "docs/zensical.toml").read_text(encoding="utf-8"), names)
    assert sorted(staging.list_pages(config)) == sorted([*names, *staging.GENERATED])
    with pytest.raises(staging.DocumentsError, match=r"nothing/\*\.md matches no page"):
        staging.navigation('[project]\nnav = [\n "nothing/*.md",\n]\n', names)


def test_every_page_can_be_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the environment of the site has the library that draws formulas.
    monkeypatch.setattr(formulas, "_mathml", lambda formula, display: "")
    shown: dict[str, None] = {}
    for name in staging.pages(ROOT):
        staging.convert(ROOT, name, (ROOT / name).read_text(encoding="utf-8"), shown)
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
def test_markdown_is_converted(text: str, expected: str) -> None:
    assert dialect.python_markdown(text) == expected


def test_formulas_are_drawn_and_code_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formulas, "_mathml", lambda formula, display: f"[{display} {formula}]")
    drawn = formulas.with_mathml("$a b$ costs `$HOME $x`, 5$ and 6$.\n```sh\n$ ls $x\n```\n$$c\nd$$")
    assert "[inline a b]" in drawn
    assert "[block c\nd]" in drawn
    assert drawn.count("[") == 2
    assert "`$HOME $x`, 5$ and 6$.\n```sh\n$ ls $x\n```" in drawn


def test_links_lead_to_pages_and_a_missing_target_is_an_error(tmp_path: Path) -> None:
    for name in ("docs/a.md", "examples/README.md", "examples/b.py", "docs/c.svg", "empty/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    shown: dict[str, None] = {}
    text = (
        "[`b`](../examples/b.py) [e](../examples) ![c](c.svg) [a](#here) [w](https://a.b/c.py) `[x](y.md)`\n"
    )
    assert staging.convert(tmp_path, "docs/a.md", text, shown) == (
        "[`b`](../examples/b.py.md) [e](../examples/README.md) ![c](c.svg) [a](#here) [w](https://a.b/c.py) `[x](y.md)`\n"
    )
    assert list(shown) == ["examples/b.py", "docs/c.svg"]
    for target, message in (
        ("no.md", "docs/a.md: no.md does not exist"),
        ("../empty", "folder without README"),
    ):
        with pytest.raises(staging.DocumentsError, match=message):
            staging.convert(tmp_path, "docs/a.md", f"[x]({target})", shown)


def test_each_broken_link_of_a_site_has_a_message(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="https://x.y">4</a>'
        '<img src="//cdn.x/i.png"><link rel="stylesheet" href="s.css"><link rel="canonical" href="https://x.y/a">'
        '<a href="d/">5</a><p style="background: url(https://z/b)">'
    )
    (tmp_path / "b.html").write_text('<h1 id="there"></h1><a href="a.html">1</a>')
    (tmp_path / "s.css").write_text("@import url(https://fonts/x); a { b: url(own.svg) }")
    (tmp_path / "d").mkdir()
    assert checking.check_site(tmp_path) == [
        "a.html: fetches //cdn.x/i.png from another host",
        "a.html: fetches https://z/b from another host",
        "a.html: b.html#gone has no such anchor",
        "a.html: c.html does not exist",
        "a.html: d/ is a folder, which no browser opens as a page",
        "s.css: fetches https://fonts/x from another host",
    ]


def test_the_gallery_shows_every_scenario_with_a_description() -> None:
    texts = {file.stem: file.read_text(encoding="utf-8") for file in (ROOT / "scenarios").glob("*.toml")}
    assert texts.keys() == gallery.ENTRIES.keys()
    for text in texts.values():
        assert gallery.description(text).endswith((".", "?", ")"))
        assert "bentpipe run" not in gallery.description(text)


def test_the_page_of_the_api_has_every_public_name() -> None:
    text = api.page(ROOT / "python/bentpipe")
    listed = re.findall(r"^::: [\w.]+\.(\w+)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(set(bentpipe.__all__) - {"__version__", "open_results"})
