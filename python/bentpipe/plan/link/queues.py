"""Queue of a transmitter: its limit in bytes or packets, and its queueing discipline (``QueueSpec``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.plan.link import scheduler as link_scheduler
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.quantities import Duration, QueueSize, Rate, UnitError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.plan.link.scheduler import Users
    from bentpipe.plan.spec.run_spec import QueueLimit, QueueSpec
    from bentpipe.scenario.link.direction import Direction

__all__ = ["QueueContext", "queue_bytes", "queue_spec", "updated_limit"]

ETHERNET_BYTES = 1500
"""Bytes of a packet for the conversion of a limit from bytes to packets (the convention of netem's users)."""
NETEM_LIMIT = 1000  # tc-netem(8)
CODEL_LIMIT = 1000  # tc-codel(8)
FQ_CODEL_LIMIT = 10_240  # RFC 8290 section 5.2.3
MAX_PACKETS = 2**32 - 1  # the largest limit of tc


def updated_limit(
    direction: Direction, queue: QueueSize, rate: Rate, rtt: Duration, packet_bytes: int, key: str
) -> QueueLimit | None:
    """Return the limit of the queue after a handover, at this rate and round-trip time. Raises ScenarioError."""
    updated = direction.model_copy(update={"queue": queue})
    if direction.netem or (direction.aqm is not None and direction.aqm.name == "fq-codel"):
        return {"packets": packets(updated, rate, rtt, key)}
    return _limit(updated, rate, rtt, packet_bytes, key)


def queue_bytes(
    direction: Direction, rate: Rate | None, rtt: Duration, packet_bytes: int, key: str
) -> int | None:
    """Return the limit of the queue in bytes, with full packets; None without a limit or a transmitter."""
    if rate is None:
        return None
    queue = direction.queue or _default_queue(direction)
    if queue.kind == "none":
        return None
    if queue.kind == "packets":
        return int(queue.amount) * packet_bytes
    return max(_size_bytes(queue, rate, rtt, key) or 0, packet_bytes)


def _size_bytes(queue: QueueSize, rate: Rate, rtt: Duration, key: str) -> int | None:
    try:
        return queue.bytes_at(rate, rtt)
    except UnitError as error:
        raise ScenarioError([(f"{key}.queue", str(error))]) from None


def _default_queue(direction: Direction) -> QueueSize:
    if direction.netem:
        return QueueSize.parse(f"{NETEM_LIMIT} packets")
    if direction.aqm is not None and direction.aqm.name == "codel":
        return QueueSize.parse(f"{CODEL_LIMIT} packets")
    if direction.aqm is not None and direction.aqm.name == "fq-codel":
        return QueueSize.parse(f"{FQ_CODEL_LIMIT} packets")
    return QueueSize.parse("1 BDP")


@dataclass(frozen=True, slots=True)
class QueueContext:
    """Context of a queue in its scenario (``QueueHooks`` of the scenario)."""

    direction: Direction
    """Direction of the link."""
    rate: Rate
    """Rate at the start."""
    rtt: Duration
    """Round-trip time of "1 BDP"."""
    packet_bytes: int
    """Bytes of a full packet with all headers."""
    key: str
    """Key of the direction, for errors."""
    members: Users
    """Users that share the link."""

    def limit(self) -> QueueLimit | None:
        """Return the limit of the queue."""
        return _limit(self.direction, self.rate, self.rtt, self.packet_bytes, self.key)

    def limit_packets(self) -> int:
        """Return the limit of the queue in packets of 1500 bytes, rounded (416.67 is netem's 417)."""
        return packets(self.direction, self.rate, self.rtt, self.key)

    def users(self, names: Sequence[str], key: str) -> list[int]:
        """Return the numbers of users and flows, in ascending order."""
        return self.members.numbers_of(names, f"{self.key}.scheduler.{key}")

    def user_weights(self, weights: Mapping[str, float], key: str) -> list[list[float]]:
        """Return users and their weights, in ascending order."""
        by_user = {
            user: float(weight) for name, weight in weights.items() for user in self.users([name], key)
        }
        return [[user, weight] for user, weight in sorted(by_user.items())]


def queue_spec(hooks: QueueContext) -> QueueSpec:
    """Return the queue of a direction. Raises ScenarioError."""
    aqm, scheduler = hooks.direction.aqm, hooks.direction.scheduler
    if scheduler is not None and scheduler.per_user:
        return link_scheduler.queue(scheduler, hooks)
    return {"kind": "drop_tail", "limit": hooks.limit()} if aqm is None else aqm.to_spec(hooks)


def _limit(direction: Direction, rate: Rate, rtt: Duration, packet_bytes: int, key: str) -> QueueLimit | None:
    queue = direction.queue or _default_queue(direction)
    if queue.kind == "none":
        return None
    if queue.kind == "packets":
        return {"packets": int(queue.amount)}
    size = _size_bytes(queue, rate, rtt, key) or 0
    if queue.kind == "bytes" and size < packet_bytes:
        raise ScenarioError(
            [
                (
                    f"{key}.queue",
                    f"found {queue}, expected room for at least one full packet of {packet_bytes} B",
                )
            ]
        )
    return {"bytes": max(size, packet_bytes)}


def packets(direction: Direction, rate: Rate, rtt: Duration, key: str) -> int:
    """Return the limit in packets of 1500 bytes, rounded (416.67 is netem's 417)."""
    limit = _limit(direction, rate, rtt, ETHERNET_BYTES, key)
    if limit is None:
        return MAX_PACKETS
    if "packets" in limit:
        return limit["packets"]
    return max(1, (2 * limit["bytes"] + ETHERNET_BYTES) // (2 * ETHERNET_BYTES))
