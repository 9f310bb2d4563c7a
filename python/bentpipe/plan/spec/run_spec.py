"""Types of a resolved run, which the planner writes and the engine reads (``RunSpec`` of ``crates/spec``).

``make types`` writes this file from the engine's schema; a test compares both. Only mypy uses it, so modules import it
under ``TYPE_CHECKING``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict, final


class PerAckAckCounting(TypedDict):
    """An ACK counts as at most one segment, for any acknowledged amount (RFC 5681 section 3.1)."""

    kind: Literal["per_ack"]


class BytesAckCounting(TypedDict):
    """Appropriate byte counting (RFC 3465): in slow start at most ``limit`` segments per ACK, or 1 after a
    timeout. Afterwards all bytes.
    """

    kind: Literal["bytes"]
    limit: int


class UnlimitedAckCounting(TypedDict):
    """Every acknowledged byte counts (Linux since 3.14, and QUIC)."""

    kind: Literal["unlimited"]


class AdmissionSpec(TypedDict):
    """Call admission: a flow starts only if its rate and the rates of all active flows fit into a limit.
    The rate of a flow is the rate of its sources during a talk spurt.
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
    """One side sends at the maximum rate for this time after the stream opens."""

    mode: Literal["time"]
    duration_ns: int
    direction: Direction


class AverageSpec(TypedDict):
    """An exponential average of a user's rates."""

    quantity: AveragedQuantity
    window_ns: int


class BibCheckSpec(TypedDict):
    """A source that the node verifies."""

    node: str
    key: str


class BibSignSpec(TypedDict):
    """The signature of a node."""

    key: str
    sha: ShaVariant
    scope: IntegrityScope


class BundleNodeSpec(TypedDict):
    """A bundle node."""

    name: str
    eid: str
    store_bytes: NotRequired[int | None]
    integrity: NotRequired[IntegritySpec | None]
    outages: NotRequired[Sequence[NodeOutageSpec]]
    routes: NotRequired[Sequence[StaticRouteSpec]]
    store_delay_ns: NotRequired[int]


class FixedChannelSpec(TypedDict):
    """Additive white Gaussian noise only."""

    kind: Literal["fixed"]
    snr_db: float


class ThreeStateChannelSpec(TypedDict):
    """Shadowing states that form a Markov chain, with Loo fading in each (Perez-Fontan)."""

    kind: Literal["three_state"]
    reference: ReferenceSnr
    motion: TerminalMotion
    look_angle: LookAngle
    transitions: Sequence[Sequence[float]]
    states: Sequence[LooSpec]
    frames_m: Sequence[float]
    transition_m: float
    correlation_m: float


class SemiMarkovChannelSpec(TypedDict):
    """Alternating good and bad states (ITU-R P.681) with Loo fading. Each state interval draws its
    parameters.
    """

    kind: Literal["semi_markov"]
    reference: ReferenceSnr
    motion: TerminalMotion
    look_angle: LookAngle
    cells: Sequence[SemiMarkovCellSpec]


class RayleighChannelSpec(TypedDict):
    """Multipath without a direct path."""

    kind: Literal["rayleigh"]
    reference: ReferenceSnr
    motion: TerminalMotion


class MeasuredChannelSpec(TypedDict):
    """Attenuation over time, equal for all users."""

    kind: Literal["measured"]
    reference: ReferenceSnr
    points: Sequence[Sequence[int | float]]
    interpolation: Interpolation
    repeat_ns: int | None


class RangeLossChannelSpec(TypedDict):
    """A channel to a satellite at varying distance."""

    kind: Literal["range_loss"]
    loss: Sequence[Sequence[int | float]]
    channel: ChannelSpec


class ClaLinkSpec(TypedDict):
    """The parameters of connections between two bundle nodes."""

    flow: str
    cla: ClaSpec
    shared: bool
    opens_with_contact: bool
    closes_after_contact: bool
    on_contact_start: NotRequired[ContactStartSpec]
    adapts_to_plan: NotRequired[bool]


class QuicclClaSpec(TypedDict):
    """Options of QUICCL."""

    kind: Literal["quiccl"]
    streams: NotRequired[StreamMappingSpec]
    max_streams: NotRequired[int]
    keepalive_s: NotRequired[int]
    segment_bytes: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]
    response_timeout_ns: NotRequired[int]
    datagram_bytes: NotRequired[int | None]
    ack_timeout_ns: NotRequired[int]


