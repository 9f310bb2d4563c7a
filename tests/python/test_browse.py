"""``bentpipe browse``: its units, and the lab that each is to have."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.access import resolve_path
from bentpipe.lab.browser.chromium import Site, flags
from bentpipe.lab.browser.page_server import Serving, plan
from bentpipe.lab.browser.runner import Schedule
from bentpipe.lab.browser.session_lab import authorities, lab_plan, object_of, unit_plan
from bentpipe.lab.browser.sessions import Options, in_order, pauses, plan_sessions
from bentpipe.lab.browser.spec import page_load
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from browse_page import FLOW, HEAD, SATELLITE, SCENARIO, written

CATALOGUE = engine.catalogue()


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return written(tmp_path)


# --- units ---------------------------------------------------------------------------------------------------------


def test_both_versions_are_compared_unless_the_scenario_says_otherwise(scenario: Path) -> None:
    found = plan_sessions(str(scenario), Options(units=3), "e", CATALOGUE)
    assert [(run.cell["flow.browser.load.http"], run.seed) for run in found.runs] == [
        (mode, seed) for mode in ("3", "2") for seed in (1, 2, 3)
    ]
    scenario.write_text(SCENARIO.replace('"target-b"', '"target-b", http = "alt-svc"'))
    assert [run.cell for run in plan_sessions(str(scenario), Options(units=2), "e", CATALOGUE).runs] == [
        {},
        {},
    ]
    chosen = plan_sessions(str(scenario), Options(units=1, http=("2", "1.1")), "e", CATALOGUE)
    assert [run.spec["flows"][0]["load"]["http"] for run in chosen.runs] == ["2", "1.1"]


def test_units_have_names_of_their_own_and_keep_them(scenario: Path) -> None:
    def ids(**options: Any) -> set[str]:
        return {
            run.id for run in plan_sessions(str(scenario), Options(units=2, **options), "e", CATALOGUE).runs
        }

    assert ids() == ids()
    for other in ({"pause_s": (1.0, 2.0)}, {"loads": 2}, {"timeout_s": 9.0}, {"netlog": True}):
        assert not ids() & ids(**other), other
    real = {"field_host": "127.0.0.1"}
    assert ids(**real, real=("1", "a")) == ids(**real, real=("1", "b"))
    assert not ids(**real, real=("1", "")) & ids(**real, real=("2", ""))


def test_order_is_drawn_within_a_number_and_pauses_within_their_range(scenario: Path) -> None:
    runs = plan_sessions(str(scenario), Options(units=40), "e", CATALOGUE).runs
    ordered = in_order(runs)
    assert [run.seed for run in ordered] == [seed for seed in range(1, 41) for _ in range(2)]
    first = [run.spec["flows"][0]["load"]["http"] for run in ordered[::2]]
    assert 10 <= first.count("3") <= 30  # 20 expected; outside has a chance of 1 in 500
    times = [pause for run in runs for pause in pauses(run)]
    assert len(times) == 160
    assert 5.0 <= min(times) < 5.5
    assert 14.5 < max(times) <= 15.0
    assert len(set(times)) == 160


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('target-b"', 'target-b", resumption = true', "loses tickets"),
        ('target-b"', 'target-b", keep_connections = true', "closed between"),
        ('target-b"', 'target-b", tls = "1.2"', "1.2-false-start"),
        ('congestion = "cubic"', 'congestion = "hybla"', "this kernel's TCP has .*cubic"),
        (
            'congestion = "cubic"',
            'congestion = "bbr"',
            r'found "bbr", which is BBRv3; .*did you mean "bbr1", BBR version 1',
        ),
        (
            'congestion = "cubic"',
            'congestion = { name = "cubic", slow_start_exit = "hystart++" }',
            'Linux\'s cubic is { name = "cubic", slow_start_exit = "classic" }',
        ),
        ('page = "target-b"', 'bytes = "1 MB"', "one flow with load"),
    ],
)
def test_unsupported_options_of_a_browser_are_refused_by_key(
    scenario: Path, old: str, new: str, message: str
) -> None:
    scenario.write_text(SCENARIO.replace(old, new))
    with pytest.raises(ScenarioError, match=message):
        plan_sessions(str(scenario), Options(), "e", CATALOGUE)


def test_beside_a_simulated_tcp_the_kernels_has_to_be_the_same(scenario: Path) -> None:
    """Options without a value in the scenario are the kernel's in a browser session, and the simulation's in `compare-engines`."""
    assert plan_sessions(str(scenario), Options(units=1), "e", CATALOGUE).runs
    with pytest.raises(ScenarioError, match=r"slow_start_exit = .hystart.*; Linux's cubic is"):
        plan_sessions(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE)
    linux = 'tcp = { congestion = { name = "cubic", slow_start_exit = "classic", avoidance = "linux" } }\n'
    scenario.write_text(SCENARIO + linux)
    assert plan_sessions(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE).runs
    # QUIC's controller is not TCP's
    scenario.write_text(SCENARIO.replace('"cubic"', '"bbr3"') + linux)
    assert plan_sessions(str(scenario), Options(units=1, same_tcp=True), "e", CATALOGUE).runs
    assert plan_sessions(str(scenario), Options(units=1, http=("3",)), "e", CATALOGUE).runs


def test_invalid_sockets_of_proxies_are_refused_by_key(scenario: Path) -> None:
    """For a browser alone a proxy's CUBIC is the kernel's; beside a simulated page the socket that sends it has to say so."""
    split = HEAD + realtime.split(SATELLITE) + FLOW
    linux = '{ name = "cubic", slow_start_exit = "classic", avoidance = "linux" }'
    same = f"tcp = {{ congestion = {linux} }}\n"

    def refused(text: str, **options: Any) -> list[str]:
        scenario.write_text(text)
        try:
            assert plan_sessions(str(scenario), Options(units=1, **options), "e", CATALOGUE).runs
        except ScenarioError as error:
            return [key for key, _ in error.problems]
        return []

    assert refused(split + same) == []
    sends = [f"path.{name}.client_side.congestion" for name in ("terminal", "gateway")]
    assert refused(split + same, same_tcp=True) == sends
    assert refused(split + same, same_tcp=True, http=("3",)) == []
    assert refused(split + same + f"[tcp]\ncongestion = {linux}\n", same_tcp=True) == []
    hybla = split.replace('"early"', '"early"\nclient_side = { congestion = "hybla" }')
    # A lab starts its proxies whatever the page comes over.
    for http in ("2", "3"):
        assert refused(hybla + same, http=(http,)) == sends
    slow = split.replace('"early"', '"early"\nserver_side = { initial_rto = "3 s" }')
    assert refused(slow + same) == [
        f"path.{name}.server_side.initial_rto" for name in ("terminal", "gateway")
    ]


def test_a_controller_of_quic_alone_is_not_passed_to_the_kernel(scenario: Path, tmp_path: Path) -> None:
    for given, of_tcp in (("bbr1", "bbr1"), ("newreno", "newreno"), ("bbr", None), ("hybla", None)):
        words = plan(Serving("target-a", congestion=given))
        assert (words["congestion"]["name"], words["tcp"]["congestion"]) == (given, of_tcp)
    scenario.write_text(SCENARIO + 'tcp = { congestion = "bbr3" }\n')
    with pytest.raises(ScenarioError, match=r'flow.browser.tcp.congestion: .*did you mean "bbr1"'):
        plan(Serving(str(scenario)))


@pytest.mark.parametrize(
    ("tcp", "key", "words"),
    [
        ('min_rto = "1 s"', "min_rto", "Linux's is 200 ms"),
        ('initial_rto = "3 s"', "initial_rto", "no setting"),
        ('server = { max_rto = "60 s" }', "server.max_rto", "120 s"),
        ('delayed_ack = "off"', "delayed_ack", "no setting"),
        ("limited_transmit = false", "limited_transmit", "always"),
        ("adapt_reordering = false", "adapt_reordering", "always"),
        ("prr = false", "prr", "always"),
        ("pacing = true", "pacing", "paces only with BBR"),
        ("fast_open = true", "fast_open", "programs in a lab"),
        ("abc = 2", "abc", "every byte"),
        ("ip = 6", "ip", "expected 4"),
    ],
)
def test_unsupported_options_of_kernel_tcp_are_refused_by_key(
    scenario: Path, tcp: str, key: str, words: str
) -> None:
    scenario.write_text(SCENARIO + f"[tcp]\n{tcp}\n")
    with pytest.raises(ScenarioError) as error:
        plan_sessions(str(scenario), Options(), "e", CATALOGUE)
    ((place, output),) = error.value.problems
    assert place == f"flow.browser.tcp.{key}"
    assert words in output
    # without TCP it plays no part
    assert plan_sessions(str(scenario), Options(http=("3",)), "e", CATALOGUE).runs


def test_options_of_tcp_are_the_kernels(scenario: Path, tmp_path: Path) -> None:
    """By the same options as a flow of `--engine emu`, separately for each end."""
    scenario.write_text(
        SCENARIO
        + """
