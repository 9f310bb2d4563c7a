//! Datagrams that leave when they are full, whatever the network does: calls, live streams, on-off sources. The same
//! over plain UDP and over QUIC's datagrams (RFC 9221).
//!
//! Reading order: `spec`, `source` (when which datagram leaves), `head` (what stands in it), `heard` (what becomes of
//! those that come), `caller` (the application).

mod caller;
mod head;
mod heard;
mod source;
mod spec;

pub use caller::{CallSide, Caller};
pub use head::{HEAD_BYTES, Head};
pub use heard::{Bin, Heard, WindowHeard};
pub use source::{Said, Source};
pub use spec::{DatagramsSpec, SourceSpec};

use units::{Span, Time};

/// Calls are counted in windows of so long, by the instant at which a datagram was full: what the adaptive play-out
/// of Ramjee et al. (INFOCOM 1994) remembers, 1 / (1 - 0.998) datagrams of 20 ms.
pub const WINDOW: Span = Span::from_secs(10);

/// A datagram that is not there after so long has not come.
pub const PATIENCE: Span = Span::from_secs(4);

/// The window of an instant.
pub(crate) fn window(at: Time) -> u32 {
    (at.nanos() / WINDOW.nanos()) as u32
}