class QubicleClaSpec(TypedDict):
    """Options of qubicle."""

    kind: Literal["qubicle"]
    max_streams: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]


class TcpclClaSpec(TypedDict):
    """Options of TCPCLv4."""

    kind: Literal["tcpcl"]
    keepalive_s: NotRequired[int]
    segment_bytes: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]
    response_timeout_ns: NotRequired[int]
    tls: NotRequired[TlsPolicy]


class MtcpClaSpec(TypedDict):
    """Options of MTCP."""

    kind: Literal["mtcp"]
    transfer_bytes: NotRequired[int]


class LtpClaSpec(TypedDict):
    """Options of LTP."""

    kind: Literal["ltp"]
    colour: NotRequired[Colour]
    segment_bytes: NotRequired[int]
    header_bytes: NotRequired[int]
    rate_bit_s: NotRequired[int | None]
    owlt_ns: NotRequired[int]
    margin_ns: NotRequired[int]
    max_retransmissions: NotRequired[int]
    max_retransmission_cycles: NotRequired[int]
    max_outgoing_sessions: NotRequired[int]
    max_incoming_sessions: NotRequired[int]
    transfer_bytes: NotRequired[int]
    incoming_bytes: NotRequired[int]


class GivenCodeSpec(TypedDict):
    """Fixed numbers."""

    kind: Literal["given"]
    coded_bits: Sequence[int]


class AdaptiveCodeSpec(TypedDict):
    """Numbers derived from the long-term statistics of the channel: see ``services/harq_code_design.rs``."""

    kind: Literal["adaptive"]
    mother_rate: float
    target_decoded_ratio: Sequence[float]


class CongestionSpec(TypedDict):
    """A congestion controller by name."""

    name: str
    options: NotRequired[Any]


ContactSpec = TypedDict(
    "ContactSpec",
    {
        "confidence": NotRequired[float],
        "declared_at": str,
        "from": str,
        "rate_bit_s": int,
        "start_ns": int,
        "stop_ns": int,
        "to": str,
    },
)
"""A time during which a node can send to another, in one direction."""


class DeadlineSpec(TypedDict):
    """A delay bound with a maximum share of violations."""

    delay_ns: int
    violation_ratio: float
    best_effort: Sequence[int]


class InformationDecoderSpec(TypedDict):
    """The accumulated mutual information is at least ``margin`` times the information bits."""

    kind: Literal["information"]
    margin: float


class BlockErrorsDecoderSpec(TypedDict):
    """Fixed probabilities, independent of the channel."""

    kind: Literal["block_errors"]
    probabilities: Sequence[float]


class DelayChange(TypedDict):
    """A change of the delay at ``at_ns``."""

    at_ns: int
    delay_ns: int


class DelayedAck(TypedDict):
    """Delayed acknowledgements (RFC 1122 section 4.2.3.2, RFC 5681 section 4.2)."""

    timeout_ns: int
    segments_per_ack: int
    quick_acks: int


class TimeDtnPerfAmount(TypedDict):
    """Sends for a limited time."""

    kind: Literal["time"]
    duration_ns: int


class DataDtnPerfAmount(TypedDict):
    """Sends a limited amount of payload. The last bundle can be smaller."""

    kind: Literal["data"]
    bytes: int


class WindowDtnPerfPace(TypedDict):
    """Limits the number of unacknowledged bundles; the server acknowledges each one."""

    kind: Literal["window"]
    bundles: int


class RateDtnPerfPace(TypedDict):
    """Sends payload at a constant rate, without acknowledgements."""

    kind: Literal["rate"]
    bit_s: int


class DtnPerfSpec(TypedDict):
    """A dtnperf client and its server."""

    name: str
    client: str
    server: str
    monitor: NotRequired[str | None]
    start_ns: int
    amount: DtnPerfAmount
    pace: DtnPerfPace
    payload_bytes: int
    lifetime_ns: int
    priority: Priority
    critical: NotRequired[bool]
    hop_limit: NotRequired[int | None]
    crc: Crc
    do_not_fragment: bool
    reports: NotRequired[StatusReportSpec]


