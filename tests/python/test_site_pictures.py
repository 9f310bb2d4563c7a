"""Pictures of the filmstrip of a site: visual changes with the marks, at a distance from each other."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

import commands
from bentpipe.report.site_page import MAX_PICTURES, choose_pictures

if TYPE_CHECKING:
    from pathlib import Path


def test_a_mark_keeps_its_picture_between_others() -> None:
    """Pictures at 0, 3.305, 4.09, 4.11 and 5.09 s: first contentful paint at 3.29 s needs the second."""
    times = [0, 3305, 4090, 4110, 5090]
    assert choose_pictures(times, {1}) == [0, 1, 3, 4], "the pictures at 4.09 and 4.11 s are one change"


def test_many_pictures_are_spread_over_the_load() -> None:
    times = [*range(0, 10_000, 50), 10_010]
    chosen = choose_pictures(times, {3, 101})
    assert len(chosen) == MAX_PICTURES
    assert {0, 3, 101, 200} <= set(chosen)
    others = sorted(set(chosen) - {3})
    assert min(times[after] - times[before] for before, after in itertools.pairwise(others)) > 1000


def test_few_pictures_are_all_shown() -> None:
    assert choose_pictures([]) == []
    assert choose_pictures([7]) == [0]
    assert choose_pictures([0, 500]) == [0, 1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("page.html --access lte-4g", "then load http://localhost:8000/page.html"),
        (
            "site/index.html --access lte-4g",
            "serve it by `python3 -m http.server 8000 --directory site`, then load",
        ),
        ("localhost:8000 --access lte-4g", 'no file "localhost:8000"; did you mean http://localhost:8000/?'),
        ("my.site:81/a --access lte-4g", 'no file "my.site:81/a"; did you mean http://my.site:81/a?'),
        (
            "target-a --access lte-4g,adsl",
            "--access: found lte-4g, adsl, expected one; several accesses require a",
        ),
        (
            "target-a --access lte-4g --access adsl",
            "--access: found lte-4g, adsl, expected one; several accesses",
        ),
        ("http://localhost:1/ --access adsl,adsl", '--access: duplicate access "adsl"'),
        ("http://localhost:1/ --access adsl, --loads 2", "--access: found an empty name, expected a preset"),
        ("http://localhost:1/ --access adsl --sessions 2", "--sessions: cannot be combined with a URL"),
    ],
)
def test_a_subject_of_browse_is_named(tmp_path: Path, words: str, message: str) -> None:
    (tmp_path / "page.html").write_text("<p>hello")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<p>hello")
    done = commands.bentpipe(tmp_path, "browse", *words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
