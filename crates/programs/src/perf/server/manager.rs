//! The connection manager of a measuring server.

use runtime::StreamLimit;
use transport::perf_load::PerfServer;
use transport::quic::CloseReason;
use transport::{App, AppNotification, ConnectionControl, ConnectionKey, ConnectionManager};
use units::Time;

use super::super::summary::cpu_seconds;

/// Builds the applications of clients.
pub(super) struct PerfServerManager {
    /// The interface of QUIC.
    pub(super) quic: Option<usize>,
    /// Streams per QUIC connection over its lifetime.
    pub(super) max_streams: u64,
    /// The reason why TCP clients are refused, `None` if they are accepted.
    pub(super) refusal: Option<String>,
    /// Connections that the server has not taken.
    pub(super) accepted: Vec<(ConnectionKey, MeasuredConnection)>,
}

impl ConnectionManager for PerfServerManager {
    fn on_accept(&mut self, now: Time, key: ConnectionKey) -> Box<dyn App> {
        self.accepted.push((key, MeasuredConnection::new(now)));
        match &self.refusal {
            _ if Some(key.interface) == self.quic => {
                Box::new(StreamLimit::new(PerfServer::negotiating(), self.max_streams))
            }
            Some(why) => Box::new(PerfServer::refusing(why)),
            None => Box::new(PerfServer::negotiating()),
        }
    }

    fn on_app_notification(
        &mut self,
        _now: Time,
        _key: ConnectionKey,
        _notification: AppNotification,
    ) {
    }

    fn on_close(&mut self, _now: Time, _key: ConnectionKey, _reason: &CloseReason) {}

    fn poll(&mut self, _now: Time, _control: &mut dyn ConnectionControl) {}

    fn poll_at(&mut self) -> Time {
        Time::MAX
    }
}

/// Data of a connection in addition to the transport's.
pub(super) struct MeasuredConnection {
    /// The number in reports: of a QUIC connection from its first packet, of a TCP connection from its first byte.
    pub(super) number: Option<u32>,
    pub(super) started_at: Time,
    pub(super) cpu_at_start: f64,
    pub(super) is_announced: bool,
    /// State at the end of the handshake.
    pub(super) alpn: String,
    pub(super) mtu: u64,
}

impl MeasuredConnection {
    fn new(now: Time) -> MeasuredConnection {
        MeasuredConnection {
            number: None,
            started_at: now,
            cpu_at_start: cpu_seconds(),
            is_announced: false,
            alpn: String::new(),
            mtu: 0,
        }
    }
}