class DtnSpec(TypedDict):
    """The bundle nodes of a run, their contact plan and their traffic."""

    epoch_ms: int
    nodes: Sequence[BundleNodeSpec]
    links: Sequence[ClaLinkSpec]
    plan: PlanSpec
    backlog_ignored: NotRequired[bool]
    changes: NotRequired[Sequence[PlanChangeSpec]]
    derive_keys_from_names: NotRequired[bool]
    epidemic: NotRequired[EpidemicSpec | None]
    perf: NotRequired[Sequence[DtnPerfSpec]]


class EpidemicSpec(TypedDict):
    """Epidemic routing: every neighbour gets a copy unless it is known to have one."""

    copies: NotRequired[int | None]


ExpiredPairSpec = TypedDict(
    "ExpiredPairSpec",
    {
        "from": str,
        "to": str,
    },
)
"""A direction between two nodes with expired contacts only."""


class FeedbackSpec(TypedDict):
    """The properties of a feedback channel between stages."""

    delay_ns: int
    loss: float


class FlowSpec(TypedDict):
    """A flow: client, server, transport and load."""

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


class GroupSpec(TypedDict):
    """A group of flows with one common time series. Counters of the whole run remain separate for each
    flow.
    """

    name: str
    flows: Sequence[str]
    links: NotRequired[Sequence[str]]
    per_flow: NotRequired[bool]


class HostSpec(TypedDict):
    """A host of a page."""

    name: str
    open: bool
    tls: NotRequired[bool]


class IntegrityScope(TypedDict):
    """The signed data beside the block-type-specific data (RFC 9173 section 3.3.3). The default is all of
    it.
    """

    primary: bool
    target: bool
    security: bool


class IntegritySpec(TypedDict):
    """The integrity policy of a node."""

    checks_forwarded: NotRequired[bool]
    unsigned: NotRequired[UnverifiedAction]
    other_sources: NotRequired[UnverifiedAction]
    check: NotRequired[Sequence[BibCheckSpec]]
    sign: NotRequired[BibSignSpec | None]


class UniformJitterModel(TypedDict):
    """Uniform between 0 and ``max_ns``."""

    kind: Literal["uniform"]
    max_ns: int


class NormalJitterModel(TypedDict):
    """Normal, truncated below 0."""

    kind: Literal["normal"]
    mean_ns: int
    deviation_ns: int


class ExponentialJitterModel(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]
    mean_ns: int


class LinkAdminState(TypedDict):
    """Whether a link is in use from this instant."""

    link: str
    enabled: bool


class LinkLayerSpec(TypedDict):
    """A link layer: the coded bits per packet, the decoding condition, and the error control."""

    rate_bit_s: int
    frame_bytes: int
    overhead_bits: int
    code: CodeSpec
    decoder: DecoderSpec
    combining: HarqCombining
    repeat: ArqScheme
    attempts: int | None
    window: int | None
    feedback: FeedbackSpec | None
    timeout_ns: int | None
    first_overhead_bits: NotRequired[int]


class LinkSpec(TypedDict):
    """A link between two nodes: ``up`` carries packets from ``client_side`` to ``server_side``, ``down``
    the reverse direction.
    """

    name: str
    client_side: str
    server_side: str
    up: Sequence[StageSpec]
    down: Sequence[StageSpec]


class PerfLoadSpec(TypedDict):
    """Streams of the perf protocol over one connection, which closes when all are done."""

    kind: Literal["perf"]
    streams: Sequence[StreamSpec]


class PoissonLoadSpec(TypedDict):
    """Short flows that arrive as a Poisson process, each on a separate connection."""

    kind: Literal["poisson"]
    mean_interarrival_ns: int
    size: SizeSpec
    direction: Direction
    duration_ns: int


class OnOffLoadSpec(TypedDict):
    """A source that alternates between sending and silence, over one connection and one stream."""

    kind: Literal["on_off"]
    on_ns: int
    off_ns: int
    exponential: bool
    rate_bit_s: int | None
    direction: Direction
    duration_ns: int
    pareto_shape: NotRequired[float | None]


class DatagramsLoadSpec(TypedDict):
    """Datagrams that are sent when they are full: calls, live streams."""

    kind: Literal["datagrams"]
    up: SourceSpec | None
    down: SourceSpec | None
    duration_ns: int


