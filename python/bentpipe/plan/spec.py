"""A resolved run in types: what the planner writes and the engine reads (``RunSpec`` of ``crates/spec``).

Made by ``scripts/spec-types`` from the schema that the engine exports, not by hand; a test holds both together.
Of use to mypy alone: who plans or reads a run imports it under ``TYPE_CHECKING``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, final


class PerAckAckCounting(TypedDict):
    """An ACK counts as at most one segment, however many it acknowledges (RFC 5681 section 3.1)."""

    kind: Literal["per_ack"]


class BytesAckCounting(TypedDict):
    """Appropriate byte counting (RFC 3465): in slow start at most ``limit`` segments an ACK, 1 in slow
    start after a timeout; afterwards all bytes.
    """

    kind: Literal["bytes"]
    limit: int


class UnlimitedAckCounting(TypedDict):
    """Every byte acknowledged counts (Linux since 3.14; what QUIC does)."""

    kind: Literal["unlimited"]


class AdmissionSpec(TypedDict):
    """Call admission: a flow begins only if it and those that have begun and not ended fit into a rate,
    each with what its sources send while they are on.
    """

    name: str
    flows: Sequence[str]
    rate_bit_s: int


class DataAmountSpec(TypedDict):
    """The client sends ``up_bytes`` and FIN; the server then sends ``down_bytes`` and FIN. The first 8
    bytes upwards, big-endian, are the response size.
    """

    mode: Literal["data"]
    up_bytes: int
    down_bytes: int


class TimeAmountSpec(TypedDict):
    """One side sends as fast as it can for this long after the stream opens."""

    mode: Literal["time"]
    duration_ns: int
    send: Direction


class TimeAmountSpec2(TypedDict):
    """For so long."""

    kind: Literal["time"]
    duration_ns: int


class DataAmountSpec2(TypedDict):
    """So much payload, the last bundle being smaller if need be."""

    kind: Literal["data"]
    bytes: int


class AverageSpec(TypedDict):
    """An exponential average of a user's rates."""

    of: Averaged
    window_ns: int


class CellSpec(TypedDict):
    """The parameters of ITU-R P.681 at an elevation."""

    at_ns: int
    good: StateSpec
    bad: StateSpec
    correlation_m: float
    transition_m_per_db: float
    transition_least_m: float


class DelayChangeSpec(TypedDict):
    """Its delay, for packets that arrive from now on."""

    kind: Literal["delay"]
    delay_ns: int


class RateChangeSpec(TypedDict):
    """Its rate, from the next packet on."""

    kind: Literal["rate"]
    rate_bit_s: int


class LimitChangeSpec(TypedDict):
    """The limit of its queue, for packets that arrive from now on; what waits stays."""

    kind: Literal["limit"]
    limit: Limit | None


class LossChangeSpec(TypedDict):
    """Its loss: Bernoulli from now on."""

    kind: Literal["loss"]
    probability: float


class InFlightChangeSpec(TypedDict):
    """What becomes of the packets that it holds."""

    kind: Literal["in_flight"]
    fate: InFlight


class ServesChangeSpec(TypedDict):
    """Whether it serves those who wait."""

    kind: Literal["serves"]
    serves: bool


class ChangeSpec2(TypedDict):
    """What nodes learn of contacts at an instant."""

    at_ns: int
    add: NotRequired[Sequence[ContactSpec]]
    remove: NotRequired[Sequence[str]]


class FixedChannelSpec(TypedDict):
    """White noise alone."""

    kind: Literal["fixed"]
    snr_db: float


class ThreeStateChannelSpec(TypedDict):
    """Shadowing states that follow each other as a Markov chain, Loo's fading in each (Perez-Fontan)."""

    kind: Literal["three_state"]
    reference: Reference
    motion: Motion
    sight: Sight
    transitions: Sequence[Sequence[float]]
    states: Sequence[LooSpec]
    frames_m: Sequence[float]
    transition_m: float
    correlation_m: float


class SemiMarkovChannelSpec(TypedDict):
    """A good and a bad state that take turns (ITU-R P.681)."""

    kind: Literal["semi_markov"]
    reference: Reference
    motion: Motion
    sight: Sight
    cells: Sequence[CellSpec]


class RayleighChannelSpec(TypedDict):
    """Echoes without a direct path."""

    kind: Literal["rayleigh"]
    reference: Reference
    motion: Motion


class MeasuredChannelSpec(TypedDict):
    """Attenuation over time, the same for every user."""

    kind: Literal["measured"]
    reference: Reference
    points: Sequence[Sequence[int | float]]
    interpolation: Interpolation
    repeat_ns: int | None


