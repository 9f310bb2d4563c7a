//! What came of every request: one JSON line each, and totals.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::Protocol;

/// One answered request. Times are of CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Record {
    /// When the request's header was there.
    pub(super) time_ns: u64,
    /// Protocol, by its ALPN.
    pub(super) protocol: &'static str,
    /// The connection: `q` for QUIC or `t` for TCP, and a number from 0.
    pub(super) connection: String,
    /// The client's address and port.
    pub(super) peer: String,
    pub(super) method: String,
    pub(super) authority: String,
    pub(super) path: String,
    pub(super) status: u16,
    /// Bytes of the body given to the transport.
    pub(super) bytes: u64,
    /// When the response's header was given to the transport; none: never.
    pub(super) first_byte_ns: Option<u64>,
    /// When the end of the body was.
    pub(super) last_byte_ns: Option<u64>,
    /// When the client had acknowledged everything: QUIC's only.
    pub(super) acked_ns: Option<u64>,
    /// The whole body was given to the transport.
    pub(super) complete: bool,
}

/// Totals of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals {
    pub(super) requests: BTreeMap<&'static str, u64>,
    pub(super) quic_connections: u64,
    pub(super) tcp_connections: u64,
    pub(super) body_bytes: u64,
}

#[derive(Default)]
struct Inner {
    file: Option<BufWriter<File>>,
    totals: Totals,
    /// The first error of writing.
    failed: Option<String>,
}

/// The log of all connections.
#[derive(Default)]
pub(super) struct AccessLog(Mutex<Inner>);

impl AccessLog {
    /// A log in `file`, if there is to be one.
    ///
    /// # Errors
    /// Why the file cannot be made.
    pub(super) fn new(file: Option<&Path>, protocols: &[Protocol]) -> Result<AccessLog, String> {
        let file = file
            .map(|path| {
                File::create(path)
                    .map(BufWriter::new)
                    .map_err(|error| format!("access_log: {}: {error}", path.display()))
            })
            .transpose()?;
        let requests = protocols.iter().map(|protocol| (protocol.name(), 0)).collect();
        let totals = Totals { requests, ..Totals::default() };
        Ok(AccessLog(Mutex::new(Inner { file, totals, failed: None })))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Lines are on the disk at once: who reads along sees them.
    pub(super) fn add(&self, record: &Record) {
        let inner = &mut *self.lock();
        *inner.totals.requests.entry(record.protocol).or_default() += 1;
        inner.totals.body_bytes += record.bytes;
        let Some(file) = &mut inner.file else { return };
        let line = serde_json::to_string(record).unwrap_or_default();
        if let Err(error) = writeln!(file, "{line}").and_then(|()| file.flush()) {
            // A full disk must not end the service; it is told at the end.
            inner.failed = Some(error.to_string());
            inner.file = None;
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut Totals)) {
        change(&mut self.lock().totals);
    }

    pub(super) fn totals(&self) -> Totals {
        self.lock().totals.clone()
    }

    /// Why the log is not whole.
    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failed.clone()
    }
}
