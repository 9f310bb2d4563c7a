"""Queues of users: each is first in, first out and bounded, and takes its turn where its scheduler says so; what is
said of them adds up to what was seen."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Finding, Line, Trace, Visit

__all__ = ["by_user", "in_turn", "queues", "shared"]

_DROPS = {
    "dropped_overflow_packets": "overflow",
    "dropped_late_packets": "aqm",
    "dropped_outage_packets": "outage",
}
"""Columns, and the causes that they count."""


def by_user(visits: Sequence[Visit]) -> dict[int, list[Visit]]:
    """The visits of each user, in order of arrival."""
    found: dict[int, list[Visit]] = defaultdict(list)
    for visit in visits:
        found[visit.user].append(visit)
    return dict(sorted(found.items()))


def shared(
    line: Line, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int] | None = None
) -> Iterator[Finding]:
    """Queues of users before a transmitter; ``begins`` says when the services of packets began, where that is known."""
    queue = stage["queue"]
    scheduler = queue["scheduler"]
    yield from _causes(line, scheduler, visits, single=begins is not None)
    if not stage.get("limits"):
        yield from _room(line, queue, visits, begins)
    if begins is not None:
        # Who is in service at the end is not known.
        left = {
            one.packet: begins[one.packet] for one in visits if one.left is not None and one.packet in begins
        }
        yield from in_turn(line, scheduler, visits, left)


def in_turn(
    line: Line, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Who is served when: each user in order, and as the scheduler promises; ``begins`` has the packets that were."""
    for own in by_user(visits).values():
        yield from _in_order(line, own, begins)
    yield from SCHEDULERS[scheduler["name"]](line, scheduler, visits, begins)


def _causes(line: Line, scheduler: Spec, visits: Sequence[Visit], *, single: bool) -> Iterator[Finding]:
    """Only CoDeS drops who waits, and nobody before the limit; a link that loses nothing itself (``single``) drops for
    no other cause."""
    for visit in visits:
        if single and visit.cause not in ("", "overflow", "aqm", "outage"):
            text = f"packet {visit.packet} was dropped ({visit.cause}) by a queue"
            yield Finding("a cause for every drop", line.name, text)
        if visit.cause != "aqm" or visit.dropped is None:
            continue
        waited = visit.dropped - visit.came
        if scheduler["name"] != "codes":
            text = f"packet {visit.packet} was dropped (aqm) by {scheduler['name']}"
            yield Finding("a cause for every drop", line.name, text)
        elif waited <= scheduler["time_limit_ns"]:
            text = f"packet {visit.packet} was dropped after {waited} ns, before the limit"
            yield Finding("nobody is dropped in time", line.name, text)


def _room(
    line: Line, queue: Spec, visits: Sequence[Visit], begins: Mapping[int, int] | None
) -> Iterator[Finding]:
    """No more waits than may, and who finds no room has none, in its own queue or in all of them together."""
    # Who is in service at the end is not known.
    last = max((visit.left for visit in visits if visit.left is not None), default=-1)
    every = [visit for visit in visits if visit.came <= last]
    fits = _fits(queue["total"], every, begins)
    for own in by_user(every).values():
        fits = {
            **fits,
            **{
                packet: fits[packet] and own_fits
                for packet, own_fits in _fits(queue["limit"], own, begins).items()
            },
        }
    # Where all are bounded together, who comes may take the place of the last of the longest queue.
    taken = {visit.dropped for visit in visits if visit.cause == "overflow" and not _turned_away(visit)}
    for visit in every:
        if _turned_away(visit):
            if fits[visit.packet] and visit.came not in taken:
                text = f"packet {visit.packet} of user {visit.user} found no room at {visit.came} ns"
                yield Finding("no drop while there is room", line.name, text)
            continue
        if begins is not None and not fits[visit.packet] and begins.get(visit.packet) != visit.came:
            text = f"packet {visit.packet} of user {visit.user} was let in at {visit.came} ns where there was no room"
            yield Finding("no queue longer than its limit", line.name, text)
        if visit.cause == "overflow" and not queue["total"]:
            text = f"packet {visit.packet}, let in at {visit.came} ns, found no room at {visit.dropped} ns"
            yield Finding("a full queue drops who comes", line.name, text)


def _turned_away(visit: Visit) -> bool:
    return visit.dropped == visit.came and visit.cause == "overflow"