class RangedChannelSpec(TypedDict):
    """A channel towards a satellite that comes and goes."""

    kind: Literal["ranged"]
    loss: Sequence[Sequence[int | float]]
    channel: ChannelSpec


class CheckSpec(TypedDict):
    """Whose bundles are checked."""

    node: str
    key: str


class GivenCodeSpec(TypedDict):
    """These."""

    kind: Literal["given"]
    coded_bits: Sequence[int]


class AdaptiveCodeSpec(TypedDict):
    """As many as the long run of the channel asks for: see ``services/design.rs``."""

    kind: Literal["adaptive"]
    mother_rate: float
    decoded: Sequence[float]


class CongestionSpec(TypedDict):
    """A congestion controller by name."""

    name: str
    options: NotRequired[Any]


ContactSpec = TypedDict(
    "ContactSpec",
    {
        "at": str,
        "confidence": NotRequired[float],
        "from": str,
        "rate_bit_s": int,
        "start_ns": int,
        "stop_ns": int,
        "to": str,
    },
)
"""A time in which a node can send to another, one way."""


class DeadlineSpec(TypedDict):
    """A bound of the delay that only a few packets may exceed."""

    delay_ns: int
    violation: float
    best_effort: Sequence[int]


class InformationDecoderSpec(TypedDict):
    """When it has gathered ``margin`` times its information bits of mutual information."""

    kind: Literal["information"]
    margin: float


class BlockErrorsDecoderSpec(TypedDict):
    """With these chances, whatever the channel."""

    kind: Literal["block_errors"]
    probabilities: Sequence[float]


class DelayChange(TypedDict):
    """From ``at_ns`` on the delay is ``delay_ns``."""

    at_ns: int
    delay_ns: int


class DelayedAck(TypedDict):
    """Delayed acknowledgements (RFC 1122 section 4.2.3.2, RFC 5681 section 4.2)."""

    timeout_ns: int
    every: int
    quick: int


class FixedDrawSpec(TypedDict):
    """Each is the mean."""

    kind: Literal["fixed"]


class ExponentialDrawSpec(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]


class ParetoDrawSpec(TypedDict):
    """Pareto; its shape is above 1, or there would be no mean."""

    kind: Literal["pareto"]
    shape: float


class DtnSpec(TypedDict):
    """Bundle nodes, what they know of each other, and what they send."""

    epoch_ms: int
    nodes: Sequence[NodeSpec2]
    links: Sequence[LinkSpec2]
    plan: PlanSpec
    backlog_ignored: NotRequired[bool]
    changes: NotRequired[Sequence[ChangeSpec2]]
    epidemic: NotRequired[EpidemicSpec | None]
    keys_of_names: NotRequired[bool]
    perf: NotRequired[Sequence[PerfSpec]]


class EpidemicSpec(TypedDict):
    """Every neighbour gets a copy that is not known to have one."""

    copies: NotRequired[int | None]


class FeedbackSpec(TypedDict):
    """How what a stage tells comes to who hears it."""

    delay_ns: int
    loss: float


class FlowSpec(TypedDict):
    """One flow: a client, a server, and what they do."""

    name: str
    client: str
    server: str
    start_ns: int
    start_jitter_ns: int
    client_congestion: CongestionSpec
    server_congestion: CongestionSpec
    transport: TransportSpec
    load: LoadSpec
    user: NotRequired[int]


class GraphChange(TypedDict):
    """What changes together at one instant, before any packet of that instant: a hand-over. Whatever it
    does not name stays as it was.
    """

    at_ns: int
    links: NotRequired[Sequence[LinkUse]]
    stages: NotRequired[Sequence[StageChange]]
    ways: NotRequired[Sequence[WayChange]]


class GraphSpec(TypedDict):
    """A graph of nodes and links."""

    nodes: Sequence[NodeSpec]
    links: Sequence[LinkSpec]
    changes: NotRequired[Sequence[GraphChange]]


class GroupSpec(TypedDict):
    """Flows of which the time series have one entry together; what is counted once a run is counted for
    each.
    """

    name: str
    flows: Sequence[str]
    each: NotRequired[bool]
    links: NotRequired[Sequence[str]]


class HandSpec(TypedDict):
    """A next hop that somebody has set by hand."""

    to: str | None
    via: str


class HostSpec(TypedDict):
    """A host of a page."""

    name: str
    open: bool
    tls: NotRequired[bool]


class IntegritySpec(TypedDict):
    """What a node does for the integrity of bundles."""

    on_the_way: NotRequired[bool]
    unsigned: NotRequired[Unproven]
    others: NotRequired[Unproven]
    check: NotRequired[Sequence[CheckSpec]]
    sign: NotRequired[SignSpec | None]