class PageLoadSpec(TypedDict):
    """Loads of a web page."""

    kind: Literal["page"]
    page: PageSpec
    http: HttpVersionPolicy
    tls: TlsSpec
    loads: int
    pause_ns: Sequence[int]
    timeout_ns: int
    profile: ProfileReuse
    keep_connections: bool
    udp_blocked: bool
    quic_head_start_ns: int
    connections_per_host: int
    parse_ns: int


class BundlesLoadSpec(TypedDict):
    """Traffic of bundle nodes; the two sides are interfaces of those nodes."""

    kind: Literal["bundles"]


class LooSpec(TypedDict):
    """Loo's distribution, in dB relative to the line of sight."""

    mean_db: float
    deviation_db: float
    multipath_db: float


class LookAngle(TypedDict):
    """The direction to the satellite, seen from the terminal."""

    elevation_deg: float
    azimuth_deg: float


class LossChange(TypedDict):
    """A change of the loss probability at ``at_ns``."""

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
    """Two states with one possible transition per packet (Gilbert 1960, Elliott 1963)."""

    kind: Literal["gilbert_elliott"]
    good_to_bad: float
    bad_to_good: float
    loss_good: float
    loss_bad: float


class BurstLossModel(TypedDict):
    """All packets are lost during ``duration_ns`` at the start of every ``interval_ns``, from
    ``offset_ns`` onwards.
    """

    kind: Literal["burst"]
    interval_ns: int
    duration_ns: int
    offset_ns: int


class TraceLossModel(TypedDict):
    """The listed packets are lost, counted from 0 in order of arrival."""

    kind: Literal["trace"]
    packets: Sequence[int]


class ReconfigurationLossModel(TypedDict):
    """Packet loss per time slot: bursts at a handover between slots, and independent single losses."""

    kind: Literal["reconfiguration"]
    reconfiguration: ReconfigurationSpec
    probability: Sequence[float]
    burst_probability: float
    burst_ns: Sequence[int]


class ModcodSpec(TypedDict):
    """A modulation and a code."""

    es_n0_db: float
    data_bits: int
    coded_bits: int
    symbols: int


class NodeOutageSpec(TypedDict):
    """A node failure: all connections end without a close, and the node discards all input."""

    at_ns: int
    until_ns: NotRequired[int | None]
    keeps_store: bool


class NodeSpec(TypedDict):
    """A node of the topology."""

    name: str
    kind: NodeKind
    store_and_forward_bytes: NotRequired[int | None]


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


class PageSpec(TypedDict):
    """A page: a list of objects. The first is the main document, or redirects to it. There is no cache."""

    name: str
    hosts: Sequence[HostSpec]
    objects: Sequence[ObjectSpec]


class PdcpReorderingSpec(TypedDict):
    """In-order delivery (TS 38.323 section 5.2.2)."""

    time_limit_ns: int | None


class FixedPeriodDistribution(TypedDict):
    """Each length is the mean."""

    kind: Literal["fixed"]


class ExponentialPeriodDistribution(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]


class ParetoPeriodDistribution(TypedDict):
    """Pareto; the shape must exceed 1, since otherwise there is no mean."""

    kind: Literal["pareto"]
    shape: float


class PeriodsSpec(TypedDict):
    """Periods of sending and silence that alternate, sending first."""

    on_ns: int
    off_ns: int
    distribution: PeriodDistribution


class PlanChangeSpec(TypedDict):
    """A change of the contact plan at one instant."""

    at_ns: int
    add: NotRequired[Sequence[ContactSpec]]
    remove: NotRequired[Sequence[str]]


class PlanSpec(TypedDict):
    """A contact plan. Times are nanoseconds since its zero."""

    contacts: Sequence[ContactSpec]
    ranges: NotRequired[Sequence[RangeSpec]]
    epoch_unix_s: NotRequired[int | None]
    expired_pairs: NotRequired[Sequence[ExpiredPairSpec]]
    nodes: NotRequired[Sequence[str]]


class ProxySpec(TypedDict):
    """A proxy at a node of the path. It splits every TCP connection with packets through the node. Both
    addresses stay unchanged (a transparent proxy). Other packets pass as through a router.
    """

    node: str
    handshake: HandshakeMode
    buffer_bytes: int
    client_side: SocketSpec
    server_side: SocketSpec


@final
class PacketsQueueLimit(TypedDict):
    """Maximum number of queued packets."""

    packets: int


