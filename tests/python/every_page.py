"""One page of every kind, from small data, for tests in a browser."""

from __future__ import annotations

import base64
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from bentpipe.break_even import page as map_page
from bentpipe.break_even.access import access
from bentpipe.break_even.config import parse_config
from bentpipe.break_even.ratios import Load, LoadTimes, build_map
from bentpipe.capacity import page as capacity_page
from bentpipe.capacity import parse_config as parse_capacity
from bentpipe.capacity import resolve_access
from bentpipe.capacity.estimate import Estimate
from bentpipe.capacity.quality import Quality
from bentpipe.capacity.search import Capacity, Evaluation
from bentpipe.engine_validation.compare import EngineComparison
from bentpipe.engine_validation.page import write_page as write_agreement
from bentpipe.fit import run as fit
from bentpipe.link_layer import find_access
from bentpipe.link_layer import page as link_layer_page
from bentpipe.link_layer import parse_config as parse_link_layer
from bentpipe.link_layer.config import TRAFFIC
from bentpipe.link_layer.results import COMMON, Measurement, compare_settings, primary_metric
from bentpipe.link_layer.results import Comparison as LinkLayerComparison
from bentpipe.metrics.compare import Equivalence
from bentpipe.metrics.format import TextTable
from bentpipe.metrics.verdicts import Claim, Fact
from bentpipe.metrics.verdicts import Verdict as Judged
from bentpipe.report import brief_page, site_page, store_page
from bentpipe.store.reader import open_store
from bentpipe.suite import page as suite_page
from bentpipe.suite import parse_config as parse_suite
from bentpipe.suite.checks import check_cell
from bentpipe.suite.comparison import compare_controllers
from bentpipe.suite.criterion import judge
from bentpipe.suite.execution import plan_parts
from bentpipe.suite.results import read_results
from bentpipe_studies import page as study_page
from bentpipe_studies.study import Findings
from commands import bentpipe
from synthetic_dish import pings
from test_dtn import ION
from test_headlines import compared
from test_perf_calls import keep
from test_perf_recordings import frames, write
from test_recordings import record

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["FIGURES", "loads_of", "written"]

DOT = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


def written(synthetic: ModuleType, base: Path) -> dict[str, Path]:
    """The pages, by name of :data:`FIGURES`."""
    simulated, real = (
        open_store(synthetic.pair_store(base / one, [(4, 6), (6, 4)])) for one in ("simulated", "real")
    )
    bounds = (Equivalence.WITHIN, Equivalence.EXCEEDED, Equivalence.UNBOUNDED) * 8
    (base / "dish.txt").write_text(pings(1, 900))
    fit([str(base / "dish.txt")], [], base / "fit", "dish", "15 s")
    (base / "plan.ionrc").write_text(ION)
    (base / "perf").mkdir()
    write(base / "perf" / "client.jsonl", frames("client", 1_000_000, 10))
    write(base / "perf" / "server.jsonl", frames("server", 0, 900_000))
    record(base / "shell")
    keep(base / "call")
    constellation = ["orbit", "Toulouse", "Lima", "-c", "iridium", "--duration", "10 min", "--step", "10 s"]
    for words in (["dtn", "plan", "plan.ionrc", "-o", "dtn"], ["report", "perf"], ["report", "shell"],
                  ["report", "call"], [*constellation, "--out", "orbit"]):  # fmt: skip
        done = bentpipe(base, *words)
        assert done.returncode == 0, done.stderr
    found = {
        "report": store_page.write_report(synthetic.rivals_store(base / "rivals", duration_s=20.0)),
        "brief": brief_page.write_brief(base / "rivals", base / "brief.html"),
        "map": _map(base / "map"),
        "capacity": _capacity(base / "capacity"),
        "study": _study(base / "study"),
        "agree": write_agreement(
            EngineComparison("Two flows", simulated, real, tuple(compared(*bounds))),
            base / "agree" / "both.html",
        ),
        "visit": _visit(base / "visit"),
        "orbit": base / "orbit" / "orbit.html",
        "dtn": base / "dtn" / "plan.html",
        "fit": base / "fit" / "fit.html",
        "perf": base / "perf" / "report.html",
        "shell": base / "shell" / "report.html",
        "call": base / "call" / "report.html",
        "link-layer": _link_layer(base / "link-layer"),
        "suite": _suite(base / "suite"),
    }
    assert found.keys() == FIGURES.keys()
    return found