class UniformJitterModel(TypedDict):
    """Uniform between 0 and ``most_ns``."""

    kind: Literal["uniform"]
    most_ns: int


class NormalJitterModel(TypedDict):
    """Normal, cut off below 0."""

    kind: Literal["normal"]
    mean_ns: int
    deviation_ns: int


class ExponentialJitterModel(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]
    mean_ns: int


class QuicclLayerSpec(TypedDict):
    """draft-caini-dtn-quiccl-01."""

    kind: Literal["quiccl"]
    streams: NotRequired[Streaming]
    most_streams: NotRequired[int]
    keepalive_s: NotRequired[int]
    segment_bytes: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]
    patience_ns: NotRequired[int]
    datagram_bytes: NotRequired[int | None]
    notice_ns: NotRequired[int]


class QubicleLayerSpec(TypedDict):
    """draft-ek-dtn-qubicle-02."""

    kind: Literal["qubicle"]
    most_streams: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]


class TcpclLayerSpec(TypedDict):
    """RFC 9174."""

    kind: Literal["tcpcl"]
    keepalive_s: NotRequired[int]
    segment_bytes: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]
    patience_ns: NotRequired[int]
    tls: NotRequired[TlsPolicy]


class MtcpLayerSpec(TypedDict):
    """draft-ietf-dtn-mtcpcl."""

    kind: Literal["mtcp"]
    transfer_bytes: NotRequired[int]


class LtpLayerSpec(TypedDict):
    """RFC 5326 over UDP (RFC 7122)."""

    kind: Literal["ltp"]
    colour: NotRequired[Colour]
    segment_bytes: NotRequired[int]
    header_bytes: NotRequired[int]
    rate_bit_s: NotRequired[int | None]
    owlt_ns: NotRequired[int]
    margin_ns: NotRequired[int]
    most_times: NotRequired[int]
    most_cycles: NotRequired[int]
    most_outgoing: NotRequired[int]
    most_incoming: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]


@final
class PacketsLimit(TypedDict):
    """At most this many packets wait."""

    packets: int


@final
class BytesLimit(TypedDict):
    """At most this many bytes wait; a larger packet never enters, not even before an idle transmitter."""

    bytes: int


class LinkLayerSpec(TypedDict):
    """A link layer: how many coded bits a packet becomes, when a receiver can decode it, and what follows
    if not.
    """

    rate_bit_s: int
    frame_bytes: int
    overhead_bits: int
    code: CodeSpec
    decoder: DecoderSpec
    combining: Combining
    repeat: Repeat
    attempts: int | None
    window: int | None
    feedback: FeedbackSpec | None
    time_out_ns: int | None
    first_overhead_bits: NotRequired[int]


class LinkSpec(TypedDict):
    """A link between two nodes: ``up`` carries packets from ``client_side`` to ``server_side``, ``down``
    the other way.
    """

    name: str
    client_side: str
    server_side: str
    up: Sequence[StageSpec]
    down: Sequence[StageSpec]


class LinkSpec2(TypedDict):
    """A way for connections of bundle nodes."""

    flow: str
    layer: LayerSpec
    shared: bool
    with_contact: bool
    closes: bool
    on_return: NotRequired[ReturnSpec]
    by_plan: NotRequired[bool]


class LinkUse(TypedDict):
    """Whether a link is in use from now on."""

    link: str
    in_use: bool


class PerfLoadSpec(TypedDict):
    """Streams of the perf protocol over one connection, which closes when all are done."""

    kind: Literal["perf"]
    streams: Sequence[StreamSpec]


class PoissonLoadSpec(TypedDict):
    """Short flows that arrive as a Poisson process, each on a connection of its own."""

    kind: Literal["poisson"]
    mean_interarrival_ns: int
    size: SizeSpec
    send: Direction
    duration_ns: int


class OnOffLoadSpec(TypedDict):
    """A source that alternates between sending and silence, over one connection and one stream."""

    kind: Literal["on_off"]
    on_ns: int
    off_ns: int
    exponential: bool
    rate_bit_s: int | None
    send: Direction
    duration_ns: int
    pareto_shape: NotRequired[float | None]


class DatagramsLoadSpec(TypedDict):
    """Datagrams that leave when they are full: calls, live streams."""

    kind: Literal["datagrams"]
    up: SourceSpec | None
    down: SourceSpec | None
    duration_ns: int


