"""Scenarios: errors name their key, and valid ones become the input of the engine."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.base import Table, construct_table
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.link.direction import Direction
from bentpipe.scenario.model import Scenario

DATA = tomllib.loads(Path(__file__).with_name("wrong.toml").read_text())
GEO: str = DATA["scenario"]
TRACES: dict[str, str] = DATA["traces"]
WRONG = [(case["old"], case["new"], case["key"], case["said"]) for case in DATA["wrong"]]
CATALOGUE = [
    {"scenario_name": "newreno", "aliases": ["reno"], "options": []},
    {"scenario_name": "cubic", "aliases": [], "options": [{"key": "fast", "quantity": "flag"}]},
    {
        "scenario_name": "hybla",
        "aliases": [],
        "options": [{"key": "growth_cap", "quantity": "number", "min": 1, "max": 9}],
    },
]


def write(folder: Path, text: str) -> Path:
    for name, content in TRACES.items():
        (folder / name).write_text(content)
    path = folder / "test.toml"
    path.write_text(text)
    return path


def spec(folder: Path, text: str) -> dict[str, Any]:
    plan = build_plan(load_scenario(write(folder, text)), "test", catalogue=CATALOGUE)
    return dict(plan.runs[0].spec)


def up(found: dict[str, Any]) -> list[dict[str, Any]]:
    stages: list[dict[str, Any]] = found["graph"]["links"][0]["up"]
    return stages


@pytest.mark.parametrize(("old", "new", "key", "output"), WRONG)
def test_errors_are_reported_by_key(tmp_path: Path, old: str, new: str, key: str, output: list[str]) -> None:
    text = GEO.replace(old, new, 1)
    assert text != GEO
    with pytest.raises(ScenarioError) as error:
        spec(tmp_path, text)
    message = str(error.value)
    assert f"test.toml: {key}" in message
    for words in output:
        assert words in message, message
    assert "pydantic" not in message


def test_a_direction_becomes_queue_loss_and_delay_in_this_order(tmp_path: Path) -> None:
    assert up(spec(tmp_path, GEO)) == [
        {
            "kind": "transmit",
            "queue": {"kind": "drop_tail", "limit": {"bytes": 625_000}},
            "service": {"kind": "rate", "rate_bit_s": 10_000_000, "changes": []},
        },
        {"kind": "loss", "model": {"kind": "bernoulli", "probability": 0.01}, "changes": []},
        {"kind": "delay", "delay_ns": 250_000_000, "changes": []},
    ]


def test_netem_counts_packets_and_loses_before_the_queue(tmp_path: Path) -> None:
    found = up(spec(tmp_path, GEO.replace('loss = "1 %"', 'loss = "1 %", netem = true')))
    assert [stage["kind"] for stage in found] == ["loss", "netem"]
    # 10 Mbit/s x 500 ms / 1500 B = 416.67: the 417 of who sets netem's limit by hand
    assert found[1] == {
        "kind": "netem",
        "rate_bit_s": 10_000_000,
        "delay_ns": 250_000_000,
        "limit_packets": 417,
    }


@pytest.mark.parametrize(
    ("direction", "kind", "part"),
    [
        ('aqm = "codel"', "transmit", {"kind": "codel", "limit": {"bytes": 625_000}, "target_ns": 5_000_000}),
        (
            'reconfiguration = { phase = "12 s", delay = ["8 ms", "40 ms"], delay_jitter = ["0 ms", "2 ms"], jitter = "1 s", delay_correlation = 0.5 }',
            "reconfiguration_delay",
            {
                "reconfiguration": {"interval_ns": 15 * 10**9, "phase_ns": 12 * 10**9, "jitter_ns": 10**9},
                "delay_ns": [8_000_000, 40_000_000],
                "jitter_ns": [0, 2_000_000],
                "step_ns": 10_000_000,
                "correlation": 0.5,
            },
        ),
        (
            'reconfiguration = { loss = ["0 %", "1 %"], loss_bursts = { probability = "30 %", duration = ["10 ms", "20 ms"] } }',
            "loss",
            {
                "model": {
                    "kind": "reconfiguration",
                    "reconfiguration": {"interval_ns": 15 * 10**9, "phase_ns": 0, "jitter_ns": 0},
                    "probability": [0.0, 0.01],
                    "burst_probability": 0.3,
                    "burst_ns": [10_000_000, 20_000_000],
                }
            },
        ),
        ('aqm = "drop-head"', "transmit", {"kind": "drop_head", "limit": {"bytes": 625_000}}),
        (
            'aqm = { name = "fq-codel", target = "20 ms" }',
            "transmit",
            {"kind": "fq_codel", "target_ns": 20_000_000, "ecn": True},
        ),
        (
            'jitter = { normal = { mean = "5 ms", deviation = "1 ms" }, reorder = true }',
            "jitter",
            {"reorder": True},
        ),
        (
            'reorder = { probability = "1 %", delay = "20 ms" }',
            "reorder",
            {"probability": 0.01, "delay_ns": 20_000_000},
        ),
        (
            'outages = [{ at = "1 s", duration = "500 ms" }]',
            "outage",
            {"windows": [[10**9, 15 * 10**8]], "buffer_packets": False},
        ),
        (
            'delay = { trace = "delay.csv", interpolation = "linear" }',
            "delay_trace",
            {"points": [[0, 10_000_000], [1_500_000_000, 12_250_000]], "interpolation": "linear"},
        ),
        (
            'changes = [{ at = "1 s", delay = "100 ms" }]',
            "delay",
            {"changes": [{"at_ns": 10**9, "delay_ns": 100_000_000}]},
        ),
    ],
)
def test_keys_of_a_direction(tmp_path: Path, direction: str, kind: str, part: dict[str, Any]) -> None:
    found = up(spec(tmp_path, GEO.replace('loss = "1 %"', direction)))
    (stage,) = [one for one in found if one["kind"] == kind]
    actual = stage["queue"] if kind == "transmit" else stage
    assert part.items() <= actual.items()


@pytest.mark.parametrize(
    ("loss", "model"),
    [
        (
            '{ gilbert_elliott = { good_to_bad = "1 %", bad_to_good = "50 %" } }',
            {
                "kind": "gilbert_elliott",
                "good_to_bad": 0.01,
                "bad_to_good": 0.5,
                "loss_good": 0.0,
                "loss_bad": 1.0,
            },
        ),
        (
            '{ burst = { interval = "10 s", duration = "100 ms" } }',
            {"kind": "burst", "interval_ns": 10**10, "duration_ns": 10**8, "offset_ns": 0},
        ),
        ('{ trace = "lost.txt" }', {"kind": "trace", "packets": [3, 7]}),
    ],
)
def test_loss_models(tmp_path: Path, loss: str, model: dict[str, Any]) -> None:
    found = up(spec(tmp_path, GEO.replace('"1 %"', loss)))
    (stage,) = [one for one in found if one["kind"] == "loss"]
    assert stage["model"] == model


def test_traces_of_rate(tmp_path: Path) -> None:
    text = GEO.replace('up = { rate = "10 Mbit/s"', 'up = { rate = { trace = "rate.csv" }')
    assert up(spec(tmp_path, text))[0]["service"] == {
        "kind": "rate",
        "rate_bit_s": 10_000_000,
        "changes": [{"at_ns": 500_000_000, "rate_bit_s": 2_500_000}],
    }
    text = GEO.replace('up = { rate = "10 Mbit/s"', 'up = { trace = "link.mahi"')
    assert up(spec(tmp_path, text))[0]["service"] == {
        "kind": "trace",
        "opportunities_ns": [10**6, 10**6, 2 * 10**6],
        "opportunity_bytes": 1504,
        "repeat_ns": 2 * 10**6,
    }


def test_both_is_shared_and_a_direction_has_the_last_word(tmp_path: Path) -> None:
    text = GEO.replace(
        'down = { rate = "10 Mbit/s", queue = "1 BDP" }', 'both = { rate = "2 Mbit/s", queue = "none" }'
    )
    links = spec(tmp_path, text)["graph"]["links"][0]
    assert links["down"][0]["service"]["rate_bit_s"] == 2_000_000
    assert links["down"][0]["queue"]["limit"] is None
    assert links["up"][0]["service"]["rate_bit_s"] == 10_000_000


def test_a_path_is_a_line_of_nodes_and_an_access_is_a_link_of_its_own(tmp_path: Path) -> None:
    text = GEO.replace('start = "500 ms"', 'start = "500 ms"\naccess = { delay = "5 ms" }')
    text = text.replace("[[flow]]", '[[path.segment]]\nname = "ground"\ndelay = "10 ms"\n[[flow]]', 1)
    graph = spec(tmp_path, text)["graph"]
    assert {node["name"]: node["kind"] for node in graph["nodes"]} == {
        "client": "router",
        "satellite-ground": "router",
        "server": "host",
        "hybla.client": "host",
        "rival.client": "host",
    }
    links = {link["name"]: link for link in graph["links"]}
    assert links["rival.access"]["up"] == [{"kind": "delay", "delay_ns": 5_000_000, "changes": []}]
    assert links["hybla.access"]["up"] == []
    # one BDP counts the whole path, accesses left out: 2 x (250 + 10) ms
    assert links["satellite"]["up"][0]["queue"]["limit"] == {"bytes": 650_000}


def test_a_graph_names_its_nodes_and_flows_their_ends(tmp_path: Path) -> None:
    text = """