FIGURES = {
    "report": 8, "brief": 3, "map": 1, "capacity": 1, "study": 0, "agree": 2, "visit": 0, "orbit": 5, "dtn": 2, "fit": 6, "perf": 4,
    "shell": 3, "call": 2, "link-layer": 1, "suite": 1,
}  # fmt: skip
"""The pages, and how many figures each has."""


def _visit(folder: Path) -> Path:
    """A load of many requests with long addresses, of which one fails and one never ends."""
    folder.mkdir()
    (folder / "0.gif").write_bytes(DOT)
    whole = {"protocol": "h2", "status": 200, "error": "", "failed_s": None}
    begun = {"connect_start_s": 100.1, "connect_end_s": 100.7, "sent_s": 100.7, "response_start_s": 101.3}
    site = f"https://a-host-with-a-long-name.{'example.' * 4}org/"
    requests = [{"url": site, "bytes": 9000, "queued_s": 100.0, "end_s": 101.4, **begun, **whole}]
    requests += [
        {"url": f"{site}{'photographs/' * 8}{'a-long-name-' * 6}{at}.jpg?{'x' * 80}", "bytes": 70_000, "queued_s": 101.4,
         **begun, "sent_s": 101.4 + at / 10, "response_start_s": 102.0 + at / 10, "end_s": 102.5 + at / 5, **whole}
        for at in range(20)
    ]  # fmt: skip
    requests[5] |= {
        "status": 0,
        "protocol": "",
        "error": "net::ERR_CONNECTION_RESET",
        "failed_s": 103.0,
        "end_s": None,
    }
    requests[6] |= {"end_s": None}
    marks = {
        "first byte": 1300.0,
        "first contentful paint": 1900.0,
        "DOM content loaded": 2100.0,
        "loaded": 6500.0,
    }
    film = [(at * 600, folder / "0.gif") for at in range(12)]
    late = "sat.down: 99 % of the packets were up to 14.2 ms late, more than 1 % of the round trip"
    seen = site_page.SiteReport(
        site, "geo-konnect", "", marks, requests, 100.0, 107.5, film,
        [f"the machine did not keep the path's time: {late}"],
    )  # fmt: skip
    return site_page.write(seen, folder / "page.html", "1.2.3")


def loads_of(number: int) -> tuple[Load, ...]:
    """Loads of the ``number``-th size and RTT of the map by variant: no two take as long, to three digits."""
    return tuple(Load(0.2, 0.4, 1 + variant + number / 100) for variant in range(4))


def _map(out: Path) -> Path:
    question = parse_config(
        access("satcom-2018"), rtts=("20 ms", "150 ms", "800 ms"),
        sizes=("1 kB", "3 kB", "10 kB", "30 kB", "100 kB", "300 kB", "1 MB", "3 MB", "10 MB"),
    )  # fmt: skip
    times = {}
    for number, ((x, size), (y, rtt)) in enumerate(
        itertools.product(enumerate(question.sizes), enumerate(question.rtts))
    ):
        for place, variant in enumerate(question.variants):
            took = 1.0 + (x * y * (2 - place)) % 7 / 10
            times[variant.name, size, rtt] = LoadTimes({1: took}, 100.0, loads={1: loads_of(number)[place]})
    out.mkdir()
    return map_page.write(build_map(question, times, "1.2.3"), out)