class PageLoadSpec(TypedDict):
    """Loads of a web page."""

    kind: Literal["page"]
    page: PageSpec
    http: Http
    tls: Tls
    loads: int
    pause_ns: Sequence[int]
    timeout_ns: int
    profile: Profile
    keep_connections: bool
    udp_blocked: bool
    quic_head_start_ns: int
    connections_per_host: int
    parse_ns: int


class BundlesLoadSpec(TypedDict):
    """What bundle nodes send over it: its two sides are ends of theirs."""

    kind: Literal["bundles"]


class LooSpec(TypedDict):
    """Loo's distribution, in dB relative to the line of sight."""

    mean_db: float
    deviation_db: float
    multipath_db: float


class LossChange(TypedDict):
    """From ``at_ns`` on packets are lost with probability ``probability``."""

    at_ns: int
    probability: float


class DuplicateAcksLossDetection(TypedDict):
    """Duplicate ACKs, or SACKed segments above, by count (RFC 5681 section 3.2, RFC 6675)."""

    kind: Literal["duplicate_acks"]
    threshold: int
    forward: NotRequired[bool]


class RackTlpLossDetection(TypedDict):
    """RACK-TLP (RFC 8985): by time, with tail loss probes. Needs SACK."""

    kind: Literal["rack_tlp"]


class BernoulliLossModel(TypedDict):
    """Each packet is lost independently."""

    kind: Literal["bernoulli"]
    probability: float


class GilbertElliottLossModel(TypedDict):
    """Two states, one transition chance per packet (Gilbert 1960, Elliott 1963)."""

    kind: Literal["gilbert_elliott"]
    good_to_bad: float
    bad_to_good: float
    loss_good: float
    loss_bad: float


class BurstLossModel(TypedDict):
    """Every packet is lost during ``length_ns`` at the start of every ``period_ns``, from ``offset_ns``
    on.
    """

    kind: Literal["burst"]
    period_ns: int
    length_ns: int
    offset_ns: int


class TraceLossModel(TypedDict):
    """Each listed packet, counted from 0 in order of arrival, is lost."""

    kind: Literal["trace"]
    packets: Sequence[int]


class SlotsLossModel(TypedDict):
    """Bursts where slots begin, and single packets in between, with chances drawn anew in each slot."""

    kind: Literal["slots"]
    slots: SlotsSpec
    probability: Sequence[float]
    burst_probability: float
    burst_ns: Sequence[int]


class ModeSpec(TypedDict):
    """A modulation and a code."""

    es_n0_db: float
    data_bits: int
    coded_bits: int
    symbols: int


class Motion(TypedDict):
    """A terminal that moves at a constant speed, seen on a grid of time."""

    seed: NotRequired[int | None]
    step_ns: int
    carrier_hz: int
    speed_m_s: float


class NodeSpec(TypedDict):
    """A node of the graph."""

    name: str
    kind: NodeKind
    hold_bytes: NotRequired[int | None]


class NodeSpec2(TypedDict):
    """A bundle node."""

    name: str
    eid: str
    store_bytes: NotRequired[int | None]
    integrity: NotRequired[IntegritySpec | None]
    routes: NotRequired[Sequence[HandSpec]]
    stops: NotRequired[Sequence[StopSpec]]
    store_ns: NotRequired[int]


class ObjectSpec(TypedDict):
    """An object of a page."""

    name: str
    host: int
    request_bytes: int
    response_header_bytes: int
    body_bytes: int
    after: Sequence[int]
    think_ns: int
    redirect: NotRequired[int | None]


class OrderSpec(TypedDict):
    """Delivery in order (TS 38.323 section 5.2.2)."""

    time_limit_ns: int | None


OverSpec = TypedDict(
    "OverSpec",
    {
        "from": str,
        "to": str,
    },
)
"""One way between two nodes whose contacts are all over by zero."""


class WindowPaceSpec(TypedDict):
    """As long as fewer are not acknowledged by the server."""

    kind: Literal["window"]
    bundles: int


class RatePaceSpec(TypedDict):
    """At a rate of payload; nothing is acknowledged."""

    kind: Literal["rate"]
    bit_s: int


class PageSpec(TypedDict):
    """A page: a list of objects, the first of which is the main document, or redirects to it. Nothing is
    cached.
    """

    name: str
    hosts: Sequence[HostSpec]
    objects: Sequence[ObjectSpec]


class PerfSpec(TypedDict):
    """A client of dtnperf, and its server."""

    name: str
    client: str
    server: str
    monitor: NotRequired[str | None]
    start_ns: int
    amount: AmountSpec2
    pace: PaceSpec
    payload_bytes: int
    lifetime_ns: int
    priority: Priority
    critical: NotRequired[bool]
    hop_limit: NotRequired[int | None]
    crc: Crc
    whole: bool
    reports: NotRequired[ReportsSpec]


