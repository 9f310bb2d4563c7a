"""What is done once is not done for every cell or run: bounds on work, which no clock measures."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.runs import make, open_document


def scenario(flow: dict[str, Any], sweep: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A GEO link with one flow."""
    both = {"rate": "10 Mbit/s", "loss": "0.1 %"}
    return {
        "duration": "10 s",
        "path": {"segment": [{"name": "satellite", "delay": "250 ms", "both": both}]},
        "flow": [{"name": "one", "congestion": "cubic", **flow}],
        "sweep": sweep,
        **more,
    }


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files as they are opened, by what Python itself opens them with."""
    seen: list[Path] = []
    real = io.open

    def watched(file: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(Path(file))
        return real(file, *args, **kwargs)

    monkeypatch.setattr(io, "open", watched)
    return seen


def test_a_preset_page_is_read_once_a_plan(opened: list[Path]) -> None:
    named = ["almanac-2019", "target-a", "target-b", "almanac-2024"]
    delays = [f"{delay} ms" for delay in range(10, 260, 10)]
    document = open_document(
        scenario(
            {"load": {"page": "target-a"}}, {"flow.one.load.page": named, "path.satellite.delay": delays}
        )
    )
    opened.clear()
    plan = make(document, "1")
    assert len(plan.cells) == 100
    assert sorted(file.stem for file in opened) == sorted(named)
    pages = {cell.resolved.spec["flows"][0]["load"]["page"]["name"] for cell in plan.cells}
    assert pages == set(named)


def test_a_har_file_is_read_once_a_plan(opened: list[Path], tmp_path: Path) -> None:
    fetched = {"request": {"url": "https://a.example/"}, "response": {"status": 200, "bodySize": 900}}
    (tmp_path / "page.har").write_text(json.dumps({"log": {"entries": [fetched]}}), encoding="utf-8")
    delays = [f"{delay} ms" for delay in range(10, 110, 10)]
    document = open_document(
        scenario({"load": {"page": {"har": str(tmp_path / "page.har")}}}, {"path.satellite.delay": delays})
    )
    opened.clear()
    assert len(make(document, "1").cells) == 10
    assert [file.name for file in opened] == ["page.har"]
