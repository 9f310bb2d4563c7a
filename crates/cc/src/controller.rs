//! The boundary between a transport and a congestion controller.

use units::{Rate, Span, Time};

/// Parameters that a transport passes to a controller at construction.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// The largest payload in bytes of a packet that counts against the window. It is the UDP payload for QUIC (RFC
    /// 9002 section 7), and the segment for TCP.
    pub mss: u64,
    /// The initial congestion window in bytes.
    pub initial_window: u64,
    /// The RTT assumed before the first sample (RFC 9002 section 6.2.2: 333 ms).
    pub initial_rtt: Span,
    /// The seed of the controller's random stream (BBR's probe times).
    pub seed: u64,
    /// Whether the transport paces packets even if the controller sets no rate: always in QUIC (RFC 9002 section 7.7),
    /// optionally in TCP. HyStart and HyStart++ use other limits without pacing.
    pub is_paced: bool,
}

impl ControllerConfig {
    /// Returns kMinimumWindow of RFC 9002 section 7.2: two datagrams, in bytes.
    pub fn minimum_window(&self) -> u64 {
        2 * self.mss
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr-06 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// The longer of the send interval and the ACK interval.
    pub interval: Span,
    /// `delivered / interval`.
    pub rate: Rate,
    /// Bytes delivered in total when the sampled packet was sent.
    pub prior_delivered: u64,
    /// Bytes in flight just after the sampled packet was sent.
    pub tx_in_flight: u64,
    /// Bytes declared lost between the send time of the sampled packet and this event.
    pub lost: u64,
    /// Whether the sender had too little data to fill the window when the packet was sent.
    pub is_app_limited: bool,
}

/// State at the send time of the newest lost packet of an event (draft-ietf-ccwg-bbr-06 section 5.5.10.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSample {
    /// Bytes in flight just after the packet was sent.
    pub tx_in_flight: u64,
    /// Bytes declared lost since then, including the packet.
    pub lost: u64,
    /// Bytes delivered in total when the packet was sent.
    pub prior_delivered: u64,
    /// Whether the sender had too little data to fill the window when the packet was sent.
    pub is_app_limited: bool,
}

/// The result of one acknowledgement or one loss-detection timer. It combines acknowledged, lost and marked packets,
/// after the update of RTT and loss state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckEvent {
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// The part of `acked` sent before the current recovery began. It must not grow the window (RFC 9002 section
    /// 7.3.2).
    pub acked_in_recovery: u64,
    /// Bytes newly declared lost.
    pub lost: u64,
    /// Whether the peer reported new CE marks.
    pub has_new_ce_marks: bool,
    /// Whether a lost or marked packet was sent after the last reduction. This signal occurs once per round trip, and
    /// loss-based controllers react to it. A new recovery begins at this instant.
    pub is_congestion_event: bool,
    /// Whether this event establishes persistent congestion (RFC 9002 section 7.6).
    pub is_persistent_congestion: bool,
    /// Whether losses of a retransmission timeout remain unrepaired after this event: SND.UNA is below the recovery
    /// point (RFC 6675 section 5.1; Linux's `TCP_CA_Loss`). Always false in QUIC.
    pub is_in_rto_recovery: bool,
    /// The RTT sample of this event.
    pub latest_rtt: Option<Span>,
    /// The smoothed RTT.
    pub smoothed_rtt: Span,
    /// The minimum RTT of the connection.
    pub min_rtt: Span,
    /// Bytes in flight before this event.
    pub prior_in_flight: u64,
    /// Bytes in flight after this event.
    pub in_flight: u64,
    /// Bytes delivered in total.
    pub delivered: u64,
    /// Bytes declared lost in total.
    pub total_lost: u64,
    /// The delivery-rate sample of the newest packet acknowledged.
    pub rate_sample: Option<RateSample>,
    /// The loss sample of the newest packet declared lost.
    pub loss_sample: Option<LossSample>,
    /// Whether a new round begins: the peer acknowledged a packet sent after the start of the last round.
    pub is_round_start: bool,
    /// The number of rounds.
    pub round_count: u64,
    /// Whether the window may grow. The largest flight of the last round filled the window. In slow start, or if only
    /// pacing delays data, more than half of it suffices (RFC 9002 section 7.8, RFC 7661; Linux's
    /// `tcp_is_cwnd_limited`).
    pub is_cwnd_limited: bool,
    /// The upper limit in bytes for slow-start growth by this event (L of RFC 3465).
    pub slow_start_limit: u64,
    /// The upper limit in bytes for any growth by this event. RFC 5681 counts ACKs, one segment each. A window that the
    /// flight did not fill grows to at most twice the largest flight.
    pub growth_limit: u64,
}