class PeriodsSpec(TypedDict):
    """Periods of sending and silence that alternate, sending first."""

    on_ns: int
    off_ns: int
    draw: DrawSpec


class PlanSpec(TypedDict):
    """A contact plan. Times are nanoseconds since its zero."""

    contacts: Sequence[ContactSpec]
    ranges: NotRequired[Sequence[RangeSpec]]
    epoch_unix_s: NotRequired[int | None]
    nodes: NotRequired[Sequence[str]]
    over: NotRequired[Sequence[OverSpec]]


class ProxySpec(TypedDict):
    """A proxy at a node of the path. Every TCP connection whose packets cross the node is split there;
    both addresses stay as they are (a transparent proxy). Everything else passes as through a router.
    """

    node: str
    setup: Setup
    buffer_bytes: int
    client_side: SocketSpec
    server_side: SocketSpec


class DropTailQueueSpec(TypedDict):
    """First in, first out; an arrival that does not fit is dropped. No limit: unbounded."""

    kind: Literal["drop_tail"]
    limit: Limit | None


class DropHeadQueueSpec(TypedDict):
    """First in, first out; an arrival that does not fit makes room at the front, where the oldest wait."""

    kind: Literal["drop_head"]
    limit: Limit | None


class CodelQueueSpec(TypedDict):
    """CoDel (RFC 8289)."""

    kind: Literal["codel"]
    limit: Limit | None
    target_ns: int
    interval_ns: int
    ecn: bool


class FqCodelQueueSpec(TypedDict):
    """FQ-CoDel (RFC 8290)."""

    kind: Literal["fq_codel"]
    limit_packets: int
    flows: int
    quantum_bytes: int
    target_ns: int
    interval_ns: int
    ecn: bool


class PerUserQueueSpec(TypedDict):
    """One for each user."""

    kind: Literal["per_user"]
    scheduler: SchedulerSpec
    limit: Limit | None
    total: Limit | None
    channel_delay_ns: int


class QuicSpec(TypedDict):
    """Options of both endpoints of a QUIC flow."""

    crypto: Crypto
    handshake: Handshake
    mtu_bytes: int
    header_bytes: int
    initial_window_bytes: int
    unpaced_burst_packets: NotRequired[int]
    initial_rtt_ns: int
    ack_eliciting_threshold: int | None
    max_ack_delay_ns: int | None
    ecn: bool
    receive_window_bytes: int
    stream_receive_window_bytes: int
    send_window_bytes: int
    idle_timeout_ns: int | None
    packet_threshold: int
    time_threshold_permille: NotRequired[int | None]


RangeSpec = TypedDict(
    "RangeSpec",
    {
        "at": str,
        "from": str,
        "implies_reverse": bool,
        "owlt_ns": int,
        "start_ns": int,
        "stop_ns": int,
        "to": str,
    },
)
"""How long light takes from a node to another for some time."""


class RateChange(TypedDict):
    """From ``at_ns`` on the rate is ``rate_bit_s``."""

    at_ns: int
    rate_bit_s: int


class Reference(TypedDict):
    """The signal-to-noise ratio about which a channel varies."""

    snr_db: float
    error_db: NotRequired[float]


class ReorderingSpec(TypedDict):
    """A reordering buffer."""

    packets: int
    time_limit_ns: int | None
    numbering: Numbering


class ReportsSpec(TypedDict):
    """Which status reports are asked for (RFC 9171 section 5.1), all with times."""

    received: bool
    forwarded: bool
    delivered: bool
    deleted: bool


class UnacknowledgedRlcSpec(TypedDict):
    """UM: what is lost is lost."""

    kind: Literal["unacknowledged"]


class AcknowledgedRlcSpec(TypedDict):
    """AM: what is lost is sent again."""

    kind: Literal["acknowledged"]
    poll_pdus: int | None
    poll_bytes: int | None
    poll_retransmit_ns: int
    reassembly_ns: int
    status_prohibit_ns: int
    most_retransmissions: int


class RunSpec(TypedDict):
    """One run."""

    seed: int
    duration_ns: int
    sample_ns: int
    graph: GraphSpec
    flows: Sequence[FlowSpec]
    proxies: NotRequired[Sequence[ProxySpec]]
    trace: NotRequired[TraceSpec]
    admissions: NotRequired[Sequence[AdmissionSpec]]
    dtn: NotRequired[DtnSpec | None]
    groups: NotRequired[Sequence[GroupSpec]]


class RoundRobinSchedulerSpec(TypedDict):
    """One packet of each user in turn."""

    name: Literal["round_robin"]