def _fits(limit: Spec | None, visits: Sequence[Visit], begins: Mapping[int, int] | None) -> dict[int, bool]:
    """Whether there is room for each packet when it comes. Where it is not known when services begin, all who are
    inside count: they are no fewer than those who wait."""
    limit = limit or {}
    inside = inside_bytes = first = 0
    gone = sorted(
        (at, visit.bytes)
        for visit in visits
        if not _turned_away(visit)
        and (at := visit.gone if begins is None else begins.get(visit.packet, visit.dropped)) is not None
    )
    found = {}
    for visit in visits:
        while first < len(gone) and gone[first][0] <= visit.came - (begins is None):
            inside, inside_bytes, first = inside - 1, inside_bytes - gone[first][1], first + 1
        fits = inside < limit.get("packets", inside + 1)
        found[visit.packet] = fits and inside_bytes + visit.bytes <= limit.get(
            "bytes", inside_bytes + visit.bytes
        )
        if not _turned_away(visit):
            inside, inside_bytes = inside + 1, inside_bytes + visit.bytes
    return found


def _in_order(line: Line, visits: Sequence[Visit], begins: Mapping[int, int]) -> Iterator[Finding]:
    before = -1
    for visit in visits:
        if visit.packet in begins:
            if begins[visit.packet] < before:
                yield Finding(
                    "the order is kept", line.name, f"packet {visit.packet} was overtaken by its user's"
                )
            before = begins[visit.packet]


def _only_in_order(
    line: Line, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """A decision depends on the state of channels or on bytes, which the trace of packets does not have."""
    del line, scheduler, visits, begins
    yield from ()


def _in_time(
    line: Line, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    limit = scheduler["time_limit_ns"]
    for visit in visits:
        if visit.packet in begins and begins[visit.packet] - visit.came > limit:
            waited = begins[visit.packet] - visit.came
            text = f"packet {visit.packet} was served after {waited} ns, expected {limit} ns at most"
            yield Finding("nobody is served late", line.name, text)


def _in_turn(
    line: Line, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Nobody is served twice while another waits all the time and is not served."""
    del scheduler
    users = by_user(visits)
    turns = {
        user: sorted(begins[one.packet] for one in own if one.packet in begins) for user, own in users.items()
    }
    for other, own in users.items():
        waits = [(one.came, begins[one.packet]) for one in own if one.packet in begins]
        for came, until in waits:
            if until <= came:
                continue
            for user, served in turns.items():
                if user == other:
                    continue
                # Services that begin while this packet waits as its user's next, none of its user's between them.
                since = turns[other][bisect_left(turns[other], until) - 1] if turns[other] else -1
                start = max(came, since if since < until else -1)
                between = bisect_left(served, until) - bisect_right(served, start)
                if between > 1:
                    text = f"user {user} was served {between} times while user {other} waited"
                    yield Finding("round robin takes turns", line.name, text)
                    return


SCHEDULERS: Mapping[str, Callable[..., Iterator[Finding]]] = {
    "round_robin": _in_turn,
    "deficit_round_robin": _only_in_order,
    "maximum_rate": _only_in_order,
    "proportional_fair": _only_in_order,
    "codes": _in_time,
    "m_lwdf": _only_in_order,
    "exp_pf": _only_in_order,
    "own": _only_in_order,
}
"""The checker of each scheduler, by its name in a resolved run."""


def queues(trace: Trace, line: Line) -> Iterator[Finding]:
    """What is said of users' queues is what was seen, and each user's packets are conserved."""
    place = next(
        (n for n, stage in enumerate(line.stages) if (stage.get("queue") or {}).get("kind") == "per_user"),
        None,
    )
    if place is None:
        return
    seen = by_user(line.visits[place])
    if "user_queues" not in trace.tables:
        if seen:
            yield Finding("counters count", line.name, "the run has no table of its users' queues")
        return
    frame = trace.tables["user_queues"].filter(trace.tables["user_queues"]["link"] == line.name)
    rows = {row["user"]: row for row in frame.iter_rows(named=True)}
    for user in sorted(set(rows) ^ set(seen)):
        yield Finding("counters count", line.name, f"user {user} has packets or a row in the table, not both")
    for user, row in rows.items():
        own = seen.get(user, [])
        told = {name: row[name] for name in ("arrived_packets", *_DROPS)}
        found = {"arrived_packets": len(own)} | {
            name: sum(visit.cause == cause for visit in own) for name, cause in _DROPS.items()
        }
        if line.stages[place]["kind"] == "radio":
            # Of what a hand-over loses some had been sent already.
            del told["dropped_outage_packets"], found["dropped_outage_packets"]
        if told != found:
            yield Finding("counters count", line.name, f"user {user}: {told}, and {found} were seen")
        out = row["sent_packets"] + row["queued_packets"] + sum(row[name] for name in _DROPS)
        if out != row["arrived_packets"]:
            text = f"user {user}: {row['arrived_packets']} came, and {out} were sent, wait or were dropped"
            yield Finding("bytes are conserved", line.name, text)
        if row["longest_wait_s"] * row["sent_packets"] < row["waited_s"] * (1 - 1e-9) - 1e-9:
            yield Finding(
                "counters count", line.name, f"user {user}: the sum of waits is above what the longest allows"
            )