@final
class BytesQueueLimit(TypedDict):
    """Maximum number of queued bytes. A larger packet never enters, even if the transmitter is idle."""

    bytes: int


class DropTailQueueSpec(TypedDict):
    """First in, first out; an arrival above the limit is dropped."""

    kind: Literal["drop_tail"]
    limit: QueueLimit | None


class DropHeadQueueSpec(TypedDict):
    """First in, first out; an arrival above the limit evicts the oldest packets at the front."""

    kind: Literal["drop_head"]
    limit: QueueLimit | None


class CodelQueueSpec(TypedDict):
    """CoDel (RFC 8289)."""

    kind: Literal["codel"]
    limit: QueueLimit | None
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
    """One queue per user, first in, first out."""

    kind: Literal["per_user"]
    scheduler: SchedulerSpec
    limit: QueueLimit | None
    total: QueueLimit | None
    csi_delay_ns: int


class PolicerQueueSpec(TypedDict):
    """A policer before the queue of a link."""

    kind: Literal["policer"]
    limit: QueueLimit | None
    rate_bit_s: int
    burst_bytes: int


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
        "declared_at": str,
        "from": str,
        "implies_reverse": bool,
        "owlt_ns": int,
        "start_ns": int,
        "stop_ns": int,
        "to": str,
    },
)
"""The light time from a node to another during an interval."""


class RateChange(TypedDict):
    """A change of the rate at ``at_ns``."""

    at_ns: int
    rate_bit_s: int


class ReconfigurationSpec(TypedDict):
    """Slots of equal length with optional random offsets of the boundaries."""

    interval_ns: int
    phase_ns: int
    jitter_ns: int


class ReferenceSnr(TypedDict):
    """The reference signal-to-noise ratio of a channel."""

    snr_db: float
    error_db: NotRequired[float]


class ReorderingSpec(TypedDict):
    """A reordering buffer."""

    packets: int
    time_limit_ns: int | None
    numbering: Numbering


class UnacknowledgedRlcSpec(TypedDict):
    """UM: without retransmissions."""

    kind: Literal["unacknowledged"]


class AcknowledgedRlcSpec(TypedDict):
    """AM: with retransmissions."""

    kind: Literal["acknowledged"]
    poll_pdus: int | None
    poll_bytes: int | None
    poll_retransmit_ns: int
    reassembly_ns: int
    status_prohibit_ns: int
    max_retransmissions: int


class RouteChange(TypedDict):
    """A static route from ``node`` to ``to``, or its removal."""

    node: str
    to: str
    route: RouteOverride


@final
class LinkRouteOverride(TypedDict):
    """This link, which must be in use."""

    link: str


class RunSpec(TypedDict):
    """A resolved run."""

    seed: int
    duration_ns: int
    sample_interval_ns: int
    graph: TopologySpec
    flows: Sequence[FlowSpec]
    proxies: NotRequired[Sequence[ProxySpec]]
    trace: NotRequired[TraceSpec]
    admissions: NotRequired[Sequence[AdmissionSpec]]
    dtn: NotRequired[DtnSpec | None]
    groups: NotRequired[Sequence[GroupSpec]]


class ScheduledStageUpdate(TypedDict):
    """An update of one stage."""

    simplex_link: str
    stage: int
    update: StageUpdateSpec


class RoundRobinSchedulerSpec(TypedDict):
    """One packet per user in turn."""

    name: Literal["round_robin"]


class DeficitRoundRobinSchedulerSpec(TypedDict):
    """Equal bytes per user in turn, scaled by weights."""

    name: Literal["deficit_round_robin"]
    quantum_bytes: int
    weights: Sequence[Sequence[int | float]]


class MaximumRateSchedulerSpec(TypedDict):
    """The user with the largest rate."""

    name: Literal["maximum_rate"]


class ProportionalFairSchedulerSpec(TypedDict):
    """The user with the largest ratio of rate to average rate."""

    name: Literal["proportional_fair"]
    average: AverageSpec


class CodesSchedulerSpec(TypedDict):
    """Proportional fair with a limit: packets that have waited too long are dropped."""

    name: Literal["codes"]
    average: AverageSpec
    time_limit_ns: int


class MLwdfSchedulerSpec(TypedDict):
    """Modified largest weighted delay first (M-LWDF)."""

    name: Literal["m_lwdf"]
    average: AverageSpec
    deadline: DeadlineSpec


