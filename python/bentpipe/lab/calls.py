"""Calls of the simulation over real UDP sockets (``bentpipe perf call-client`` and ``answer``), and their rating.

Python plans an endpoint. The executable ``bentpipe-rt`` runs it (crates/rt, ``programs::media``).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from bentpipe.lab.call_rows import call_rows
from bentpipe.lab.executable import executable
from bentpipe.lab.perf import TIMEOUT, listen_address, parse_host, parse_time
from bentpipe.lab.process import forward_signals, plan_descriptor, request_end
from bentpipe.metrics.call_quality import RatingConfig
from bentpipe.metrics.call_quality.rating import rate_rows
from bentpipe.plan.flow.datagrams import datagrams_spec
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError, from_pydantic
from bentpipe.scenario.flow.datagrams import Call, ConstantBitRate
from bentpipe.scenario.model import Load
from bentpipe.store.schema import table

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import CalleePlan, CallerPlan

__all__ = ["CallOptions", "answer", "answer_plan", "call", "call_plan", "rating_rows", "result_tables"]

MAX_CALLS = 1000
"""Maximum number of simultaneous calls."""

Send = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Simultaneous calls.

    Attributes:
        host: name or address of the server, perhaps with a port.
        codec: codec of a call.
        live: rate of a live stream instead of a call.
        packet: speech time in a datagram of a call, or payload of a datagram of a stream; None: as in a
            scenario.
        time: duration.
        send: direction; None: both for a call, up for a stream.
        count: number of calls.
    """

    host: str
    codec: str = "g711"
    live: str | None = None
    packet: str | None = None
    time: str = "10 s"
    send: Send | None = None
    count: int = 1


def answer_plan(listen: str, *, once: bool, calls: int) -> CalleePlan:
    """Return the plan of the server.

    Args:
        listen: address and port.
        once: end after one call.
        calls: maximum number of simultaneous calls.

    Raises:
        ScenarioError: the address is invalid.
    """
    return {"role": "callee", "listen": listen_address(listen), "once": once, "calls": calls}


def call_plan(options: CallOptions, seed: int = 1) -> CallerPlan:
    """Return the plan of the client.

    Args:
        options: the calls.
        seed: seed of the on-off sources.

    Raises:
        ScenarioError: an option is invalid.
    """
    host, port = parse_host(options.host)
    if not 1 <= options.count <= MAX_CALLS:
        raise ScenarioError([("--count", f"found {options.count}, expected 1 to {MAX_CALLS}")])
    duration = parse_time("--time", options.time)
    packet_option: dict[str, Any] = {} if options.packet is None else {"packet": options.packet}
    try:
        if options.live is not None:
            load = Load(cbr=ConstantBitRate.model_validate({"rate": options.live, **packet_option}))
        else:
            load = Load(call=Call.model_validate({"codec": options.codec, **packet_option}))
    except ValueError as error:
        raise _to_scenario_error(error) from None
    spec = datagrams_spec(load, options.send, duration.ns)
    if spec["kind"] != "datagrams":
        raise TypeError("a load without datagrams")
    sources = {"up": spec["up"], "down": spec["down"], "duration_ns": spec["duration_ns"]}
    return {
        "role": "caller", "host": host, "port": port, "count": options.count, "load": sources, "seed": seed,
        "timeout_ns": TIMEOUT.ns,
    }  # fmt: skip


def _to_scenario_error(error: ValueError) -> ScenarioError:
    """Return the problems of a pydantic error or of a table, by option."""
    from pydantic import ValidationError

    if isinstance(error, ScenarioError):
        found = error
    elif isinstance(error, ValidationError):
        found = from_pydantic(error, {}, "perf call-client")
    else:
        return ScenarioError([("", str(error))])
    return ScenarioError([(f"--{key}" if key else "", text) for key, text in found.problems])


def answer(plan: CalleePlan) -> int:
    """Run the server until Ctrl-C and return its exit status."""
    from bentpipe.lab.perf import run

    return run(plan)


def call(plan: CallerPlan) -> list[dict[str, Any]]:
    """Make the calls of ``plan`` and return the result of each.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
        RunnerError: the server does not answer, or stops answering.
    """
    program = executable()
    with plan_descriptor(plan) as descriptor:
        command = [str(program), "perf", f"/proc/self/fd/{descriptor}"]
        with (
            subprocess.Popen(
                command,
                pass_fds=[descriptor],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=0,
            ) as process,
            forward_signals(request_end(process)),
        ):
            output, error = process.communicate()  # after a signal, bentpipe-rt still reports its results
    lines = [json.loads(line) for line in output.splitlines()]
    if not lines:
        raise RunnerError(error.decode(errors="replace").strip().removeprefix("error: "))
    return lines


def result_tables(
    results: Sequence[Mapping[str, Any]], load: Mapping[str, Any]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables ``calls`` and ``call_delays`` of calls, with the run ``perf``.

    Args:
        results: result of each call.
        load: key ``load`` of their plan.
    """
    calls: list[dict[str, Any]] = []
    delays: list[dict[str, Any]] = []
    for result in results:
        call_rows_of_result, delay_rows = call_rows(f"call-{result['call']}", result, load)
        calls += call_rows_of_result
        delays += delay_rows
    run = pl.lit("perf").alias("run")
    return table("calls", calls).with_columns(run), table("call_delays", delays).with_columns(run)


def rating_rows(
    results: Sequence[Mapping[str, Any]], load: Mapping[str, Any], config: RatingConfig
) -> list[dict[str, Any]]:
    """Return the rating of each direction of each call.

    Args:
        results: result of each call.
        load: key ``load`` of their plan.
        config: configuration of the rating.

    Raises:
        ScenarioError: as :mod:`bentpipe.metrics.call_quality.rating`.
    """
    config.check()
    ratings = rate_rows(*result_tables(results, load), config).drop("run")
    return ratings.rename({"flow": "call"}).to_dicts()