class DeficitRoundRobinSchedulerSpec(TypedDict):
    """As many bytes of each user in turn."""

    name: Literal["deficit_round_robin"]
    quantum_bytes: int
    weights: Sequence[Sequence[int | float]]


class MaximumRateSchedulerSpec(TypedDict):
    """Who has the largest rate."""

    name: Literal["maximum_rate"]


class ProportionalFairSchedulerSpec(TypedDict):
    """Who has the largest rate beside its average."""

    name: Literal["proportional_fair"]
    average: AverageSpec


class CodesSchedulerSpec(TypedDict):
    """Proportional fair; who has waited for too long is dropped."""

    name: Literal["codes"]
    average: AverageSpec
    time_limit_ns: int


class MLwdfSchedulerSpec(TypedDict):
    """Modified largest weighted delay first."""

    name: Literal["m_lwdf"]
    average: AverageSpec
    deadline: DeadlineSpec


class ExpPfSchedulerSpec(TypedDict):
    """Exponential proportional fair."""

    name: Literal["exp_pf"]
    average: AverageSpec
    deadline: DeadlineSpec


class OwnSchedulerSpec(TypedDict):
    """One that is given from outside."""

    name: Literal["own"]
    called: str
    options_json: str


class Scope(TypedDict):
    """What is signed beside a block's own data (RFC 9173 section 3.3.3); all where nothing is said."""

    primary: bool
    target: bool
    security: bool


class RateServiceSpec(TypedDict):
    """A constant rate, with scheduled changes."""

    kind: Literal["rate"]
    rate_bit_s: int
    changes: NotRequired[Sequence[RateChange]]


class TraceServiceSpec(TypedDict):
    """Delivery opportunities of a trace (Mahimahi): at each instant up to ``slot_bytes`` may leave."""

    kind: Literal["trace"]
    slots_ns: Sequence[int]
    slot_bytes: int
    repeat_ns: int


class SlotsServiceSpec(TypedDict):
    """A rate that is drawn anew in each slot."""

    kind: Literal["slots"]
    slots: SlotsSpec
    rate_bit_s: Sequence[int]


class Sight(TypedDict):
    """Where the satellite is, seen from the terminal."""

    elevation_deg: float
    azimuth_deg: float


class SignSpec(TypedDict):
    """How a node signs."""

    key: str
    sha: Sha
    scope: Scope


class FixedSizeSpec(TypedDict):
    """Always the same."""

    kind: Literal["fixed"]
    bytes: int


class ExponentialSizeSpec(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]
    mean_bytes: int


class ParetoSizeSpec(TypedDict):
    """Pareto, cut off at ``most_bytes``."""

    kind: Literal["pareto"]
    shape: float
    least_bytes: int
    most_bytes: int


class SlotsSpec(TypedDict):
    """Slots of one length, the boundaries of which may be off by a drawn time."""

    every_ns: int
    phase_ns: int
    jitter_ns: int


class SocketSpec(TypedDict):
    """One of a proxy's two sockets."""

    tcp: TcpSpec
    congestion: str
    options: NotRequired[Any]


class SourceSpec(TypedDict):
    """A source of datagrams, each of which leaves when it is full."""

    name: str
    rtp_type: int
    payload_bytes: int
    interval_ns: int
    periods: PeriodsSpec | None


class StageChange(TypedDict):
    """A change of one stage."""

    line: str
    stage: int
    change: ChangeSpec


class DelayStageSpec(TypedDict):
    """A constant delay."""

    kind: Literal["delay"]
    delay_ns: int
    changes: NotRequired[Sequence[DelayChange]]


class DelayTraceStageSpec(TypedDict):
    """A delay that follows a trace; before the first point the first value holds."""

    kind: Literal["delay_trace"]
    points: Sequence[Sequence[int]]
    interpolation: Interpolation
    repeat_ns: int | None
    reorder: bool


class SlotDelayStageSpec(TypedDict):
    """A delay that is drawn anew in each slot."""

    kind: Literal["slot_delay"]
    slots: SlotsSpec
    delay_ns: Sequence[int]
    jitter_ns: Sequence[int]
    step_ns: int
    correlation: float


class TransmitStageSpec(TypedDict):
    """A queue before a transmitter."""

    kind: Literal["transmit"]
    queue: QueueSpec
    service: ServiceSpec


class RadioStageSpec(TypedDict):
    """A queue before a radio link."""

    kind: Literal["radio"]
    queue: QueueSpec
    channel: ChannelSpec | None
    link_layer: LinkLayerSpec
    reordering: ReorderingSpec | None


