"""Every command of the documents and of the help runs in a test, or stands in a short list with the reason.

This file has the short ones, which `make test` runs; test_documented_runs.py and test_documented_labs.py have the others.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

import documented_commands
import test_questions
import test_tutorial
from documented_commands import FOLLOWED, NOT_RUN, SHORTER, classify, list_commands, list_pages, parse
from page_runs import classify_page, run_page
from readers_files import OWN

ADVICE = """
Each of these commands is in no class. Choose one:
- FAST, NIGHTLY or LAB of documented_commands.py has the new command of bentpipe, PROGRAMS the new program; or
- the page shows the command's input as a block with title=NAME, or OWN of readers_files.py has the reader's own; or
- NOT_RUN of documented_commands.py has the command with the reason, if no machine of the tests can run it."""


def test_every_command_is_in_a_class() -> None:
    unknown = [f"{one.page}: {one.text}" for one in list_commands() if classify(one, OWN) is None]
    assert not unknown, "\n".join([*unknown, ADVICE])


def test_lists_have_no_entry_without_a_command() -> None:
    texts = [one.text for one in list_commands()]
    unused = [one for one in NOT_RUN if not any(fnmatchcase(text, one) for text in texts)]
    assert unused == [], "NOT_RUN has patterns that match no command; delete them"
    assert [one for one in SHORTER if one not in texts] == [], (
        "SHORTER has commands that no page has; delete them"
    )


def test_pages_that_are_followed_are_those_of_their_tests() -> None:
    followed = [test_tutorial.ROOT / "docs/tutorial.md", *test_questions.PAGES]
    assert sorted(test_tutorial.ROOT / page for page in FOLLOWED) == sorted(followed)


def test_commands_of_a_page_are_collected() -> None:
    text = """`bentpipe show out/a` and `bentpipe show DIR`
```toml title=a.toml
x = 1
```
```sh
bentpipe run a.toml --set 'x="# 1"'   # a comment
bentpipe run \\
    b.toml
```
```console
$ bentpipe check b.toml
error: no
[exit status 2]
$ bentpipe help
```
```yaml title=job.yml
steps:
  - uses: actions/checkout@v4
  - run: bentpipe check c.toml    # a comment
  - run: |
      mkdir a
      .venv/bin/bentpipe check \\
        d.toml
```
"""
    assert [(getattr(step, "text", ""), getattr(step, "status", None)) for step in parse("page", text)] == [
        ("bentpipe show out/a", 0),
        ("x = 1\n", None),
        ("""bentpipe run a.toml --set 'x="# 1"'""", 0),
        ("bentpipe run b.toml", 0),
        ("bentpipe check b.toml", 2),
        ("bentpipe help", 0),
        (text.partition("job.yml\n")[2].removesuffix("```\n"), None),
        ("bentpipe check c.toml", 0),
        ("mkdir a", 0),
        ("bentpipe check d.toml", 0),
    ]
    with pytest.raises(ValueError, match="page: a block of commands without a language"):
        list(parse("page", "```\nbentpipe help\n```\n"))
    unknown = documented_commands.Command("page", "bentpipe fly to the moon")
    assert classify(unknown) is None


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.mark.parametrize(
    "page", [page for page in list_pages() if any(kind == "fast" for kind, _ in classify_page(page))]
)
def test_short_commands_of_a_page_run(page: str, tmp_path: Path, saved: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    wrong = run_page(page, ("fast",), tmp_path, saved)
    assert not wrong, "\n\n".join(wrong)
