"""Follow pages of docs/how-to as the tutorial: write files, run commands, compare outputs and pictures.

`BENTPIPE_UPDATE=1 pytest tests/python/test_questions.py` writes outputs and pictures anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import test_tutorial as messages
from nightly import keep

NAMES = ("keep-my-pep", "contact-plans", "bundle-scenarios", "my-site", "quic-in-ci", "which-controller")
PAGES = [messages.ROOT / f"docs/how-to/{name}.md" for name in NAMES]
PICTURES = {
    "quic-in-ci": "figures/cwnd.svg",
    "which-controller": "figures/goodput-by-parameter.svg",
    "my-site": "figures/page-load-distribution.svg",
}


@pytest.mark.parametrize("page", keep(PAGES[1:2], PAGES), ids=lambda page: page.stem)
def test_a_question_is_answered_as_written(page: Path, tmp_path: Path) -> None:
    pytest.importorskip("bentpipe._engine")
    assert messages.follow(page, tmp_path) >= 2
    if page.stem in PICTURES:
        picture = page.with_suffix(".svg")
        drawn = tmp_path / PICTURES[page.stem]
        if os.environ.get("BENTPIPE_UPDATE"):
            picture.write_bytes(drawn.read_bytes())
        assert drawn.read_bytes() == picture.read_bytes()