[tcp]
sack = false
timestamps = false
ecn = true
restart_after_idle = false
mss = "1000 B"
receive_buffer = "3 MB"
server = { window_scaling = false, frto = false, loss_detection = { name = "dupacks", threshold = 5 }, initial_window = "4 packets" }
"""
    )
    run = plan_sessions(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(run, tmp_path, tmp_path / "home", Path("/c"), Path("/rt"), check=True, sandbox=True)
    near, far = lab["tcp"]["client"], lab["tcp"]["server"]
    for side in (near, far):
        assert [side[key] for key in ("sack", "dsack", "timestamps", "ecn", "restart_after_idle")] == [
            False, False, False, True, False
        ]  # fmt: skip
        assert side["receive_buffer_bytes"] == 3_000_000
    duplicates = [
        {"kind": "duplicate_acks", "threshold": 3},  # without SACK
        {"kind": "duplicate_acks", "threshold": 5},
    ]
    assert [side["loss_detection"] for side in (near, far)] == duplicates
    assert [(side["window_scaling"], side["frto"]) for side in (near, far)] == [(True, True), (False, False)]
    assert (near["initial_window_bytes"], far["initial_window_bytes"]) == (10_000, 4000)
    assert {"settings", "initial_windows"} & set(lab) == set()
    assert lab["lab"]["mtu"] == 1500
    assert json.loads((tmp_path / "server.json").read_text())["tcp"]["mss_bytes"] == 1000


@pytest.mark.parametrize(
    ("mss", "mtu", "asked"), [(None, 1500, None), (8960, 9000, 8960), (1460, 1500, None)]
)
def test_links_let_the_segments_pass(
    scenario: Path, tmp_path: Path, mss: int | None, mtu: int, asked: int | None
) -> None:
    scenario.write_text(SCENARIO + ("" if mss is None else f'[tcp]\nmss = "{mss} B"\n'))
    run = plan_sessions(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(run, tmp_path, tmp_path / "home", Path("/c"), Path("/rt"), check=True, sandbox=True)
    assert lab["lab"]["mtu"] == mtu
    assert json.loads((tmp_path / "server.json").read_text())["tcp"]["mss_bytes"] == asked


def test_words_that_are_not_there(scenario: Path) -> None:
    with pytest.raises(ScenarioError, match="alt-svc"):
        plan_sessions(str(scenario), Options(http=("altsvc",)), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="target-a"):
        plan_sessions("target-aa", Options(field_host="there"), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="--remote"):
        plan_sessions("target-a", Options(), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="--access: cannot be combined with the scenario"):
        plan_sessions(str(scenario), Options(access="geo-konnect"), "e", CATALOGUE)
    with pytest.raises(ScenarioError, match="both or none"):
        plan(Serving("target-a", key=Path("k.pem")))


def test_a_har_file_behind_an_access(scenario: Path, tmp_path: Path) -> None:
    """As it is: of a preset and of a scenario, whose own flows and sweeps of them have no part in it."""
    har = tmp_path / "shop.har"
    answer = {"status": 200, "bodySize": 5000}
    har.write_text(json.dumps({"log": {"entries": [{"request": {"url": "https://a/"}, "response": answer}]}}))
    preset = Options(units=1, access="geo-konnect", settings=("path.konnect.delay=100 ms",), pep="early")
    found = plan_sessions(str(har), preset, "e", CATALOGUE)
    assert [run.cell["flow.browser.load.http"] for run in found.runs] == ["3", "2"]
    spec = found.runs[0].spec
    assert [one["body_bytes"] for one in spec["flows"][0]["load"]["page"]["objects"]] == [5000]
    assert {"kind": "delay", "delay_ns": 100_000_000, "changes": []} in spec["graph"]["links"][0]["down"]
    assert [one["handshake"] for one in spec["proxies"]] == ["early"]
    scenario.write_text(SCENARIO + '[sweep]\n"flow.browser.congestion" = ["cubic", "newreno"]\n')
    theirs = plan_sessions(str(har), Options(units=1, access=str(scenario)), "e", CATALOGUE)
    assert len(theirs.runs) == 2
    assert theirs.runs[0].spec["graph"]["links"][0]["name"] == "satellite"
    with pytest.raises(ScenarioError, match="expected --access ACCESS or --remote HOST"):
        plan_sessions(str(har), Options(), "e", CATALOGUE)
    har.write_text("{}")
    with pytest.raises(ScenarioError, match=r"shop.har is not a HAR file: expected log.entries"):
        plan_sessions(str(har), preset, "e", CATALOGUE)


def test_an_access_is_one_path(scenario: Path) -> None:
    scenario.write_text(SCENARIO + '[sweep]\n"path.satellite.delay" = ["60 ms", "300 ms"]\n')
    output = r"sweep.path.satellite.delay: found 2 values, but an access is one path; .* --set 'path.satellite.delay=60 ms'"
    with pytest.raises(ScenarioError, match=output):
        resolve_path(str(scenario))
    graph = resolve_path(str(scenario), [("path.satellite.delay", "300 ms")])[0]["graph"]
    assert {"kind": "delay", "delay_ns": 300_000_000, "changes": []} in graph["links"][0]["up"]


def test_the_lab_has_the_path_the_server_and_the_browser(scenario: Path, tmp_path: Path) -> None:
    run = plan_sessions(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs[0]
    lab = lab_plan(
        run, tmp_path, tmp_path / "home", Path("/usr/bin/chromium"), Path("/rt"), check=True, sandbox=True
    )
    assert lab["lab"]["graph"] == run.spec["graph"]
    assert lab["services"][0]["command"][:2] == ["/rt", "serve"]
    assert lab["commands"][0]["command"][-1] == "{server}"
    tcp = run.spec["flows"][0]["transport"]["tcp"]
    assert lab["tcp"] == {"client": tcp["client"], "server": tcp["server"]}
    server = json.loads((tmp_path / "server.json").read_text())
    assert server["congestion"]["name"] == "cubic"
    assert server["content"]["authorities"] == {
        "origin": "origin.example:4433",
        "google": "google.example:4433",
    }
    unit = json.loads((tmp_path / "plan.json").read_text())
    assert (unit["mode"], unit["opened"], unit["url"]) == (
        "2",
        ["google.example"],
        "https://origin.example:4433/",
    )


def test_urls_are_objects_of_the_page(scenario: Path) -> None:
    page = (
        plan_sessions(str(scenario), Options(units=1), "e", CATALOGUE)
        .runs[0]
        .spec["flows"][0]["load"]["page"]
    )
    assert object_of(page, "https://origin.example:4433/") == ("index", "origin")
    assert object_of(page, "https://google.example:4433/2.png") == ("logo", "google")
    assert object_of(page, "https://google.example:4433/9.png") is None
    assert authorities(page, "www.test") == {"origin": "www.test", "google": "google.www.test"}


def test_a_name_of_ones_own_is_the_first_host_with_tls(scenario: Path) -> None:
    """A certificate has that name: of a site that leads from http to https the second host's."""
    (run,) = plan_sessions(str(scenario), Options(units=1), "e", CATALOGUE).runs[:1]
    page = page_load(run.spec["flows"][0])["page"]

    def named(*hosts: tuple[str, bool]) -> list[str]:
        changed: list[Any] = [{"name": name, "open": False, "tls": tls} for name, tls in hosts]
        page["hosts"] = changed
        return list(authorities(page, "www.test").values())

    assert named(("http://a.example", False), ("a.example", True), ("b", True)) == [
        "host0.www.test", "www.test", "b.www.test",
    ]  # fmt: skip
    assert named(("a", True), ("b", False)) == ["www.test", "b.www.test"]
    assert named(("http://a", False), ("b", False)) == ["www.test", "b.www.test"]