impl AckEvent {
    /// Returns the bytes by which a window may grow (RFC 9002 sections 7.3.2 and 7.8). They are acknowledged, sent
    /// after the last reduction, and count only while the window limits the sender.
    pub fn credited(&self) -> u64 {
        let acked = self.acked.saturating_sub(self.acked_in_recovery);
        if self.is_cwnd_limited { acked.min(self.growth_limit) } else { 0 }
    }

    /// Returns the credited bytes, limited to [`AckEvent::slow_start_limit`].
    pub fn credited_in_slow_start(&self) -> u64 {
        self.credited().min(self.slow_start_limit)
    }
}

/// An input of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControllerEvent {
    /// Packets were acknowledged, lost or marked.
    Ack(AckEvent),
    /// The retransmission timer of TCP expired (RFC 6298). QUIC reports persistent congestion instead.
    Timeout {
        /// FlightSize (RFC 5681 equation 4): bytes outstanding before the timeout declared packets lost.
        flight_size: u64,
        /// Bytes in flight after the timeout declared packets lost.
        in_flight: u64,
    },
    /// The last reduction was spurious (RFC 4015; optional).
    SpuriousLoss,
    /// The sender restarts from idle: no packet is in flight and a packet is about to be sent.
    RestartFromIdle,
    /// The connection was idle for longer than its retransmission timeout, so no ACK confirms the current window (RFC
    /// 5681 section 4.1; TCP with slow-start restart).
    CwndRestart {
        /// The restart window in bytes.
        window: u64,
    },
    /// The largest payload changed to this number of bytes.
    MssChanged(u64),
    /// The deadline [`ControlOutput::timer_at`] is reached.
    Timer,
}

/// The output of a controller. The driver caches it until the next event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlOutput {
    /// The congestion window in bytes.
    pub cwnd: u64,
    /// The pacing rate. If absent, the shared pacer uses 1.25 cwnd / srtt (RFC 9002 section 7.7).
    pub pacing_rate: Option<Rate>,
    /// The largest burst of the pacer in bytes. If absent, the shared pacer uses its default.
    pub quantum: Option<u64>,
    /// The deadline of the next [`ControllerEvent::Timer`]. [`Time::MAX`] disables the timer.
    pub timer_at: Time,
}

impl ControlOutput {
    /// Returns an output with the window `cwnd` and the default pacing.
    pub fn from_window(cwnd: u64) -> ControlOutput {
        ControlOutput { cwnd, pacing_rate: None, quantum: None, timer_at: Time::MAX }
    }
}

/// A congestion controller. It reads no clock: `now` is an argument. Random numbers come from a stream keyed by
/// [`ControllerConfig::seed`].
pub trait CongestionControl: Send {
    /// Returns the output before the first event.
    fn start(&mut self, now: Time) -> ControlOutput;

    /// Processes `event` at `now` and returns the new output.
    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput;

    /// Returns the slow-start threshold in bytes, or `None` while it is unset or if the algorithm has none.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Returns whether the controller is in slow start with a window of `cwnd` bytes.
    fn is_in_slow_start(&self, cwnd: u64) -> bool {
        self.ssthresh().is_none_or(|ssthresh| cwnd < ssthresh)
    }

    /// Records the phase and internal variables for plots: each name once, in a fixed order.
    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        let _ = record;
    }
}
