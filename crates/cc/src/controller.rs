//! The boundary between a transport and a congestion controller.

use units::{Rate, Span, Time};

/// What a transport tells every controller when it is built.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerConfig {
    /// Largest payload the transport puts in a packet that the window counts: the UDP payload for
    /// QUIC (RFC 9002 section 7), the segment for TCP. Bytes.
    pub mss: u64,
    /// Initial congestion window, bytes.
    pub initial_window: u64,
    /// RTT assumed before the first sample (RFC 9002 section 6.2.2: 333 ms).
    pub initial_rtt: Span,
    /// Seed of the controller's own random stream (BBR's probe times).
    pub seed: u64,
    /// What leaves is spread over the round trip also where the controller names no rate: QUIC always
    /// (RFC 9002 section 7.7), TCP if asked. HyStart and HyStart++ have other bounds without.
    pub is_paced: bool,
}

impl ControllerConfig {
    /// kMinimumWindow of RFC 9002 section 7.2: two datagrams.
    pub fn minimum_window(&self) -> u64 {
        2 * self.mss
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr-06 section 4.1).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSample {
    /// Bytes delivered over `interval`.
    pub delivered: u64,
    /// The longer of the send and the ACK interval.
    pub interval: Span,
    /// `delivered / interval`.
    pub rate: Rate,
    /// Total delivered when the sampled packet was sent.
    pub prior_delivered: u64,
    /// Bytes in flight just after the sampled packet was sent.
    pub tx_in_flight: u64,
    /// Bytes declared lost between the sampled packet's sending and this event.
    pub lost: u64,
    /// The sender had too little data to fill the window when the packet was sent.
    pub is_app_limited: bool,
}

/// The newest packet of an event's losses (draft-ietf-ccwg-bbr-06 section 5.5.10.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossSample {
    /// Bytes in flight just after it was sent.
    pub tx_in_flight: u64,
    /// Bytes declared lost since then, its own among them.
    pub lost: u64,
    /// Total delivered when it was sent.
    pub prior_delivered: u64,
    /// The sender had too little data to fill the window when it was sent.
    pub is_app_limited: bool,
}

/// One acknowledgement, or one loss-detection timer, with everything it taught: acknowledged, lost
/// and marked packets come together, after RTT and loss have been brought up to date.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AckEvent {
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// The part of `acked` that was sent before the current recovery began; it must not grow the
    /// window (RFC 9002 section 7.3.2).
    pub acked_in_recovery: u64,
    /// Bytes newly declared lost.
    pub lost: u64,
    /// The peer reported new CE marks.
    pub has_new_ce_marks: bool,
    /// A lost or marked packet was sent after the last reduction: the one signal per round trip to
    /// which a loss-based controller reacts. A new recovery begins at this instant.
    pub is_congestion_event: bool,
    /// Persistent congestion (RFC 9002 section 7.6).
    pub is_persistent_congestion: bool,
    /// The losses of a retransmission timeout are not repaired after this event: SND.UNA is below the recovery
    /// point (RFC 6675 section 5.1; Linux's `TCP_CA_Loss`). Never over QUIC.
    pub is_in_rto_recovery: bool,
    /// This event's RTT sample.
    pub latest_rtt: Option<Span>,
    /// Smoothed RTT.
    pub smoothed_rtt: Span,
    /// Least RTT of the connection.
    pub min_rtt: Span,
    /// Bytes in flight before this event.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// Total bytes delivered so far.
    pub delivered: u64,
    /// Total bytes declared lost so far.
    pub total_lost: u64,
    /// Delivery-rate sample of the newest packet acknowledged.
    pub rate_sample: Option<RateSample>,
    /// What is known of the newest packet declared lost.
    pub loss_sample: Option<LossSample>,
    /// A packet sent after the last round began was acknowledged: a new round begins.
    pub is_round_start: bool,
    /// Rounds so far.
    pub round_count: u64,
    /// The window may grow: the largest flight of the last round met it, or is more than half of it in
    /// slow start or while only the pacer delays data (RFC 9002 section 7.8, RFC 7661; Linux's
    /// `tcp_is_cwnd_limited`).
    pub is_cwnd_limited: bool,
    /// Most bytes that this event may count for in slow start (RFC 3465's L).
    pub slow_start_limit: u64,
    /// Most bytes that it may count for at all (RFC 5681 counts ACKs: one segment each; a window that
    /// the flight did not meet grows to twice the largest flight).
    pub growth_limit: u64,
}

impl AckEvent {
    /// Bytes for which a window may grow: acknowledged, sent after the last reduction, and only
    /// while the window limits the sender (RFC 9002 sections 7.3.2 and 7.8).
    pub fn credited(&self) -> u64 {
        let acked = self.acked.saturating_sub(self.acked_in_recovery);
        if self.is_cwnd_limited { acked.min(self.growth_limit) } else { 0 }
    }

    /// The same in slow start.
    pub fn credited_in_slow_start(&self) -> u64 {
        self.credited().min(self.slow_start_limit)
    }
}

/// What happens to a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ControllerEvent {
    /// Packets were acknowledged, lost or marked.
    Ack(AckEvent),
    /// TCP's retransmission timer expired (RFC 6298); QUIC has persistent congestion instead.
    Timeout {
        /// FlightSize (RFC 5681 equation 4): bytes outstanding before the timer declared any lost.
        flight_size: u64,
        /// Bytes in flight after it did.
        in_flight: u64,
    },
    /// The last reduction was spurious (RFC 4015; optional).
    SpuriousLoss,
    /// The sender restarts from idle: nothing is in flight and a packet is about to be sent.
    RestartFromIdle,
    /// The connection was idle for longer than its retransmission timeout: a window that nothing
    /// has proved since (RFC 5681 section 4.1; TCP, if it restarts slow start).
    CwndRestart {
        /// The restart window, bytes.
        window: u64,
    },
    /// The largest payload changed to this many bytes.
    MssChanged(u64),
    /// The instant asked for by [`Control::wake_at`] has come.
    Timer,
}

/// What a controller asks of the transport; the driver caches it until the next event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlOutput {
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Pacing rate; none: the shared pacer's 1.25 cwnd / srtt (RFC 9002 section 7.7).
    pub pacing_rate: Option<Rate>,
    /// Largest burst the pacer may send at once, bytes; none: the shared pacer's default.
    pub quantum: Option<u64>,
    /// Instant at which the controller wants [`Event::Timer`]; [`Time::MAX`]: never.
    pub timer_at: Time,
}

impl ControlOutput {
    /// A window, with pacing left to the shared pacer.
    pub fn from_window(cwnd: u64) -> ControlOutput {
        ControlOutput { cwnd, pacing_rate: None, quantum: None, timer_at: Time::MAX }
    }
}

/// A congestion controller. It reads no clock and draws no chance of its own: `now` is an argument
/// and its random stream is keyed by [`Config::seed`].
pub trait CongestionControl: Send {
    /// The control in force before the first event.
    fn start(&mut self, now: Time) -> ControlOutput;

    /// Something happened at `now`; returns the control from now on.
    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput;

    /// Slow-start threshold, bytes; none while it is unset or the algorithm has none.
    fn ssthresh(&self) -> Option<u64> {
        None
    }

    /// Whether a window of `cwnd` bytes grows by what is acknowledged.
    fn is_in_slow_start(&self, cwnd: u64) -> bool {
        self.ssthresh().is_none_or(|ssthresh| cwnd < ssthresh)
    }

    /// Names the phase and internals worth a curve: each name once, in a fixed order.
    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        let _ = record;
    }
}