class NrStageSpec(TypedDict):
    """A queue before a 5G link."""

    kind: Literal["nr"]
    queue: QueueSpec
    channel: ChannelSpec | None
    slot_ns: int
    block_bytes: int
    coded_bits: int
    decoder: DecoderSpec
    combining: Combining
    processes: int
    without_feedback: int
    repetitions: int
    attempts: int
    offset_slots: int
    feedback: FeedbackSpec | None
    rlc: RlcSpec
    order: OrderSpec | None


class AcmStageSpec(TypedDict):
    """A queue before a link with adaptive coding and modulation."""

    kind: Literal["acm"]
    queue: QueueSpec
    channel: ChannelSpec
    symbols_s: int
    modes: Sequence[ModeSpec]
    margin_db: float
    hysteresis_db: float
    report_interval_ns: int
    report_delay_ns: int


class NetemStageSpec(TypedDict):
    """Linux netem's ``rate`` + ``delay`` + ``limit`` in one: the limit counts the packets in the delay
    line too.
    """

    kind: Literal["netem"]
    rate_bit_s: int
    delay_ns: int
    limit_packets: int


class LossStageSpec(TypedDict):
    """Packet loss."""

    kind: Literal["loss"]
    model: LossModel
    changes: NotRequired[Sequence[LossChange]]


class JitterStageSpec(TypedDict):
    """Random extra delay per packet."""

    kind: Literal["jitter"]
    model: JitterModel
    reorder: bool


class ReorderStageSpec(TypedDict):
    """Some packets are held back by a fixed time, so that later ones overtake them."""

    kind: Literal["reorder"]
    probability: float
    hold_ns: int


class OutageStageSpec(TypedDict):
    """Periods in which nothing passes."""

    kind: Literal["outage"]
    windows: Sequence[Sequence[int]]
    repeat_ns: int | None
    hold: bool


class StateSpec(TypedDict):
    """One of the two states of ITU-R P.681."""

    ln_mean: float
    ln_deviation: float
    least_m: float
    mean_db: float
    mean_deviation_db: float
    quantiles: Sequence[float]
    deviation_per_db: float
    deviation_db: float
    multipath_per_db: float
    multipath_db: float


class StopSpec(TypedDict):
    """A node stops: its connections are gone without a word, and what comes to it is lost."""

    at_ns: int
    until_ns: NotRequired[int | None]
    keeps: bool


class StreamSpec(TypedDict):
    """One stream of the perf protocol."""

    stream_id: int
    after: int | None
    amount: AmountSpec


class TcpSides(TypedDict):
    """Options of both ends of a TCP flow."""

    client: TcpSpec
    server: TcpSpec


class TcpSpec(TypedDict):
    """Options of one end of a TCP connection. What both ends must agree on (SACK, timestamps, window
    scaling, ECN) is negotiated by the SYN as in life: an end that lacks it turns it off for both.
    """

    mss_bytes: int
    header_bytes: int
    initial_window_bytes: int
    initial_rto_ns: int
    min_rto_ns: int
    max_rto_ns: int
    loss_detection: LossDetection
    sack: bool
    dsack: bool
    adapt_reordering: bool
    limited_transmit: bool
    prr: bool
    frto: bool
    timestamps: bool
    window_scaling: bool
    delayed_ack: DelayedAck | None
    ack_counting: AckCounting
    ecn: bool
    fast_open: bool
    pacing: bool
    restart_after_idle: bool
    receive_buffer_bytes: int
    send_buffer_bytes: int
    rto_estimate: NotRequired[RtoEstimate]


class Tls(TypedDict):
    """TLS over TCP. Resumption applies to hosts of which the profile holds a ticket."""

    version: TlsVersion
    resumption: bool
    early_data: bool
    certificate_bytes: int
    client_hello_bytes: int


class TraceSpec(TypedDict):
    """Which per-packet traces a run keeps."""

    qlog: NotRequired[bool]
    pcapng: NotRequired[bool]
    packets: NotRequired[bool]
    stages: NotRequired[bool]
    tcp: NotRequired[bool]


class UdpTransportSpec(TypedDict):
    """Datagrams over UDP (RFC 768), which nothing controls: loads of datagrams only."""

    kind: Literal["udp"]
    header_bytes: int
    payload_bytes: NotRequired[int | None]


class WebTransportSpec(TypedDict):
    """What a browser has: both, for loads of pages."""

    kind: Literal["web"]
    quic: QuicSpec
    tcp: TcpSides
    tcp_congestion: NotRequired[Sequence[CongestionSpec] | None]


@final
class LinkWay(TypedDict):
    """Over this link, which must be in use."""

    link: str


class WayChange(TypedDict):
    """Where packets for ``to`` go on from ``node`` from now on."""

    node: str
    to: str
    way: Way