duration = "2 s"
[graph]
node = ["a", "b", { name = "r", kind = "router" }]
[[graph.link]]
name = "one"
client_side = "a"
server_side = "r"
delay = "10 ms"
both = { rate = "1 Mbit/s" }
[[graph.link]]
name = "two"
client_side = "r"
server_side = "b"
delay = "20 ms"
[[flow]]
name = "f"
congestion = "cubic"
client = "a"
server = "b"
"""
    found = spec(tmp_path, text)
    assert found["flows"][0]["client"] == "a"
    assert found["graph"]["links"][0]["up"][0]["queue"]["limit"] == {"bytes": 7_500}
    with pytest.raises(ScenarioError, match=r'flow.f.server: no host "c", expected one of: a, b'):
        spec(tmp_path, text.replace('server = "b"\n', 'server = "c"\n'))
    with pytest.raises(ScenarioError, match=r"link two: no node"):
        spec(tmp_path, text.replace('server_side = "b"', 'server_side = "c"'))


def test_loads_in_plain_keys(tmp_path: Path) -> None:
    def load(words: str) -> dict[str, Any]:
        found = spec(tmp_path, GEO.replace('load = "T:*1:0:-:2s"', words))
        result: dict[str, Any] = found["flows"][0]["load"]
        return result

    up_and_down = load('load = { time = "1 s" }\ndirection = "both"')["streams"]
    assert [(s["stream_id"], s["amount"]["direction"]) for s in up_and_down] == [(0, "up"), (4, "down")]
    (down,) = load('load = { bytes = "5.3 MB" }\ndirection = "down"')["streams"]
    assert down["amount"] == {"mode": "data", "up_bytes": 8, "down_bytes": 5_300_000}
    assert len(load('load = { bytes = "1 kB", streams = 3 }')["streams"]) == 3
    assert load(
        'load = { poisson = { interval = "1 s", size = { pareto = { shape = 1.2, min = "1 kB", max = "1 MB" } } } }'
    ) == {
        "kind": "poisson",
        "mean_interarrival_ns": 10**9,
        "direction": "up",
        "duration_ns": 2 * 10**9,
        "size": {"kind": "pareto", "shape": 1.2, "min_bytes": 1000, "max_bytes": 1_000_000},
    }
    assert (
        load('load = { on_off = { on = "1 s", off = "2 s", exponential = true, rate = "2 Mbit/s" } }')[
            "rate_bit_s"
        ]
        == 2_000_000
    )
    (whole,) = load("")["streams"]
    assert whole["amount"]["duration_ns"] == 2 * 10**9


def test_quic_options_of_a_flow_win_over_the_table_and_the_defaults(tmp_path: Path) -> None:
    text = GEO.replace(
        'start = "500 ms"', 'start = "500 ms"\nquic = { mtu = "1200 B", ip = 6, packets_per_ack = 10 }'
    )
    text = text + '[quic]\nmtu = "1400 B"\ninitial_window = "32 packets"\nidle_timeout = "30 s"\n'
    first, second = (flow["transport"] for flow in spec(tmp_path, text)["flows"])
    assert (first["mtu_bytes"], first["header_bytes"], first["initial_window_bytes"]) == (1400, 28, 44_800)
    assert (second["mtu_bytes"], second["header_bytes"], second["initial_window_bytes"]) == (1200, 48, 38_400)
    assert (first["ack_eliciting_threshold"], second["ack_eliciting_threshold"]) == (None, 9)
    assert first["idle_timeout_ns"] == 30 * 10**9
    plain = spec(tmp_path, GEO)["flows"][0]["transport"]
    assert (
        plain["initial_window_bytes"] == 14_520
    )  # 10 packets of 1452 B, below 14720 B (RFC 9002 section 7.2)
    assert plain["receive_window_bytes"] >= 2 * 625_000


@pytest.mark.parametrize(
    ("aqm", "message"),
    [
        ({"name": "drop-tail", "ecn": True}, 'found ecn beside "drop-tail", expected it with codel or fq-codel'),
        ({"name": "drop-head", "target": "5 ms"}, 'found target beside "drop-head"'),
        ({"name": "codel", "queues": 1024}, 'found queues beside "codel", expected it with fq-codel'),
        ({"name": "codel", "quantum": "1514 B"}, 'found quantum beside "codel", expected it with fq-codel'),
    ],
)  # fmt: skip
def test_a_discipline_has_its_own_options(tmp_path: Path, aqm: dict[str, object], message: str) -> None:
    data = tomllib.loads(GEO)
    data["path"]["segment"][0]["up"] = data["path"]["segment"][0].get("up", {}) | {"aqm": aqm}
    with pytest.raises(ScenarioError, match=message):
        build_plan(load_scenario(data), "test")


def test_several_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = GEO.replace('"250 ms"', '"250"').replace('"1 %"', '"120 %"')
    with pytest.raises(ScenarioError) as error:
        spec(tmp_path, text)
    assert {key for key, _ in error.value.problems} == {"path.satellite.delay", "path.satellite.up.loss"}


def test_the_schema_accepts_what_is_right_and_refuses_what_is_not() -> None:
    import jsonschema

    schema = json.loads(json.dumps(Scenario.model_json_schema(mode="validation")))
    checker = jsonschema.Draft202012Validator(schema)
    for file in sorted((Path(__file__).parents[2] / "scenarios").glob("*.toml")):
        checker.validate(tomllib.loads(file.read_text()))
    checker.validate(tomllib.loads(GEO))
    checker.validate(
        tomllib.loads(GEO.replace('loss = "1 %"', 'outages = [{ at = "1 s", duration = "1 s" }]'))
    )
    for old, new in (
        ("title =", "titel ="),
        ('queue = "1 BDP"', "queue = true"),
        ('"hybla"\nload', '"hybla"\nlode'),
    ):
        assert not checker.is_valid(tomllib.loads(GEO.replace(old, new)))


def test_dates_and_infinities_are_refused(tmp_path: Path) -> None:
    for value in ("2024-01-01", "inf"):
        with pytest.raises(ScenarioError, match=r"flow\.congestion\.growth_cap: found"):
            spec(
                tmp_path,
                GEO.replace(
                    'congestion = "hybla"', f'congestion = {{ name = "hybla", growth_cap = {value} }}'
                ),
            )


def test_a_name_may_hold_any_letter() -> None:
    for name in ("é", "ß-2", "Zürich_1", "衛星", "прокси", "नमस्ते", "a", "x1"):
        data = tomllib.loads(GEO.replace('"satellite"', f'"{name}"').replace('"rival"', f'"{name}"'))
        data["sweep"] = {f"flow.{name}.congestion": ["cubic", "bbr"], f"path.{name}.delay": ["1 ms", "2 ms"]}
        plan = build_plan(load_scenario(data), "test")
        assert {run.spec["graph"]["links"][0]["name"] for run in plan.runs} == {name}
        assert len(plan.runs) >= 4
        wrong = {**data, "path": {"segment": [{**data["path"]["segment"][0], "delay": "fast"}]}}
        with pytest.raises(ScenarioError, match=rf"path\.{name}\.delay: found .fast."):
            build_plan(load_scenario({**wrong, "sweep": {}}), "test")


@pytest.mark.parametrize(
    "name", ["", "1a", "-a", "_a", "a b", "a.b", "a/b", "a\nb", "a\u200b", "\u0301a", "a'", "a\u202eb"]
)
def test_a_name_is_letters_digits_and_strokes(name: str) -> None:
    data = tomllib.loads(GEO)
    data["flow"][0]["name"] = name
    with pytest.raises(ScenarioError, match="expected a name: a letter, then letters, digits, _ or -"):
        build_plan(load_scenario(data), "test")


def test_accents_are_part_of_their_letters() -> None:
    data = tomllib.loads(GEO)
    data["flow"][0]["name"] = "e\u0301"
    with pytest.raises(ScenarioError, match=r"decomposed accents, expected .\u00e9. \(NFC\)"):
        build_plan(load_scenario(data), "test")


def test_tables_after_a_removed_statement_would_pass_a_check() -> None:
    """They are made without one (:func:`bentpipe.scenario.base.construct_table`)."""

    def tables(of: type[Table]) -> set[type[Table]]:
        return {of}.union(*(tables(one) for one in of.__subclasses__()))

    found = [
        field.default
        for table in tables(Table)
        for field in table.model_fields.values()
        if isinstance(field.default, Table)
    ]
    assert {type(one).__name__ for one in found} >= {"Quic", "Rlc", "Side", "Tcp", "Trace", "Udp"}
    for default in [*found, construct_table(Direction)]:
        checked = type(default)(**{key: getattr(default, key) for key in default.model_fields_set})
        assert (checked, checked.model_fields_set) == (default, default.model_fields_set)
