"""The reference results of the suite: the built-in controllers have the same values again, to the last digit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bentpipe.suite import parse_config, run
from bentpipe.suite.document import check_document
from bentpipe.suite.entry import entries

REFERENCE = Path(__file__).resolve().parents[2] / "docs/findings/suite.json"


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return data


def criteria(data: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return the criteria of a document by scenario, controller, measure, cell and limits."""
    return {
        (cell["scenario"], cell["controller"], *(str(one[key]) for key in KEYS)): one
        for cell in data["cells"]
        for one in cell["criteria"]
    }


KEYS = ("measure", "cell", "window_s", "at_least", "at_most", "expected", "relative_to")


def test_the_reference_is_a_document_of_all_scenarios(reference: dict[str, Any]) -> None:
    assert check_document(reference) == []
    names = [scenario["name"] for scenario in reference["scenarios"]]
    assert names == ["checks", *(entry.name for entry in entries())], "run scripts/findings-suite"
    wanted = {(entry.name, one.measure) for entry in entries() for one in entry.criteria}
    assert wanted <= {(key[0], key[2]) for key in criteria(reference)}, "run scripts/findings-suite"


@pytest.mark.nightly
def test_a_seed_of_each_cell_gives_the_values_of_the_reference(
    reference: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("bentpipe._engine")
    controllers = list(dict.fromkeys(cell["controller"] for cell in reference["cells"]))
    output = run(parse_config(controllers, seeds=1), tmp_path)
    found, expected = criteria(output.data), criteria(reference)
    assert found.keys() == expected.keys(), "a criterion has changed; run scripts/findings-suite"
    wrong = [
        f"{' '.join(key)}: {one['values']}, the reference has {expected[key]['values'][:1]}"
        for key, one in found.items()
        if one["relative_to"] is None and one["values"] != expected[key]["values"][:1]
    ]
    assert not wrong, "\n".join(wrong)