class ExpPfSchedulerSpec(TypedDict):
    """Exponential proportional fair (EXP-PF)."""

    name: Literal["exp_pf"]
    average: AverageSpec
    deadline: DeadlineSpec


class ExternalSchedulerSpec(TypedDict):
    """A scheduler that is implemented outside of this crate."""

    name: Literal["external"]
    scheduler_name: str
    options_json: str


class SemiMarkovCellSpec(TypedDict):
    """The parameters of ITU-R P.681 at an elevation."""

    at_ns: int
    good: SemiMarkovStateSpec
    bad: SemiMarkovStateSpec
    correlation_m: float
    transition_m_per_db: float
    transition_offset_m: float


class SemiMarkovStateSpec(TypedDict):
    """One of the two states of ITU-R P.681."""

    ln_mean: float
    ln_deviation: float
    min_length_m: float
    mean_db: float
    mean_deviation_db: float
    quantiles: Sequence[float]
    deviation_per_db: float
    deviation_db: float
    multipath_per_db: float
    multipath_db: float


class RateServiceSpec(TypedDict):
    """A constant rate, with scheduled changes."""

    kind: Literal["rate"]
    rate_bit_s: int
    changes: NotRequired[Sequence[RateChange]]


class TraceServiceSpec(TypedDict):
    """Delivery opportunities of a trace (Mahimahi): up to ``opportunity_bytes`` may depart at each
    instant.
    """

    kind: Literal["trace"]
    opportunities_ns: Sequence[int]
    opportunity_bytes: int
    repeat_ns: int


class ReconfigurationServiceSpec(TypedDict):
    """A random rate, drawn per reconfiguration interval."""

    kind: Literal["reconfiguration"]
    reconfiguration: ReconfigurationSpec
    rate_bit_s: Sequence[int]


class FixedSizeSpec(TypedDict):
    """A constant size."""

    kind: Literal["fixed"]
    bytes: int


class ExponentialSizeSpec(TypedDict):
    """Exponential."""

    kind: Literal["exponential"]
    mean_bytes: int


class ParetoSizeSpec(TypedDict):
    """Pareto, truncated at ``max_bytes``."""

    kind: Literal["pareto"]
    shape: float
    min_bytes: int
    max_bytes: int


class SocketSpec(TypedDict):
    """One of a proxy's two sockets."""

    tcp: TcpSpec
    congestion: str
    options: NotRequired[Any]


class SourceSpec(TypedDict):
    """A source of datagrams, each of which is sent when it is full."""

    name: str
    rtp_type: int
    payload_bytes: int
    interval_ns: int
    periods: PeriodsSpec | None


class DelayStageSpec(TypedDict):
    """A constant delay."""

    kind: Literal["delay"]
    delay_ns: int
    changes: NotRequired[Sequence[DelayChange]]


class DelayTraceStageSpec(TypedDict):
    """A delay that follows a trace. The first value also applies before the first point."""

    kind: Literal["delay_trace"]
    points: Sequence[Sequence[int]]
    interpolation: Interpolation
    repeat_ns: int | None
    reorder: bool


class ReconfigurationDelayStageSpec(TypedDict):
    """A random delay, drawn per time slot."""

    kind: Literal["reconfiguration_delay"]
    reconfiguration: ReconfigurationSpec
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
    combining: HarqCombining
    processes: int
    feedback_disabled_processes: int
    repetitions: int
    attempts: int
    offset_slots: int
    feedback: FeedbackSpec | None
    rlc: RlcSpec
    reordering: PdcpReorderingSpec | None


class AcmStageSpec(TypedDict):
    """A queue before a link with adaptive coding and modulation."""

    kind: Literal["acm"]
    queue: QueueSpec
    channel: ChannelSpec
    symbols_s: int
    modes: Sequence[ModcodSpec]
    margin_db: float
    hysteresis_db: float
    report_interval_ns: int
    report_delay_ns: int


