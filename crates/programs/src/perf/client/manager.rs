//! The connection manager of a measuring client.

use runtime::host::ConnectionReport;
use transport::quic::CloseReason;
use transport::{App, AppNotification, ConnectionControl, ConnectionKey, ConnectionManager};
use units::Time;

/// Opens the connections of a load.
pub(super) struct PerfClientManager {
    pub(super) remote: String,
    /// The index and the application of each connection to open.
    pub(super) queued: Vec<(usize, Box<dyn App>)>,
    /// The index, the time and the outcome of each attempt.
    pub(super) opened: Vec<(usize, Time, Result<ConnectionKey, String>)>,
}

impl ConnectionManager for PerfClientManager {
    fn on_accept(&mut self, _now: Time, _key: ConnectionKey) -> Box<dyn App> {
        unreachable!("a client has no listening socket")
    }

    fn on_app_notification(
        &mut self,
        _now: Time,
        _key: ConnectionKey,
        _notification: AppNotification,
    ) {
    }

    fn on_close(&mut self, _now: Time, _key: ConnectionKey, _reason: &CloseReason) {}

    fn poll(&mut self, now: Time, control: &mut dyn ConnectionControl) {
        for (index, app) in self.queued.drain(..) {
            self.opened.push((index, now, control.connect(0, &self.remote, app)));
        }
    }

    fn poll_at(&mut self) -> Time {
        if self.queued.is_empty() { Time::MAX } else { Time::ZERO }
    }
}

/// A connection of the load.
pub(super) struct ClientConnection {
    pub(super) key: ConnectionKey,
    pub(super) started_at: Time,
    /// The handshake was reported.
    pub(super) is_announced: bool,
    /// The close was reported.
    pub(super) is_reported: bool,
    /// The application protocol.
    pub(super) alpn: Option<String>,
    /// The state at the close.
    pub(super) closed: Option<ConnectionReport<'static>>,
}