def test_a_recorded_site_is_asked_for_by_the_name_of_its_certificate(scenario: Path, tmp_path: Path) -> None:
    """With a server's name a load begins at the plain host, which has none of its own."""
    (run,) = plan_sessions(str(scenario), Options(units=1), "e", CATALOGUE).runs[:1]
    page = page_load(run.spec["flows"][0])["page"]
    page["hosts"][0]["tls"] = False
    unit = unit_plan(
        run, tmp_path, tmp_path, "192.0.2.1", port=4433, spki=None, ready=None, name="www.test",
        program=Path("chromium"), sandbox=True,
    )  # fmt: skip
    assert unit["url"] == "http://origin.www.test:4433/"
    assert (unit["plain"], list(unit["hosts"])) == (["origin.www.test"], ["origin.www.test", "www.test"])


def test_flags_force_one_protocol_and_let_nothing_else_resolve(tmp_path: Path) -> None:
    site = Site({"a.example": "192.0.2.1", "b.example": "2001:db8::1"}, 4433, "KEY")
    by_mode = {mode: " ".join(flags(mode, site, tmp_path, sandbox=False)) for mode in ("3", "2", "alt-svc")}
    assert "--origin-to-force-quic-on=a.example:4433,b.example:4433" in by_mode["3"]
    assert "--disable-quic" in by_mode["2"]
    assert "--origin-to-force-quic-on=a.example:1,b.example:1" in by_mode["alt-svc"]
    for words in by_mode.values():
        assert "MAP a.example 192.0.2.1, MAP b.example [2001:db8::1], MAP * ~NOTFOUND" in words
        assert "--no-sandbox" in words
    assert "--no-sandbox" not in flags("3", site, tmp_path, sandbox=True)


