//! The statistics of one side.

use super::{ReceiverStats, SourceStats};

/// Statistics of one side: sent and received datagrams.
#[derive(Clone, Debug, Default)]
pub struct MediaReport {
    /// Sent datagrams; `None` if the side only receives, or has not begun.
    pub sent: Option<SourceStats>,
    /// Received datagrams.
    pub received: ReceiverStats,
}
