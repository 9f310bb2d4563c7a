"""Compare ``lab/process_plans.py``, the plans of ``bentpipe-rt``, with the structs that it reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bentpipe.lab import process_plans

ROOT = Path(__file__).resolve().parents[2]

LAB, EMU = "crates/rt/src/lab/plan.rs", "crates/emu/src/lab_spec.rs"
PERF, CALLS, SERVE, DTN = (f"crates/programs/src/{name}/plan.rs" for name in ("perf", "media", "http", "dtn"))

READ = {
    "LabSpec": (EMU, "LabSpec"), "LabPlan": (LAB, "LabPlan"), "Process": (LAB, "ProcessPlan"),
    "Record": (LAB, "RecordPlan"), "PerHost": (LAB, "PerHost"),
    "Wakes": ("crates/rt/src/lab/result.rs", "CalibrationResult"),
    "PerfServerPlan": (PERF, "PerfServerPlan"), "PerfClientPlan": (PERF, "PerfClientPlan"),
    "Limits": (PERF, "PerfServerLimits"), "CertificateFiles": (PERF, "CertificateFiles"),
    "PerfTcp": (PERF, "PerfTcpPlan"), "ReportPlan": (PERF, "ReportPlan"), "FramesPlan": (PERF, "FramesPlan"),
    "Csv": (PERF, "CsvPlan"),
    "RequestedController": ("crates/transport/src/perf_load/controller_negotiation.rs", "RequestedController"),
    "CalleePlan": (CALLS, "CalleePlan"), "CallerPlan": (CALLS, "CallerPlan"), "Flow": (CALLS, "CallFlow"),
    "ServePlan": (SERVE, "HttpServerPlan"), "Content": (SERVE, "SiteContent"), "ServeTcp": (SERVE, "HttpTcpPlan"),
    "TlsPlan": (SERVE, "HttpTlsPlan"), "BundleNodePlan": (DTN, "BundleNodePlan"), "NeighbourPlan": (DTN, "NeighbourPlan"),
    "NeighbourTls": (DTN, "NeighbourTls"), "IssuePlan": ("crates/programs/src/dtn/certificates.rs", "CertificatePlan"),
}  # fmt: skip
"""Module of the executable that reads each."""

ROLES = {
    "PerfServerPlan": "server",
    "PerfClientPlan": "client",
    "CalleePlan": "callee",
    "CallerPlan": "caller",
}
"""Tags of the variants of their enum."""

NAMES = {
    "Secrets": "dict[str, str]",
    "String": "str", "PathBuf": "str", "SocketAddr": "str", "bool": "bool", "Value": "Mapping[str, Any]",
    # options, of which the executable rejects unknown ones
    "PerfTransport": "str", "ControllerPolicy": "str", "HttpVersion": "str", "TlsPolicy": "str",
    "ServerVerificationPlan": "str | Mapping[str, str]",
    "CongestionPlan": "CongestionSpec", "HttpServerLimits": "Mapping[str, int]", "DatagramsSpec": "Mapping[str, Any]",
}  # fmt: skip


def _fields(file: str, struct: str) -> Iterator[tuple[str, str, bool]]:
    """Name, type and whether it may be left out, of every field."""
    source = (ROOT / file).read_text(encoding="utf-8")
    found = re.search(
        rf"((?:#\[[^\n]*\]\n)*)pub struct {struct}(?:<[^>]*>)? \{{\n(.*?)\n\}}", source, re.DOTALL
    )
    assert found is not None, (file, struct)
    over, body = found.groups()
    assert "deny_unknown_fields" in over, f"{struct} takes keys that it does not know"
    every = re.search(r"serde\([^)]*\bdefault\b", over) is not None
    may = every
    renamed = None
    for line in body.splitlines():
        if (attribute := re.match(r" *#\[serde\((.*)\)\]$", line)) is not None:
            may = may or re.search(r"\bdefault\b", attribute[1]) is not None
            if (name := re.search(r'\brename = "(\w+)"', attribute[1])) is not None:
                renamed = name[1]
        elif (field := re.match(r" +pub (\w+): (.*),$", line)) is not None:
            yield renamed or field[1], field[2], may
            may, renamed = every, None


def _python(rust: str, file: str) -> str:
    """A type of the executable's as ``process_plans`` has it."""
    if re.fullmatch(r"[iu](\d+|size)", rust):
        return "int"
    if re.fullmatch(r"f\d+", rust):
        return "float"
    if (inner := re.fullmatch(r"Option<(.*)>", rust)) is not None:
        return f"{_python(inner[1], file)} | None"
    if (inner := re.fullmatch(r"Vec<\((\w+), (\w+)\)>", rust)) is not None:
        return f"Sequence[tuple[{_python(inner[1], file)}, {_python(inner[2], file)}]]"
    if (inner := re.fullmatch(r"(Vec|PerHost)<(.*)>", rust)) is not None:
        outer = "Sequence" if inner[1] == "Vec" else "PerHost"
        return f"{outer}[{_python(inner[2], file)}]"
    if (inner := re.fullmatch(r"\[(\w+); \d+\]", rust)) is not None:
        return f"Sequence[{_python(inner[1], file)}]"
    if (inner := re.fullmatch(r"BTreeMap<(\w+), (.*)>", rust)) is not None:
        return f"Mapping[{_python(inner[1], file)}, {_python(inner[2], file)}]"
    # a name of its own file first, then one that only another file has
    places = [place for place in READ.values() if place[1] == rust]
    home = file if (file, rust) in places or len(places) != 1 else places[0][0]
    here = [name for name, place in READ.items() if place == (home, rust)]
    return here[0] if here else NAMES.get(rust, rust)


def keys(table: Any) -> dict[str, tuple[str, bool]]:
    """Types of a table's keys as text, and whether each may be left out: what is text so far, Python does not know."""
    found = {}
    for name, hint in table.__annotations__.items():
        text = getattr(hint, "__forward_arg__", str(hint))
        inner = re.fullmatch(r"NotRequired\[(.*)\]", text)
        found[name] = (text, not table.__total__) if inner is None else (inner[1], True)
    return found


@pytest.mark.parametrize("name", READ)
def test_a_table_is_what_the_executable_reads(name: str) -> None:
    table = getattr(process_plans, name)
    file, struct = READ[name]
    fields = {field: (_python(rust, file), may) for field, rust, may in _fields(file, struct)}
    assert fields
    if name in ROLES:
        fields["role"] = (f"Literal['{ROLES[name]}']", False)
    assert keys(table) == fields


def test_no_table_is_left_out() -> None:
    named = {name for name in process_plans.__all__ if name not in ("MeasuredSide", "WirePlan", "to_json")}
    assert named == set(READ)


def test_one_place_writes_plans() -> None:
    """Everywhere else plans are tables, not text."""
    plan: process_plans.CalleePlan = {"role": "callee", "listen": "[::]:7", "once": True, "calls": 3}
    assert process_plans.to_json(plan) == b'{"role": "callee", "listen": "[::]:7", "once": true, "calls": 3}'
    folder = ROOT / "python/bentpipe/lab"
    sends = [
        file for file in folder.rglob("*.py") if re.search(r"json\.dumps\(plan\b", file.read_text("utf-8"))
    ]
    # A browser session reads its own plan.
    assert sorted(str(file.relative_to(folder)) for file in sends) == [
        "browser/runner.py",
        "process_plans.py",
    ]