class NetemStageSpec(TypedDict):
    """Linux netem with ``rate``, ``delay`` and ``limit`` in one stage: the limit includes the packets in
    the delay line.
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
    """A random additional delay per packet."""

    kind: Literal["jitter"]
    model: JitterModel
    reorder: bool


class ReorderStageSpec(TypedDict):
    """A fixed additional delay for some packets, so that later ones overtake them."""

    kind: Literal["reorder"]
    probability: float
    delay_ns: int


class OutageStageSpec(TypedDict):
    """Outage periods, in which no packet passes."""

    kind: Literal["outage"]
    windows: Sequence[Sequence[int]]
    repeat_ns: int | None
    buffer_packets: bool


class DelayStageUpdateSpec(TypedDict):
    """The delay, for packets that arrive from this instant."""

    kind: Literal["delay"]
    delay_ns: int


class RateStageUpdateSpec(TypedDict):
    """The rate, from the next packet onwards."""

    kind: Literal["rate"]
    rate_bit_s: int


class LimitStageUpdateSpec(TypedDict):
    """The queue limit, for packets that arrive from this instant. Queued packets remain."""

    kind: Literal["limit"]
    limit: QueueLimit | None


class LossStageUpdateSpec(TypedDict):
    """The loss probability of Bernoulli loss from this instant."""

    kind: Literal["loss"]
    probability: float


class InFlightStageUpdateSpec(TypedDict):
    """The policy for the packets in the stage."""

    kind: Literal["in_flight"]
    policy: InFlightPolicy


class EnabledStageUpdateSpec(TypedDict):
    """Whether the transmitter serves its queue."""

    kind: Literal["enabled"]
    enabled: bool


class StaticRouteSpec(TypedDict):
    """A static route."""

    to: str | None
    via: str


class StatusReportSpec(TypedDict):
    """The requested status reports (RFC 9171 section 5.1), all with times."""

    received: bool
    forwarded: bool
    delivered: bool
    deleted: bool


class StreamSpec(TypedDict):
    """One stream of the perf protocol."""

    stream_id: int
    after: int | None
    amount: AmountSpec


class TcpSides(TypedDict):
    """The options of both endpoints of a TCP flow."""

    client: TcpSpec
    server: TcpSpec


class TcpSpec(TypedDict):
    """Options of one end of a TCP connection. The SYN negotiates SACK, timestamps, window scaling and ECN
    as in reality: an end without an option disables it for both.
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


class TerminalMotion(TypedDict):
    """A terminal that moves at constant speed, sampled on a time grid."""

    seed: NotRequired[int | None]
    step_ns: int
    carrier_hz: int
    speed_m_s: float


class TlsSpec(TypedDict):
    """TLS over TCP. Resumption applies to hosts with a ticket in the profile."""

    version: TlsVersion
    resumption: bool
    early_data: bool
    certificate_bytes: int
    client_hello_bytes: int


class TopologyChange(TypedDict):
    """Simultaneous changes at one instant, before any packet of that instant: a handover. All other state
    remains unchanged.
    """

    at_ns: int
    links: NotRequired[Sequence[LinkAdminState]]
    routes: NotRequired[Sequence[RouteChange]]
    stages: NotRequired[Sequence[ScheduledStageUpdate]]


class TopologySpec(TypedDict):
    """A topology of nodes and links."""

    nodes: Sequence[NodeSpec]
    links: Sequence[LinkSpec]
    changes: NotRequired[Sequence[TopologyChange]]


class TraceSpec(TypedDict):
    """The per-packet traces that a run writes."""

    qlog: NotRequired[bool]
    pcapng: NotRequired[bool]
    packets: NotRequired[bool]
    packet_steps: NotRequired[bool]
    tcp: NotRequired[bool]


class UdpTransportSpec(TypedDict):
    """UDP datagrams (RFC 768) without congestion control, for datagram loads only."""

    kind: Literal["udp"]
    header_bytes: int
    payload_bytes: NotRequired[int | None]


class WebTransportSpec(TypedDict):
    """The transports of a browser, QUIC and TCP, for page loads only."""

    kind: Literal["web"]
    quic: QuicSpec
    tcp: TcpSides
    tcp_congestion: NotRequired[Sequence[CongestionSpec] | None]


class QuicTransportSpec(QuicSpec):
    """QUIC (RFC 9000)."""

    kind: Literal["quic"]


class TcpTransportSpec(TcpSides):
    """TCP (RFC 9293). Every stream of a load uses a separate connection."""

    kind: Literal["tcp"]