def _capacity(out: Path) -> Path:
    """A search of two seeds whose users all load pages and call."""
    config = parse_capacity(
        resolve_access(None, "50Mbit/s", "6Mbit/s", "620ms"), mos=3.5, page="8 s", seeds=2
    )
    evaluations = [
        Evaluation(users, {"call": users // 2, "page": users // 2}, seed,
                   Quality((4.2, 4.3 - users / 90 - seed / 9), (4.0, 4.5 + users / 9)), ("page",) if users > 32 else ())
        for users in (8, 16, 32, 40, 64)
        for seed in (1, 2)
    ]  # fmt: skip
    found = Estimate({"down": 5e7, "up": 6e6}, {"down": 1e5, "up": 1e4})
    out.mkdir()
    return capacity_page.write(
        Capacity(config, tuple(evaluations), {1: 32, 2: 36}, 2, 10_000, found, "1.2.3"), "seeds = 2\n", out
    )


def _link_layer(out: Path) -> Path:
    """Every setting with every traffic; the numbers grow with the setting and the seed."""
    config = parse_link_layer(find_access("nr-ntn-leo"))
    values = {
        (traffic, label): {
            metric: {seed: (step + 1) * (1 + seed / 100) * size for seed in range(1, 6)}
            for metric, size in ((primary_metric(config, traffic), 0.5 if traffic == "call" else 2e6),
                                 (COMMON[0], 20.0), (COMMON[1], 0.01))
        }
        for traffic in TRAFFIC
        for step, label in enumerate(config.labels)
    }  # fmt: skip
    changes = compare_settings(config, values)
    measurements = tuple(
        Measurement(label, traffic, found, changes.get((traffic, label), {}))
        for (traffic, label), found in values.items()
    )
    out.mkdir()
    return link_layer_page.write(LinkLayerComparison(config, measurements, "1.2.3"), out)


def _suite(out: Path) -> Path:
    """Many controllers in scenarios of one cell and of many, with every verdict, reasons and long labels, but without runs."""
    names = ["newreno", "cubic", "hybla", "westwood", "bbr1", "bbr3"]
    scenarios = ["wan-grid", "vs-cubic", "step-up", "outage", "short-flows"]
    config = parse_suite(names, only=scenarios, seeds=2, against="cubic")
    parts = plan_parts(config)
    out.mkdir()
    empty = read_results(parts, out, {}, "1.2.3", [check_cell(one) for one in config.controllers])
    cells = []
    for number, cell in enumerate(empty.cells):
        criteria = []
        for place, one in enumerate(cell.criteria if cell.primary else ()):
            limits = (one.expected, one.criterion.published, one.criterion.at_least, one.criterion.at_most)
            near = next(limit for limit in limits if limit is not None)
            size = (1.0, 1.3, 0.4)[(number + place) % 3]
            values = (near * size, near * (size + 0.02 * (place % 2)))
            criteria.append(replace(one, values=values, verdict=judge(one.criterion, values, one.expected)))
        measured = {
            case: (10.0 + number + place, 11.0 + number + 2 * place)
            for place, case in enumerate(cell.primary)
        }
        cells.append(
            replace(cell, criteria=tuple(criteria), primary=measured, compared=measured) if measured else cell
        )
    result = replace(empty, cells=tuple(cells))
    return suite_page.write(result, parts, out, 2, compare_controllers(result, "cubic"))


def _study(out: Path) -> Path:
    """Claims with long sentences; a short table and one that is folded."""
    checks = tuple(
        Fact("ratio of median page load times of QUIC to TCP behind a proxy that splits, load 2, target A",
             "2.12 [2.08, 2.19] over 40 units, 1.46 [1.40, 1.52] with an initial window of 32 packets",
             "between 1.9 and 2.4, in at least 95 % of 2,000 resamples", Judged.DIFFERS)
        for _ in range(3)
    )  # fmt: skip
    claim = Claim("r7", "QUIC is slower", "the ratio of medians", "as printed", checks)
    numbers = TextTable("Times", [{"load": 1, "PLT, s": 7.03}, {"load": 2, "PLT, s": 8.03}])
    sizes = [("=a", "900 ms"), ("", "1.5 s"), ("b, c", "–"), ("b10", "20 ms"), ("b9", "never")]
    sizes += [(f"z{at}", f"{at} s") for at in range(20, 35)]
    words = TextTable("Long", [{"who": who, "time": time} for who, time in sizes])
    findings = Findings((), (claim,), (numbers, words), "An interval of 95 %.")
    return study_page.write_page(out, "Claims of a study", findings, {})
