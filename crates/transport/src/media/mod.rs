//! Datagrams that are sent when they are full, regardless of the network: calls, live streams, on-off sources. The same
//! code runs over plain UDP and QUIC datagrams (RFC 9221).
//!
//! Reading order: `spec`, `source` (times of datagrams), `rtp_header` (their header), `receiver_stats` (statistics of
//! received ones), `side` (the application).

mod media_report;
mod receiver_stats;
mod rtp_header;
mod side;
mod source;
mod spec;

pub use media_report::MediaReport;
pub use receiver_stats::{DelayBin, ReceiverStats, ReceiverWindow};
pub use rtp_header::{MEDIA_HEADER_BYTES, MediaHeader};
pub use side::MediaSide;
pub use source::{MediaSource, SourceStats};
pub use spec::{DatagramsSpec, SourceSpec};

use units::{Span, Time};

/// Length of the windows for the statistics of calls, by the instant at which a datagram was full. The adaptive
/// play-out of Ramjee et al. (INFOCOM 1994) has this memory: 1 / (1 - 0.998) datagrams of 20 ms.
pub const STATS_WINDOW: Span = Span::from_secs(10);

/// Time after which a missing datagram counts as lost.
pub const LOSS_TIMEOUT: Span = Span::from_secs(4);

/// Returns the index of the window at an instant.
pub(crate) fn window_index(at: Time) -> u32 {
    (at.nanos() / STATS_WINDOW.nanos()) as u32
}
