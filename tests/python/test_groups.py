"""Flow groups: their plan, their series together, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from bentpipe.cli import app
from bentpipe.figures.context import FigureContext
from bentpipe.lab.emulation.group_series import add_groups
from bentpipe.lab.emulation.unsupported import refusals
from bentpipe.metrics.compute import jain_index, run_metrics
from bentpipe.metrics.fairness import NO_SERIES
from bentpipe.metrics.groups import group_metrics
from bentpipe.metrics.store_comparison import compare_stores as compare
from bentpipe.plan.document import load_scenario
from bentpipe.plan.flow.groups import count_series, flow_groups, representative_flows
from bentpipe.plan.plan import build_plan
from bentpipe.report.store_page import write_report
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.store.codec import TABLES, decode
from bentpipe.store.reader import Store, open_store
from bentpipe.store.scan import GROUP
from bentpipe.trace_check import verify

SEGMENT: dict[str, Any] = {"name": "s", "delay": "20 ms", "both": {"rate": "10 Mbit/s"}}
WEB: dict[str, Any] = {"name": "web", "congestion": "cubic", "transport": "tcp", "direction": "down"}
RIVAL: dict[str, Any] = {"name": "rival", "congestion": "newreno", "direction": "down"}


def scenario(*flows: dict[str, Any], **top: Any) -> dict[str, Any]:
    return {"duration": "4 s", "path": {"segment": [SEGMENT]}, "flow": list(flows), **top}


def spec_of(data: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(build_plan(load_scenario(data), "test").runs[0].spec_json())
    return spec


def tables_of(data: dict[str, Any]) -> dict[str, pl.DataFrame]:
    return dict(decode(engine.run(json.dumps(spec_of(data)))).tables)


def stored(data: dict[str, Any], folder: Path) -> Path:
    (folder / "scenario.json").write_text(json.dumps(data))
    import bentpipe

    return Path(bentpipe.run(data, out=folder / "store", jobs=1).path)


def test_a_count_makes_flows_that_differ_in_name_access_and_user() -> None:
    access = {"delay": "1 ms", "both": {"rate": "5 Mbit/s"}}
    spec = spec_of(scenario({**WEB, "count": 3, "access": access}, {**RIVAL, "user": "office"}))
    names = ["web-1", "web-2", "web-3"]
    links = [f"{name}.access" for name in names]
    assert spec["groups"] == [{"name": "web", "flows": names, "links": links}]
    assert [flow["name"] for flow in spec["flows"]] == [*names, "rival"]
    assert [flow["client"] for flow in spec["flows"][:3]] == [f"{name}.client" for name in names]
    assert [flow.get("user", 0) for flow in spec["flows"]] == [2, 3, 4, 1]
    alike = [
        {key: value for key, value in flow.items() if key not in ("name", "client", "user")}
        for flow in spec["flows"][:3]
    ]
    assert alike[0] == alike[1] == alike[2]
    assert alike[0]["start_jitter_ns"] > 0
    assert flow_groups(spec) == dict.fromkeys(names, "web")
    assert [(name, flow["name"]) for name, flow in representative_flows(spec)] == [
        ("web", "web-1"),
        ("rival", "rival"),
    ]
    # Two series of flows; of links the segment, the three accesses together, and the link of the rival.
    assert count_series(spec) == (2, 3)


def test_a_flow_without_a_count_has_the_plan_that_it_had() -> None:
    spec = spec_of(scenario(WEB, RIVAL))
    assert "groups" not in spec
    assert not any("user" in flow for flow in spec["flows"])
    assert spec_of(scenario({**WEB, "user": "me"}))["flows"][0]["user"] == 1
    shared = spec_of(scenario({**WEB, "count": 2, "user": "me"}, {**RIVAL, "user": "me"}))
    assert {flow["user"] for flow in shared["flows"]} == {1}


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"count": 0}, "flow.web.count: found 0, expected at least 1"),
        ({"count": 10_001}, "flow.web.count: found 10001, expected at most 10000"),
        ({"count": 2.5}, "flow.web.count: found 2.5, expected a whole number"),
        ({"time_series": "per-flow"}, 'flow.web: found time_series = "per-flow" without a count'),
        ({"count": 2, "time_series": "both"}, 'flow.web.time_series: found "both"'),
        ({"count": 2, "user": "no name"}, "flow.web.user"),
    ],
)
def test_invalid_groups_are_refused_by_key(flow: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as found:
        spec_of(scenario({**WEB, **flow}))
    assert message in str(found.value)


def test_no_flow_is_called_like_one_of_a_group() -> None:
    with pytest.raises(
        ScenarioError, match=r'flow\.web-2\.name: "web-2" is also the name of one of the 2 flows of "web"'
    ):
        spec_of(scenario({**WEB, "count": 2}, {**RIVAL, "name": "web-2"}))
    with pytest.raises(ScenarioError, match='"a-1-1" is also the name'):
        spec_of(scenario({**WEB, "name": "a-1", "count": 2}, {**RIVAL, "name": "a-1-1"}))


def test_errors_name_the_table_of_the_group() -> None:
    late = {**WEB, "count": 3, "start": "5 s"}
    with pytest.raises(ScenarioError, match=r"flow\.web\.start: found 5 s"):
        spec_of(scenario(late))
    with pytest.raises(ScenarioError, match=r"flow\.web\.access\.up\.queue"):
        spec_of(
            scenario(
                {**WEB, "count": 3, "access": {"delay": "1 ms", "both": {"rate": "1 Mbit/s", "queue": "1 B"}}}
            )
        )


def summed(tables: dict[str, pl.DataFrame], table: str, name: str, by: list[str]) -> pl.DataFrame:
    """The rows of a table that begin with ``name``, added up."""
    column = by[1]
    rows = tables[table].filter(pl.col(column).str.starts_with(f"{name}-"))
    saved = pl.col(column).str.replace(r"-\d+", "")
    whole = [c for c, kind in rows.schema.items() if kind == pl.Int64]
    return rows.with_columns(saved).group_by(by, maintain_order=True).agg(pl.col(whole).sum()).sort(by)


@pytest.mark.parametrize("transport", ["tcp", "quic"])
def test_a_group_is_the_sum_of_its_flows(transport: str) -> None:
    access = {"delay": "1 ms", "both": {"rate": "5 Mbit/s"}}
    flow = {**WEB, "transport": transport, "count": 4, "access": access}
    each = tables_of(scenario({**flow, "time_series": "per-flow"}, RIVAL))
    flows = each["flows"]
    assert set(flows["flow"]) == {"web", "web-1", "web-2", "web-3", "web-4", "rival"}
    by = ["time_s", "flow", "side"]
    group = flows.filter(flow="web").sort(by)
    expected = summed(each, "flows", "web", by)
    assert group.select(expected.columns).equals(expected)
    # Bulk flows end with the run, so that the state of each counts from its start on.
    state = flows.filter(pl.col("flow").str.starts_with("web-")).group_by("time_s", "side").agg(
        pl.col("cwnd_bytes", "pacing_rate_bit_s").sum(), pl.col("smoothed_rtt_ms", "latest_rtt_ms").mean(),
        pl.col("min_rtt_ms").min(), null=pl.col("ssthresh_bytes").null_count(), most=pl.col("ssthresh_bytes").sum(),
    ).sort("time_s", "side")  # fmt: skip
    for column in ("cwnd_bytes", "pacing_rate_bit_s", "min_rtt_ms"):
        assert group[column].to_list() == state[column].to_list(), column
    for column in ("smoothed_rtt_ms", "latest_rtt_ms"):
        assert group[column].to_list() == pytest.approx(state[column].to_list(), abs=1e-6, nan_ok=True), (
            column
        )
    assert group["ssthresh_bytes"].to_list() == [
        None if null else most for null, most in state.select("null", "most").iter_rows()
    ]
    by = ["time_s", "link"]
    together = each["links"].filter(pl.col("link").str.starts_with("web.access")).sort(by)
    assert set(together["link"]) == {"web.access.up", "web.access.down"}
    expected = summed(each, "links", "web", by)
    assert together.select(expected.columns).equals(expected)
    assert each["flow_summary"][GROUP].to_list() == ["rival"] * 2 + ["web"] * 8
    alone = tables_of(scenario(flow, RIVAL))
    assert set(alone["flows"]["flow"]) == {"web", "rival"}
    assert set(alone["controller_state"]["flow"]) <= {"rival"}
    assert {link for link in alone["links"]["link"] if "access" in link} == {
        "web.access.up", "web.access.down", "rival.access.up", "rival.access.down",
    }  # fmt: skip
    # All else is as it is: what is counted once a run, and what happens, is each flow's own.
    for name in ("flow_summary", "link_summary", "streams", "events"):
        assert alone[name].equals(each[name]), name
    assert alone["flows"].equals(flows.filter(pl.col("flow").is_in(["web", "rival"])))


def test_a_group_of_one_is_that_flow() -> None:
    plain = tables_of(scenario({**WEB, "name": "web-1", "start_jitter": "10 ms"}))
    group = tables_of(scenario({**WEB, "count": 1}))
    for name in TABLES:
        if name in plain and name != "controller_state":
            frame = group[name]
            if "flow" in frame.columns:
                frame = frame.with_columns(flow=pl.col("flow").replace("web", "web-1"))
            assert frame.drop(GROUP, strict=False).equals(plain[name]), name


def test_state_of_flows_that_are_over_is_no_part_of_a_group() -> None:
    short = {**WEB, "count": 3, "load": {"bytes": "200 kB"}}
    found = tables_of(scenario({**short, "time_series": "per-flow"}, duration="6 s"))
    ends = found["flow_summary"].filter(side="server")["end_s"].to_list()
    assert all(end < 5.5 for end in ends)
    last = found["flows"].filter(side="server").filter(pl.col("time_s") > 5.5)
    group, members = last.filter(flow="web"), last.filter(pl.col("flow") != "web")
    assert group["cwnd_bytes"].to_list() == [0.0] * group.height
    assert group["smoothed_rtt_ms"].null_count() == group.height
    assert members["cwnd_bytes"].min() > 0  # type: ignore[operator]
    assert group["sent_bytes"].min() > 600_000  # type: ignore[operator]


def test_each_flow_draws_its_own_whatever_the_count_is() -> None:
    load = {"poisson": {"interval": "400 ms", "size": {"exponential": "10 kB"}}}
    opened = {}
    for count in (1, 3, 6):
        found = tables_of(scenario({**WEB, "count": count, "load": load}))["streams"]
        opened[count] = {
            name: found.filter(flow=name)["start_s"].to_list() for name in found["flow"].unique()
        }
    for name, times in opened[3].items():
        # The arrivals; the time of a connection depends on the others.
        assert opened[6][name][0] == times[0]
    assert opened[1]["web-1"][0] == opened[3]["web-1"][0]
    assert len({times[0] for times in opened[6].values()}) == 6


def test_a_count_is_swept_and_shown(tmp_path: Path) -> None:
    data = scenario(
        {**WEB, "count": 1}, RIVAL, seeds=2, sweep={"flow.web.count": [1, 5]}, duration="3 s", title="Many"
    )
    path = stored(data, tmp_path)
    store = open_store(path)
    each, groups = run_metrics(store), group_metrics(store)
    assert each.height == 2 * (2 + 6)
    assert groups.height == 2 * (2 + 2)
    row = groups.filter(pl.col("flow.web.count") == "5", seed=1, flow="web").row(0, named=True)
    members = each.filter(pl.col("flow.web.count") == "5", pl.col(GROUP) == "web", seed=1)
    shares = members["goodput_bit_s"].to_list()
    assert row["flows"] == len(shares) == 5
    assert row["goodput_bit_s"] == pytest.approx(sum(shares) / 5)
    assert row["goodput_sum_bit_s"] == pytest.approx(sum(shares))
    assert row["group_jain"] == pytest.approx(jain_index(shares))
    assert (
        min(shares)
        <= row["goodput_p5_bit_s"]
        <= row["goodput_p50_bit_s"]
        <= row["goodput_p95_bit_s"]
        <= max(shares)
    )
    every = each.filter(pl.col("flow.web.count") == "5", seed=1)["goodput_bit_s"].to_list()
    assert row["jain"] == pytest.approx(jain_index(every))
    assert groups["convergence_s"].null_count() == groups.height  # needs the series of each
    assert groups.filter(flow="rival")["goodput_sum_bit_s"].null_count() == 4
    alone = groups.filter(flow="rival").select(each.drop(GROUP).columns)
    assert alone.equals(each.filter(flow="rival").drop(GROUP))

    shown = CliRunner().invoke(app, ["show", str(path)], terminal_width=200, env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "5th percentile" in shown.output
    assert "web-3" not in shown.output
    page = write_report(path).read_text()
    assert "Flow groups" in page
    assert "rival and web (1 to 5 flows) share a path" in page.replace("\u00a0", " ")
    assert '"web-3' not in page
    assert "For a group: mean over its flows with a connection." in page
    material = FigureContext(store)
    assert list(material.flow_names) == ["rival down", "web down"]
    changes = compare(path, path).changes
    assert {change.flow for change in changes} == {"web", "rival", ""}
    sql = "SELECT flow_group, count(*) FROM flow_summary WHERE side = 'client' GROUP BY ALL ORDER BY ALL"
    assert Store(path).connect().execute(sql).fetchall() == [("rival", 4), ("web", 12)]


def test_fairness_over_time_needs_the_series_of_each(tmp_path: Path) -> None:
    data = scenario({**WEB, "count": 3, "time_series": "per-flow"}, duration="16 s")
    path = stored(data, tmp_path)
    page = write_report(path).read_text()
    assert "Fairness over time" in page
    (tmp_path / "sums").mkdir()
    del data["flow"][0]["time_series"]
    other = stored(data, tmp_path / "sums")
    assert "Fairness over time" not in write_report(other).read_text()
    a, b = (run_metrics(open_store(one)) for one in (path, other))
    assert set(b["convergence_reason"]) == {NO_SERIES}
    unlike = ["run", "convergence_s", "convergence_reason"]
    assert a.drop(unlike).equals(b.drop(unlike))


def test_page_loads_of_a_group_are_reported_together(tmp_path: Path) -> None:
    page = {
        "small": {
            "object": [
                {"name": "index", "size": "8 kB"},
                {"name": "photo", "size": "40 kB", "after": ["index"]},
            ]
        }
    }
    browser = {"name": "web", "congestion": "cubic", "count": 4, "load": {"page": "small", "loads": 2}}
    path = stored(scenario(browser, page=page, seeds=3, duration="8 s", trace={"packets": True}), tmp_path)
    store = Store(path)
    assert store.pages.height == 4 * 2 * 3
    shown = CliRunner().invoke(app, ["show", str(path)], env={"COLUMNS": "200"})
    assert "12 of 12" in shown.output
    text = write_report(path).read_text()
    assert "Page loads" in text


@pytest.mark.parametrize("flow", [WEB, {**WEB, "transport": "quic"}], ids=["tcp", "quic"])
def test_verify_finds_nothing_in_a_group_and_a_false_sum_in_one(flow: dict[str, Any], tmp_path: Path) -> None:
    access = {"delay": "1 ms", "both": {"rate": "5 Mbit/s"}}
    data = scenario({**flow, "count": 5, "access": access}, duration="2 s", trace={"packet_steps": True})
    path = stored(data, tmp_path)
    (verdict,) = verify(Store(path))
    assert verdict.findings == ()
    assert verdict.packets > 500
    for table, column, key in (("flows", "received_bytes", "flow"), ("links", "arrived_packets", "link")):
        (file,) = path.glob(f"runs/*/{table}.parquet")
        was, sums = file.read_bytes(), file.with_name("SHA256SUMS").read_bytes()
        one_more = pl.read_parquet(file).with_columns(
            pl.when(pl.col(key).str.starts_with("web"))
            .then(pl.col(column) + 1)
            .otherwise(pl.col(column))
            .alias(column)
        )
        _write(file, one_more)
        (verdict,) = verify(Store(path))
        assert {finding.rule for finding in verdict.findings} == {"counters"}
        assert all(finding.place.startswith("web") for finding in verdict.findings)
        file.write_bytes(was)
        file.with_name("SHA256SUMS").write_bytes(sums)


def _write(file: Path, frame: pl.DataFrame) -> None:
    """A table with its checksum: what is false is in the numbers."""
    import hashlib

    frame.write_parquet(file)
    sums = file.with_name("SHA256SUMS")
    lines = [line for line in sums.read_text().splitlines() if not line.endswith(file.name)]
    lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}")
    sums.write_text("".join(f"{line}\n" for line in lines))


def test_groups_in_real_time_are_added_up_as_the_engine_does() -> None:
    flow = {**WEB, "count": 4, "time_series": "per-flow"}
    spec = spec_of(scenario(flow, RIVAL))
    found = dict(decode(engine.run(json.dumps(spec))).tables)
    theirs = {
        **found,
        "flow_summary": found["flow_summary"].drop(GROUP),
        "flows": found["flows"].filter(pl.col("flow") != "web"),
    }
    made = add_groups(theirs, spec)
    assert made["flow_summary"].equals(found["flow_summary"])
    ours, engines = made["flows"], found["flows"]
    assert ours.columns == engines.columns
    exact = [name for name in ours.columns if "smoothed" not in name and "latest" not in name]
    begun = (
        pl.col("time_s") > 0.2
    )  # a sender that has not begun has no connection, which only the engine knows
    assert ours.filter(begun).select(exact).equals(engines.filter(begun).select(exact))
    for name in ("smoothed_rtt_ms", "latest_rtt_ms"):
        assert ours[name].to_list() == pytest.approx(engines[name].to_list(), abs=1e-6, nan_ok=True)
    sums = add_groups(theirs, spec_of(scenario({**WEB, "count": 4}, RIVAL)))
    assert set(sums["flows"]["flow"]) == {"web", "rival"}


def test_unsupported_options_of_real_time_are_reported_once_per_group() -> None:
    def refused(**flow: Any) -> list[tuple[str, str]]:
        return refusals(spec_of(scenario({**WEB, "transport": "quic", **flow})), engine.catalogue())

    assert refused(count=20) == []
    message = "found 300, each two processes; expected at most 250"
    assert refused(count=300) == [("flow.web.count", message)]
    ((key, _),) = refused(count=3, load={"on_off": {"on": "1 s", "off": "1 s"}})
    assert key == "flow.web.load"
    assert refused(count=3, access={"delay": "1 ms"}) == []
    message = "found 51 hosts, each a namespace; expected at most 40"
    assert refused(count=50, access={"delay": "1 ms"}) == [("flow", message)]


def test_proxies_of_a_group_are_added_up_and_drawn(tmp_path: Path) -> None:
    path = {
        "segment": [{"name": "access", "delay": "5 ms", "both": {"rate": "20 Mbit/s"}}, SEGMENT],
        "proxy": [{"name": "gateway", "between": ["access", "s"]}],
    }
    data = scenario(
        {**WEB, "count": 3, "time_series": "per-flow"},
        path=path,
        trace={"packet_steps": True},
        duration="2 s",
    )
    store = Store(stored(data, tmp_path))
    proxies = store.proxies
    assert set(proxies["flow"]) == {"web", "web-1", "web-2", "web-3"}
    sums = ["connections", "cwnd_bytes", "in_flight_bytes", "buffered_bytes", "sent_bytes", "lost_packets"]
    by = ["time_s", "socket"]
    group = proxies.filter(flow="web").sort(by)
    members = proxies.filter(pl.col("flow") != "web").group_by(by).agg(pl.col(sums).sum()).sort(by)
    assert group.select(*by, *sums).equals(members)
    (verdict,) = verify(store)
    assert verdict.findings == ()
    text = write_report(store.path).read_text()
    assert "The figure shows the split connection with the largest minimum RTT" in text


@pytest.mark.parametrize("turned", [False, True])
def test_a_sweep_may_have_groups_in_some_of_its_cells(turned: bool, tmp_path: Path) -> None:
    one, many = {"label": "one", "flow.web.start": "0 s"}, {"label": "many", "flow.web.count": 3}
    steps = [many, one] if turned else [one, many]
    path = stored(scenario(WEB, RIVAL, duration="2 s", sweep={"how": steps}), tmp_path)
    store = open_store(path)
    found = group_metrics(store).select("sweep.how", "flow", "flows").rows()
    assert sorted(found) == [("many", "rival", 1), ("many", "web", 3), ("one", "rival", 1), ("one", "web", 1)]
    assert "web (1 to 3 flows)" in write_report(path).read_text().replace("\u00a0", " ")
    assert not {change.verdict for change in compare(path, path).changes} - {"none"}
    flows = {name for (name,) in Store(path).connect().execute("SELECT flow FROM flow_summary").fetchall()}
    assert flows == {"rival", "web", "web-1", "web-2", "web-3"}