def test_a_recorded_site_keeps_its_redirects_and_its_plain_hosts(scenario: Path, tmp_path: Path) -> None:
    """The browser begins with http; servers without TLS get no request over QUIC, and TCP has its controller."""

    def entry(url: str, status: int = 200, to: str = "") -> dict[str, Any]:
        return {"request": {"url": url}, "response": {"status": status, "bodySize": 900, "redirectURL": to}}

    entries = [entry("http://a/", 301, "https://a/"), entry("https://a/"), entry("http://b/x.js")]
    (tmp_path / "a.har").write_text(json.dumps({"log": {"entries": entries}}))
    options = Options(units=1, http=("3",), access=str(scenario))
    run = plan_sessions(str(tmp_path / "a.har"), options, "e", CATALOGUE).runs[0]
    lab_plan(run, tmp_path, tmp_path / "home", Path("/c"), Path("/rt"), check=True, sandbox=True)
    server, unit = (json.loads((tmp_path / name).read_text()) for name in ("server.json", "plan.json"))
    names = list(server["content"]["authorities"].values())
    assert names == ["host0.example:4433", "a.example:4433", "host2.example:4433"]
    assert (unit["url"], unit["plain"]) == ("http://host0.example:4433/", ["host0.example", "host2.example"])
    assert server["tcp"]["congestion"] == "cubic"
    page = run.spec["flows"][0]["load"]["page"]
    assert object_of(page, "http://host2.example:4433/2.js") == ("x.js", "http://b")
    site = Site(unit["hosts"], 4433, "KEY", frozenset(unit["plain"]))
    words = flags("3", site, tmp_path, sandbox=True)
    assert "--origin-to-force-quic-on=a.example:4433" in words
    assert "--allow-running-insecure-content" in words
    assert "--allow-running-insecure-content" not in flags("3", Site({}, 1), tmp_path, sandbox=True)


# --- when ----------------------------------------------------------------------------------------------------------


def _at(hour: int, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2026, 3, 1, hour, minute, tzinfo=datetime.UTC)


def test_units_start_at_a_rate_and_within_hours() -> None:
    due = Schedule(every_s=600.0)
    assert due.wait(_at(3), None, 50.0) == 0
    assert due.wait(_at(3), 50.0, 80.0) == pytest.approx(570)
    assert due.wait(_at(3), 50.0, 900.0) == 0
    day = Schedule(hours=(8.0, 18.0))
    assert day.wait(_at(8), None, 0) == 0
    assert day.wait(_at(7, 30), None, 0) == pytest.approx(1800)
    assert day.wait(_at(18), None, 0) == pytest.approx(14 * 3600)
    night = Schedule(hours=(22.5, 6.0))
    assert night.wait(_at(23), None, 0) == night.wait(_at(5, 59), None, 0) == 0
    assert night.wait(_at(12), None, 0) == pytest.approx(10.5 * 3600)
    # The rate ends outside the hours: the next day's first.
    late = Schedule(every_s=3600.0, hours=(8.0, 18.0))
    assert late.wait(_at(17, 30), 0.0, 0.0) == pytest.approx(14.5 * 3600)