ArqScheme = Literal["selective", "go_back_n"]
AveragedQuantity = Literal["channel", "served"]
Colour = Literal["red", "green"]
ContactStartSpec = Literal["keep", "reopen", "resume", "link_up"]
Crc = Literal["none", "crc16", "crc32c"]
Crypto = Literal["modelled", "rustls"]
Direction = Literal["up", "down"]
Handshake = Literal["1-rtt", "0-rtt"]
HandshakeMode = Literal["relayed", "early", "pooled"]
HarqCombining = Literal["none", "chase", "incremental"]
HttpVersionPolicy = Literal["1.1", "2", "3", "alt-svc"]
InFlightPolicy = Literal["in_order", "reorder", "drop"]
Interpolation = Literal["step", "linear"]
NodeKind = Literal["host", "router", "proxy"]
Numbering = Literal["link", "tcp"]
Priority = Literal["bulk", "normal", "expedited"]
ProfileReuse = Literal["fresh", "reused"]
RouteOverride = Literal["shortest", "no_route"] | LinkRouteOverride
RtoEstimate = Literal["linux", "rfc6298"]
ShaVariant = Literal["256", "384", "512"]
StreamMappingSpec = Literal["one", "each", "priorities"]
TlsPolicy = Literal["no", "allow", "require"]
TlsVersion = Literal["1.2", "1.2-false-start", "1.3"]
UnverifiedAction = Literal["pass", "delete"]
AckCounting = PerAckAckCounting | BytesAckCounting | UnlimitedAckCounting
AmountSpec = DataAmountSpec | TimeAmountSpec
ChannelSpec = (
    FixedChannelSpec
    | ThreeStateChannelSpec
    | SemiMarkovChannelSpec
    | RayleighChannelSpec
    | MeasuredChannelSpec
    | RangeLossChannelSpec
)
ClaSpec = QuicclClaSpec | QubicleClaSpec | TcpclClaSpec | MtcpClaSpec | LtpClaSpec
CodeSpec = GivenCodeSpec | AdaptiveCodeSpec
DecoderSpec = InformationDecoderSpec | BlockErrorsDecoderSpec
DtnPerfAmount = TimeDtnPerfAmount | DataDtnPerfAmount
DtnPerfPace = WindowDtnPerfPace | RateDtnPerfPace
JitterModel = UniformJitterModel | NormalJitterModel | ExponentialJitterModel
LoadSpec = PerfLoadSpec | PoissonLoadSpec | OnOffLoadSpec | DatagramsLoadSpec | PageLoadSpec | BundlesLoadSpec
LossDetection = DuplicateAcksLossDetection | RackTlpLossDetection
LossModel = (
    BernoulliLossModel | GilbertElliottLossModel | BurstLossModel | TraceLossModel | ReconfigurationLossModel
)
PeriodDistribution = FixedPeriodDistribution | ExponentialPeriodDistribution | ParetoPeriodDistribution
QueueLimit = PacketsQueueLimit | BytesQueueLimit
QueueSpec = (
    DropTailQueueSpec
    | DropHeadQueueSpec
    | CodelQueueSpec
    | FqCodelQueueSpec
    | PerUserQueueSpec
    | PolicerQueueSpec
)
RlcSpec = UnacknowledgedRlcSpec | AcknowledgedRlcSpec
SchedulerSpec = (
    RoundRobinSchedulerSpec
    | DeficitRoundRobinSchedulerSpec
    | MaximumRateSchedulerSpec
    | ProportionalFairSchedulerSpec
    | CodesSchedulerSpec
    | MLwdfSchedulerSpec
    | ExpPfSchedulerSpec
    | ExternalSchedulerSpec
)
ServiceSpec = RateServiceSpec | TraceServiceSpec | ReconfigurationServiceSpec
SizeSpec = FixedSizeSpec | ExponentialSizeSpec | ParetoSizeSpec
StageSpec = (
    DelayStageSpec
    | DelayTraceStageSpec
    | ReconfigurationDelayStageSpec
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
StageUpdateSpec = (
    DelayStageUpdateSpec
    | RateStageUpdateSpec
    | LimitStageUpdateSpec
    | LossStageUpdateSpec
    | InFlightStageUpdateSpec
    | EnabledStageUpdateSpec
)
TransportSpec = QuicTransportSpec | TcpTransportSpec | UdpTransportSpec | WebTransportSpec