class QuicTransportSpec(QuicSpec):
    """QUIC (RFC 9000) by quinn-proto."""

    kind: Literal["quic"]


class TcpTransportSpec(TcpSides):
    """TCP (RFC 9293). Every stream of a load is a connection of its own."""

    kind: Literal["tcp"]


Averaged = Literal["channel", "served"]
Colour = Literal["red", "green"]
Combining = Literal["none", "chase", "incremental"]
Crc = Literal["none", "crc16", "crc32c"]
Crypto = Literal["modelled", "rustls"]
Direction = Literal["up", "down"]
Handshake = Literal["1-rtt", "0-rtt"]
Http = Literal["1.1", "2", "3", "alt-svc"]
InFlight = Literal["in_order", "overtaken", "lost"]
Interpolation = Literal["step", "linear"]
NodeKind = Literal["host", "router", "proxy"]
Numbering = Literal["link", "tcp"]
Priority = Literal["bulk", "normal", "expedited"]
Profile = Literal["fresh", "kept"]
Repeat = Literal["selective", "go_back_n"]
ReturnSpec = Literal["alone", "reopen", "resume", "cue"]
RtoEstimate = Literal["linux", "rfc6298"]
Setup = Literal["relayed", "early", "pooled"]
Sha = Literal["256", "384", "512"]
Streaming = Literal["one", "each", "priorities"]
TlsPolicy = Literal["no", "allow", "require"]
TlsVersion = Literal["1.2", "1.2-false-start", "1.3"]
Unproven = Literal["pass", "delete"]
Way = Literal["shortest", "none"] | LinkWay
AckCounting = PerAckAckCounting | BytesAckCounting | UnlimitedAckCounting
AmountSpec = DataAmountSpec | TimeAmountSpec
AmountSpec2 = TimeAmountSpec2 | DataAmountSpec2
ChangeSpec = (
    DelayChangeSpec
    | RateChangeSpec
    | LimitChangeSpec
    | LossChangeSpec
    | InFlightChangeSpec
    | ServesChangeSpec
)
ChannelSpec = (
    FixedChannelSpec
    | ThreeStateChannelSpec
    | SemiMarkovChannelSpec
    | RayleighChannelSpec
    | MeasuredChannelSpec
    | RangedChannelSpec
)
CodeSpec = GivenCodeSpec | AdaptiveCodeSpec
DecoderSpec = InformationDecoderSpec | BlockErrorsDecoderSpec
DrawSpec = FixedDrawSpec | ExponentialDrawSpec | ParetoDrawSpec
JitterModel = UniformJitterModel | NormalJitterModel | ExponentialJitterModel
LayerSpec = QuicclLayerSpec | QubicleLayerSpec | TcpclLayerSpec | MtcpLayerSpec | LtpLayerSpec
Limit = PacketsLimit | BytesLimit
LoadSpec = PerfLoadSpec | PoissonLoadSpec | OnOffLoadSpec | DatagramsLoadSpec | PageLoadSpec | BundlesLoadSpec
LossDetection = DuplicateAcksLossDetection | RackTlpLossDetection
LossModel = BernoulliLossModel | GilbertElliottLossModel | BurstLossModel | TraceLossModel | SlotsLossModel
PaceSpec = WindowPaceSpec | RatePaceSpec
QueueSpec = DropTailQueueSpec | DropHeadQueueSpec | CodelQueueSpec | FqCodelQueueSpec | PerUserQueueSpec
RlcSpec = UnacknowledgedRlcSpec | AcknowledgedRlcSpec
SchedulerSpec = (
    RoundRobinSchedulerSpec
    | DeficitRoundRobinSchedulerSpec
    | MaximumRateSchedulerSpec
    | ProportionalFairSchedulerSpec
    | CodesSchedulerSpec
    | MLwdfSchedulerSpec
    | ExpPfSchedulerSpec
    | OwnSchedulerSpec
)
ServiceSpec = RateServiceSpec | TraceServiceSpec | SlotsServiceSpec
SizeSpec = FixedSizeSpec | ExponentialSizeSpec | ParetoSizeSpec
StageSpec = (
    DelayStageSpec
    | DelayTraceStageSpec
    | SlotDelayStageSpec
    | TransmitStageSpec
    | RadioStageSpec
    | NrStageSpec
    | AcmStageSpec
    | NetemStageSpec
    | LossStageSpec
    | JitterStageSpec
    | ReorderStageSpec
    | OutageStageSpec
)
TransportSpec = QuicTransportSpec | TcpTransportSpec | UdpTransportSpec | WebTransportSpec
