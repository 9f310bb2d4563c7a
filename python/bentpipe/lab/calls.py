"""``bentpipe perf call`` and ``answer``: the calls of the simulation over real UDP, judged as those are.

A side is planned here and run by the executable ``bentpipe-rt`` (crates/rt, ``programs::media``).
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
from bentpipe.lab.perf import TIMEOUT, host_and_port, listening, parsed_time
from bentpipe.lab.process import handed
from bentpipe.metrics.call_quality import RatingConfig
from bentpipe.metrics.call_quality.rating import judged
from bentpipe.plan.flow.datagrams import datagrams_spec
from bentpipe.runners.runner import RunnerError
from bentpipe.scenario.errors import ScenarioError, from_pydantic
from bentpipe.scenario.flow.datagrams import Call, Live
from bentpipe.scenario.model import Load
from bentpipe.store.schema import table

if TYPE_CHECKING:
    from bentpipe.lab.process_plans import AnswerPlan, CallPlan

__all__ = ["Calling", "answer", "answer_plan", "call", "call_plan", "frames", "rows"]

MOST_CALLS = 1000

Send = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True)
class Calling:
    """Calls that are made at the same time.

    Attributes:
        host: name or address of who answers, maybe with a port.
        codec: of a call.
        live: rate of a live stream instead.
        packet: speech in a datagram of a call, payload of one of a stream; none: as in a scenario.
        time: how long.
        send: which way; none: both of a call, up of a stream.
        count: how many.
    """

    host: str
    codec: str = "g711"
    live: str | None = None
    packet: str | None = None
    time: str = "10 s"
    send: Send | None = None
    count: int = 1


def answer_plan(listen: str, *, once: bool, calls: int) -> AnswerPlan:
    """The plan of the answering side. Raises ScenarioError."""
    return {"role": "answer", "listen": listening(listen), "once": once, "calls": calls}


def call_plan(calling: Calling, seed: int = 1) -> CallPlan:
    """The plan of the calling side.

    Raises:
        ScenarioError: which option is wrong.
    """
    host, port = host_and_port(calling.host)
    if not 1 <= calling.count <= MOST_CALLS:
        raise ScenarioError([("--count", f"found {calling.count}, expected 1 to {MOST_CALLS}")])
    duration = parsed_time("--time", calling.time)
    own: dict[str, Any] = {} if calling.packet is None else {"packet": calling.packet}
    try:
        if calling.live is not None:
            load = Load(live=Live.model_validate({"rate": calling.live, **own}))
        else:
            load = Load(call=Call.model_validate({"codec": calling.codec, **own}))
    except ValueError as error:
        raise _said(error) from None
    words = datagrams_spec(load, calling.send, duration.ns)
    if words["kind"] != "datagrams":
        raise TypeError("a load without datagrams")
    sources = {"up": words["up"], "down": words["down"], "duration_ns": words["duration_ns"]}
    return {
        "role": "call", "host": host, "port": port, "count": calling.count, "load": sources, "seed": seed,
        "timeout_ns": TIMEOUT.ns,
    }  # fmt: skip


def _said(error: ValueError) -> ScenarioError:
    """What pydantic says of an option."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return ScenarioError([("", str(error))])
    found = from_pydantic(error, {}, "perf call")
    return ScenarioError([(f"--{key}" if key else "", text) for key, text in found.problems])


def answer(plan: AnswerPlan) -> int:
    """Answers until Ctrl-C; the exit status."""
    from bentpipe.lab.perf import run

    return run(plan)


def call(plan: CallPlan) -> list[dict[str, Any]]:
    """Makes the calls of ``plan``; what became of each.

    Raises:
        ScenarioError: ``bentpipe-rt`` is not built.
        RunnerError: nobody answers, or not for long.
    """
    program = executable()
    with handed(plan) as descriptor:
        words = [str(program), "perf", f"/proc/self/fd/{descriptor}"]
        with subprocess.Popen(
            words, pass_fds=[descriptor], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            while True:
                try:
                    said, error = process.communicate()
                    break
                except KeyboardInterrupt:
                    continue  # Ctrl-C ends the calls, of which there is something to tell
    lines = [json.loads(line) for line in said.splitlines()]
    if not lines:
        raise RunnerError(error.decode(errors="replace").strip().removeprefix("error: "))
    return lines


def frames(told: Sequence[Mapping[str, Any]], load: Mapping[str, Any]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The tables ``calls`` and ``call_delays`` of calls that were made, with a run called ``perf``; ``load`` is their
    plan's."""
    calls: list[dict[str, Any]] = []
    delays: list[dict[str, Any]] = []
    for one in told:
        made, took = call_rows(f"call-{one['call']}", one, load)
        calls += made
        delays += took
    run = pl.lit("perf").alias("run")
    return table("calls", calls).with_columns(run), table("call_delays", delays).with_columns(run)


def rows(
    told: Sequence[Mapping[str, Any]], load: Mapping[str, Any], how: RatingConfig
) -> list[dict[str, Any]]:
    """Each direction of each call as it is judged. Raises ScenarioError as ``call_quality.rating``."""
    how.check()
    found = judged(*frames(told, load), how).drop("run")
    return found.rename({"flow": "call"}).to_dicts()
