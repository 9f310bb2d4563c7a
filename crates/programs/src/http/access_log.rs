//! The access log: one JSON line per request, and totals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::HttpVersion;

/// One answered request. Times are of CLOCK_MONOTONIC, in ns.
#[derive(Clone, Debug, Serialize)]
pub(super) struct AccessRecord {
    /// The time when the request header was complete.
    pub(super) time_ns: u64,
    /// The protocol, by its ALPN.
    pub(super) protocol: &'static str,
    /// The connection: `q` for QUIC or `t` for TCP, and a number from 0.
    pub(super) connection: String,
    /// The address and port of the client.
    pub(super) peer: String,
    pub(super) method: String,
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) status: u16,
    /// Body bytes passed to the transport.
    pub(super) bytes: u64,
    /// The time when the response header was passed to the transport, `None` if it never was.
    pub(super) first_byte_ns: Option<u64>,
    /// The time when the end of the body was passed to the transport.
    pub(super) last_byte_ns: Option<u64>,
    /// The time when the client had acknowledged the whole response: QUIC only.
    pub(super) acked_ns: Option<u64>,
    /// The whole body was passed to the transport.
    pub(super) complete: bool,
}

/// Totals of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerTotals {
    pub(super) requests: BTreeMap<&'static str, u64>,
    pub(super) quic_connections: u64,
    pub(super) tcp_connections: u64,
    pub(super) body_bytes: u64,
}

#[derive(Default)]
struct LogState {
    file: Option<BufWriter<File>>,
    totals: ServerTotals,
    /// The first write error.
    write_error: Option<String>,
}

/// The log of all connections.
#[derive(Default)]
pub struct AccessLog(Mutex<LogState>);

impl AccessLog {
    /// Creates the log, with a file if one is given.
    ///
    /// # Errors
    /// The reason why the file cannot be created.
    pub(super) fn new(file: Option<&Path>, protocols: &[HttpVersion]) -> Result<AccessLog, String> {
        let file = file
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|error| format!("access_log: {}: {error}", path.display()))
            })
            .transpose()?;
        let requests = protocols.iter().map(|protocol| (protocol.name(), 0)).collect();
        let totals = ServerTotals { requests, ..ServerTotals::default() };
        Ok(AccessLog(Mutex::new(LogState { file, totals, write_error: None })))
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request and flushes its line, so that other programs can read along.
    pub(super) fn add(&self, record: &AccessRecord) {
        let inner = &mut *self.lock();
        *inner.totals.requests.entry(record.protocol).or_default() += 1;
        inner.totals.body_bytes += record.bytes;
        let Some(file) = &mut inner.file else { return };
        let line = serde_json::to_string(record).unwrap_or_default();
        if let Err(error) = writeln!(file, "{line}").and_then(|()| file.flush()) {
            // A full disk must not end the service; the error is reported at the end.
            inner.write_error = Some(error.to_string());
            inner.file = None;
        }
    }

    pub(super) fn update_totals(&self, change: impl FnOnce(&mut ServerTotals)) {
        change(&mut self.lock().totals);
    }

    pub(super) fn totals(&self) -> ServerTotals {
        self.lock().totals.clone()
    }

    /// Returns the error that made the log incomplete.
    pub(super) fn write_error(&self) -> Option<String> {
        self.lock().write_error.clone()
    }
}
