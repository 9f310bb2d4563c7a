"""Break-even maps with random loss: stages, interruption, and means over seeds."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.break_even.access import numbers, with_loss
from bentpipe.break_even.config import parse_config
from bentpipe.break_even.execution import compute
from bentpipe.runners.execute import Observer


def test_a_map_with_loss_has_a_first_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page exists after the first seed, and after an interruption; the same command completes it."""
    config = parse_config(
        with_loss(numbers("20 Mbit/s", "5 Mbit/s", "100 ms"), "2 %"), sizes=("30 kB", "300 kB"), rtts=("40 ms", "100 ms"),
        controllers=("cubic",),
    )  # fmt: skip
    messages: list[str] = []
    states: list[str] = []

    def interrupt(text: str) -> None:
        messages.append(text)
        if len(messages) == 1:
            return
        states.append((tmp_path / "map.html").read_text(encoding="utf-8"))
        if len(messages) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(config, tmp_path, 1, watch=Observer(on_message=interrupt))
    assert re.fullmatch(
        r"80 runs with 5 seeds, about \d+ s on 1 processor. .*map.html follows after the first seed.",
        messages[0],
    )
    assert re.fullmatch(
        r"stage 1 of 3: .* is ready, with one seed of every load. More seeds follow in about .*", messages[1]
    )
    assert "1 seed." in states[0]
    assert "Stage 1 of 3: this page has one seed of every load." in states[0]
    assert "one seed gives no confidence interval" in states[0]
    assert "intervals of 95\u00a0% from 5\u00a0seeds" in states[1]
    first = json.loads((tmp_path / "map.json").read_text())
    assert {cell["seeds"] for cell in first["cells"]} == {1, 5}
    result, summary = compute(config, tmp_path, 1)
    assert (summary.reused, summary.done) == (2 * 2 * 4 + 2 * 4 * 4, 2 * 4 * 4)
    page = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "Stage" not in page.partition("<script")[0]
    assert {cell.ratio.n for cell in result.cells if cell.ratio is not None} == {5}
    # The interval of the row that was complete is the same: a stage changes no run.
    own = [cell for cell in first["cells"] if cell["rtt_s"] == 0.1]
    assert [cell.as_row()["ratio_low"] for cell in result.cells if cell.rtt == "100 ms"] == [
        cell["ratio_low"] for cell in own
    ]


@settings(max_examples=2, deadline=None)
@given(loss=st.sampled_from(["0.5 %", "2 %", "5 %"]), rtt=st.sampled_from(["40 ms", "100 ms"]))
def test_loss_makes_no_load_faster_on_average(loss: str, rtt: str) -> None:
    """The mean over seeds of a load that crosses a lossy link is not below that of one without loss.

    A single load may be faster: a lost packet can end slow start before it overflows the queue. Hence means, and a
    queue that holds the object.
    """
    means = []
    for probability in (None, loss):
        config = parse_config(
            with_loss(numbers("20 Mbit/s", "5 Mbit/s", rtt), probability), sizes=("100 kB",), rtts=(rtt,),
            controllers=("cubic",), seeds=5,
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            result, _ = compute(config, Path(folder), 1)
        means.append(
            {key[0]: times.mean.estimate for key, times in result.times.items() if times.mean is not None}
        )
    before, after = means
    assert before.keys() == after.keys()
    assert all(after[name] >= before[name] * (1 - 1e-9) for name in before), (before, after)
