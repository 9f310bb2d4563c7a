"""Checks of per-user queues: each is a bounded FIFO, its scheduler serves it in turn, and its counters add up."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from bentpipe.trace_check.handovers import Spec
from bentpipe.trace_check.trace import Direction, Finding, Trace, Visit

__all__ = ["check_service", "check_user_counters", "check_user_queues", "group_by_user"]

_DROPS = {
    "dropped_overflow_packets": "overflow",
    "dropped_deadline_packets": "aqm",
    "dropped_outage_packets": "outage",
}
"""Columns, each with the cause that it counts."""


def group_by_user(visits: Sequence[Visit]) -> dict[int, list[Visit]]:
    """Return the visits of each user, in order of arrival."""
    groups: dict[int, list[Visit]] = defaultdict(list)
    for visit in visits:
        groups[visit.user].append(visit)
    return dict(sorted(groups.items()))


def check_user_queues(
    direction: Direction, stage: Spec, visits: Sequence[Visit], begins: Mapping[int, int] | None = None
) -> Iterator[Finding]:
    """Check the queues of the users before a transmitter.

    Args:
        direction: direction of the link.
        stage: specification of the stage.
        visits: packets in order of arrival.
        begins: begin of service of each packet in ns; None: unknown.
    """
    queue = stage["queue"]
    scheduler = queue["scheduler"]
    yield from _check_causes(direction, scheduler, visits, is_lossless=begins is not None)
    if not stage.get("limits"):
        yield from _check_limits(direction, queue, visits, begins)
    if begins is not None:
        # The packet in service at the end of the run is unknown.
        served = {
            visit.packet: begins[visit.packet]
            for visit in visits
            if visit.departure is not None and visit.packet in begins
        }
        yield from check_service(direction, scheduler, visits, served)


def check_service(
    direction: Direction, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check the order of service: FIFO for each user, and the rule of the scheduler between users.

    Args:
        direction: direction of the link.
        scheduler: specification of the scheduler.
        visits: packets in order of arrival.
        begins: begin of service in ns of each packet that was served.
    """
    for user_visits in group_by_user(visits).values():
        yield from _check_fifo(direction, user_visits, begins)
    yield from SCHEDULERS[scheduler["name"]](direction, scheduler, visits, begins)


def _check_causes(
    direction: Direction, scheduler: Spec, visits: Sequence[Visit], *, is_lossless: bool
) -> Iterator[Finding]:
    """Check the causes of drops: only CoDeS drops waiting packets, and only after its limit.

    ``single``: the link itself loses no packets, so no other cause is valid.
    """
    for visit in visits:
        if is_lossless and visit.cause not in ("", "overflow", "aqm", "outage"):
            text = f"packet {visit.packet} was dropped ({visit.cause}) by a queue"
            yield Finding("drop cause", direction.name, text)
        if visit.cause != "aqm" or visit.dropped is None:
            continue
        wait = visit.dropped - visit.arrival
        if scheduler["name"] != "codes":
            text = f"packet {visit.packet} was dropped (aqm) by {scheduler['name']}"
            yield Finding("drop cause", direction.name, text)
        elif wait <= scheduler["time_limit_ns"]:
            text = f"packet {visit.packet} was dropped after {wait} ns, before the limit"
            yield Finding("early deadline drop", direction.name, text)


def _check_limits(
    direction: Direction, queue: Spec, visits: Sequence[Visit], begins: Mapping[int, int] | None
) -> Iterator[Finding]:
    """Check the limits: no queue is above its own or the common limit, and dropped packets found one exceeded."""
    # The packet in service at the end of the run is unknown.
    last_departure = max((visit.departure for visit in visits if visit.departure is not None), default=-1)
    known_visits = [visit for visit in visits if visit.arrival <= last_departure]
    fits = _fits_limit(queue["total"], known_visits, begins)
    for user_visits in group_by_user(known_visits).values():
        fits = {
            **fits,
            **{
                packet: fits[packet] and fits_user
                for packet, fits_user in _fits_limit(queue["limit"], user_visits, begins).items()
            },
        }
    # With a common limit an arrival may replace the last packet of the longest queue.
    replaced = {visit.dropped for visit in visits if visit.cause == "overflow" and not _is_tail_drop(visit)}
    for visit in known_visits:
        if _is_tail_drop(visit):
            if fits[visit.packet] and visit.arrival not in replaced:
                text = (
                    f"packet {visit.packet} of user {visit.user} was dropped (overflow) below the limit "
                    f"at {visit.arrival} ns"
                )
                yield Finding("unnecessary drop", direction.name, text)
            continue
        if begins is not None and not fits[visit.packet] and begins.get(visit.packet) != visit.arrival:
            text = f"packet {visit.packet} of user {visit.user} was enqueued at {visit.arrival} ns above the limit"
            yield Finding("queue limit", direction.name, text)
        if visit.cause == "overflow" and not queue["total"]:
            text = (
                f"packet {visit.packet}, enqueued at {visit.arrival} ns, was dropped (overflow) at "
                f"{visit.dropped} ns"
            )
            yield Finding("tail drop", direction.name, text)


def _is_tail_drop(visit: Visit) -> bool:
    return visit.dropped == visit.arrival and visit.cause == "overflow"


