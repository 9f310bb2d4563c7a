"""``plan/spec/run_spec.py``, the types of a resolved run, against the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bentpipe.runners import engine
from script_loader import load_script

ROOT = Path(__file__).resolve().parents[2]


def formatted(source: str) -> str:
    """Format source as the repository does."""
    command = [sys.executable, "-m", "ruff", "format", "--config", str(ROOT / "pyproject.toml"), "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout


def test_the_types_are_those_of_the_engine() -> None:
    made = formatted(load_script("spec-types").module(engine.run_schema()))
    assert made == (ROOT / "python/bentpipe/plan/spec/run_spec.py").read_text(encoding="utf-8"), "make types"


@pytest.mark.parametrize("module", ["link/generated", "link/generated_services", "dtn/generated"])
def test_the_scenario_tables_are_those_of_the_descriptors(module: str) -> None:
    made = formatted(load_script("scenario-types").MODULES[module](engine.descriptors()))
    committed = ROOT / f"python/bentpipe/scenario/{module}.py"
    assert made == committed.read_text(encoding="utf-8"), "make types"


def test_the_manual_has_the_options_of_the_descriptors() -> None:
    made = load_script("option-tables").page(engine.descriptors())
    assert made == (ROOT / "docs/reference/options.md").read_text(encoding="utf-8"), "make types"


def test_the_manual_has_the_metrics_of_the_registry() -> None:
    made = load_script("metric-table").page()
    assert made == (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8"), "make types"


def test_the_manual_has_the_presets() -> None:
    made = load_script("preset-table").page()
    assert made == (ROOT / "docs/reference/presets.md").read_text(encoding="utf-8"), "make types"


def test_optional_fields_and_tags_of_choices() -> None:
    schema = {
        "title": "Run",
        "type": "object",
        "properties": {
            "seed": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "trace": {"type": "boolean", "default": False},
            "model": {"$ref": "#/$defs/Model"},
        },
        "required": ["seed", "name", "trace"],
        "$defs": {
            "Model": {
                "oneOf": [
                    {
                        "properties": {"kind": {"const": "two_words"}, "at": {"type": "number"}},
                        "required": ["kind", "at"],
                    },
                    {"properties": {"bytes": {"type": "integer"}}, "required": ["bytes"]},
                    {"const": "none"},
                ]
            }
        },
    }
    text = load_script("spec-types").module(schema)
    for line in (
        'class TwoWordsModel(TypedDict):\n    kind: Literal["two_words"]\n    at: float\n',
        "@final\nclass BytesModel(TypedDict):\n    bytes: int\n",
        "    seed: int\n    name: str | None\n    trace: NotRequired[bool]\n    model: NotRequired[Model]\n",
        'Model = Literal["none"] | TwoWordsModel | BytesModel\n',
    ):
        assert line in text
    compile(text, "spec.py", "exec")