def _fits_limit(
    limit: Spec | None, visits: Sequence[Visit], begins: Mapping[int, int] | None
) -> dict[int, bool]:
    """Return for each packet whether it fits into the queue at its arrival.

    If begins of service are unknown, all packets in the stage count: at least as many as wait.
    """
    limit = limit or {}
    waiting = waiting_bytes = next_exit = 0
    exits = sorted(
        (instant, visit.bytes)
        for visit in visits
        if not _is_tail_drop(visit)
        and (instant := visit.removal if begins is None else begins.get(visit.packet, visit.dropped))
        is not None
    )
    result = {}
    for visit in visits:
        while next_exit < len(exits) and exits[next_exit][0] <= visit.arrival - (begins is None):
            waiting, waiting_bytes, next_exit = (
                waiting - 1,
                waiting_bytes - exits[next_exit][1],
                next_exit + 1,
            )
        fits = waiting < limit.get("packets", waiting + 1)
        result[visit.packet] = fits and waiting_bytes + visit.bytes <= limit.get(
            "bytes", waiting_bytes + visit.bytes
        )
        if not _is_tail_drop(visit):
            waiting, waiting_bytes = waiting + 1, waiting_bytes + visit.bytes
    return result


def _check_fifo(
    direction: Direction, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    latest = -1
    for visit in visits:
        if visit.packet in begins:
            if begins[visit.packet] < latest:
                yield Finding(
                    "packet order",
                    direction.name,
                    f"packet {visit.packet} was overtaken by a packet of its user",
                )
            latest = begins[visit.packet]


def _check_nothing(
    direction: Direction, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check nothing: the decision depends on channel states or bytes that the trace does not have."""
    del direction, scheduler, visits, begins
    yield from ()


def _check_deadline(
    direction: Direction, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    limit = scheduler["time_limit_ns"]
    for visit in visits:
        if visit.packet in begins and begins[visit.packet] - visit.arrival > limit:
            wait = begins[visit.packet] - visit.arrival
            text = f"packet {visit.packet} was served after {wait} ns, expected {limit} ns at most"
            yield Finding("service deadline", direction.name, text)


def _check_round_robin(
    direction: Direction, scheduler: Spec, visits: Sequence[Visit], begins: Mapping[int, int]
) -> Iterator[Finding]:
    """Check that no user is served twice while another user waits all the time without service."""
    del scheduler
    users = group_by_user(visits)
    services = {
        user: sorted(begins[visit.packet] for visit in user_visits if visit.packet in begins)
        for user, user_visits in users.items()
    }
    for waiting_user, user_visits in users.items():
        intervals = [(visit.arrival, begins[visit.packet]) for visit in user_visits if visit.packet in begins]
        for arrival, begin in intervals:
            if begin <= arrival:
                continue
            for user, service_begins in services.items():
                if user == waiting_user:
                    continue
                # Services of other users while this packet is the next of its user.
                previous = (
                    services[waiting_user][bisect_left(services[waiting_user], begin) - 1]
                    if services[waiting_user]
                    else -1
                )
                interval_start = max(arrival, previous if previous < begin else -1)
                service_count = bisect_left(service_begins, begin) - bisect_right(
                    service_begins, interval_start
                )
                if service_count > 1:
                    text = f"user {user} was served {service_count} times while user {waiting_user} waited"
                    yield Finding("round robin", direction.name, text)
                    return


SCHEDULERS: Mapping[str, Callable[..., Iterator[Finding]]] = {
    "round_robin": _check_round_robin,
    "deficit_round_robin": _check_nothing,
    "maximum_rate": _check_nothing,
    "proportional_fair": _check_nothing,
    "codes": _check_deadline,
    "m_lwdf": _check_nothing,
    "exp_pf": _check_nothing,
    "external": _check_nothing,
}
"""Checker of each scheduler, by its name in a resolved run."""


def check_user_counters(trace: Trace, direction: Direction) -> Iterator[Finding]:
    """Compare the table of per-user queues with the packets, and check the conservation of packets."""
    number = next(
        (
            index
            for index, stage in enumerate(direction.stages)
            if (stage.get("queue") or {}).get("kind") == "per_user"
        ),
        None,
    )
    if number is None:
        return
    visits_of = group_by_user(direction.visits[number])
    if "user_queues" not in trace.tables:
        if visits_of:
            yield Finding("counters", direction.name, "the run has no table of per-user queues")
        return
    frame = trace.tables["user_queues"].filter(trace.tables["user_queues"]["link"] == direction.name)
    rows = {row["user"]: row for row in frame.iter_rows(named=True)}
    for user in sorted(set(rows) ^ set(visits_of)):
        yield Finding("counters", direction.name, f"user {user} has only packets or only a row in the table")
    for user, row in rows.items():
        user_visits = visits_of.get(user, [])
        reported = {name: row[name] for name in ("arrived_packets", *_DROPS)}
        counted = {"arrived_packets": len(user_visits)} | {
            name: sum(visit.cause == cause for visit in user_visits) for name, cause in _DROPS.items()
        }
        if direction.stages[number]["kind"] == "radio":
            # A handover also loses packets that were sent already.
            del reported["dropped_outage_packets"], counted["dropped_outage_packets"]
        if reported != counted:
            yield Finding("counters", direction.name, f"user {user}: {reported}, expected {counted}")
        total = row["sent_packets"] + row["queued_packets"] + sum(row[name] for name in _DROPS)
        if total != row["arrived_packets"]:
            text = f"user {user}: {row['arrived_packets']} arrived, {total} were sent, queued or dropped"
            yield Finding("byte conservation", direction.name, text)
        if row["queueing_max_s"] * row["sent_packets"] < row["queueing_sum_s"] * (1 - 1e-9) - 1e-9:
            yield Finding(
                "counters",
                direction.name,
                f"user {user}: queueing_sum_s is above queueing_max_s times sent_packets",
            )
