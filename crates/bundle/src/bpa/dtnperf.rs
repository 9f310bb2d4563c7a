//! dtnperf clients: bundles of equal size within a window or at a rate, for a time or an amount of data.

use std::collections::BTreeMap;

use bytes::Bytes;
use units::{Rate, Span, Time};

use super::BundleProtocolAgent;
use super::delivery::{CLIENT, DATA, MIN_PAYLOAD_BYTES, MONITOR, SERVER, pace_mark};
use super::events::service_endpoint;
use super::file_transfer::OutgoingFile;
use crate::spec::{DtnPerfAmount, DtnPerfPace, DtnPerfSpec, DtnSpec};
use crate::wire::{ClassOfService, Eid, Flags, NewBundleHeader};
use crate::zeros;

/// A client.
pub(super) struct DtnPerfClient {
    pub eid: Eid,
    pub header: NewBundleHeader,
    spec: DtnPerfSpec,
    /// The start time, or the next transmission at a rate. `Time::MAX` while the client waits for acknowledgements.
    send_at: Time,
    has_started: bool,
    generated_bytes: u64,
    generated: u64,
    /// The file to send; `None` sends zeros.
    pub(super) file: Option<OutgoingFile>,
    /// The unacknowledged bundles: payload bytes by sequence number.
    unacknowledged: BTreeMap<u64, u64>,
}

impl DtnPerfClient {
    /// Builds client number `number` of a specification at `node`.
    pub fn new(
        spec: &DtnSpec,
        number: usize,
        perf: &DtnPerfSpec,
        node: &Eid,
    ) -> Result<DtnPerfClient, String> {
        let eid_of = |name: &str| -> Result<Eid, String> {
            let found = spec.nodes.iter().find(|node| node.name == name);
            let found =
                found.ok_or_else(|| format!("{}: unknown bundle node {name:?}", perf.name))?;
            found
                .eid
                .parse()
                .map_err(|_| format!("{}: found {:?}, expected a node id", perf.name, found.eid))
        };
        if perf.payload_bytes < MIN_PAYLOAD_BYTES {
            return Err(format!(
                "{}: payload_bytes: found {}, expected at least {MIN_PAYLOAD_BYTES}",
                perf.name, perf.payload_bytes
            ));
        }
        let monitor = perf.monitor.as_ref().map_or(Ok(node.clone()), |name| eid_of(name))?;
        let eid =
            service_endpoint(node, CLIENT + number as u32, &format!("dtnperf/client-{number}"));
        let reports = perf.reports;
        let any = reports.received || reports.forwarded || reports.delivered || reports.deleted;
        let header = NewBundleHeader {
            source: eid.clone(),
            destination: service_endpoint(&eid_of(&perf.server)?, SERVER, "dtnperf/server"),
            report_to: service_endpoint(&monitor, MONITOR, "dtnperf/monitor"),
            created_ms: Some(0),
            sequence: 0,
            lifetime: Span(perf.lifetime_ns),
            flags: Flags {
                do_not_fragment: perf.do_not_fragment,
                report_status_time: any,
                receipt_report_requested: reports.received,
                forward_report_requested: reports.forwarded,
                delivery_report_requested: reports.delivered,
                delete_report_requested: reports.deleted,
                ..Flags::default()
            },
            hop_limit: perf.hop_limit,
            crc: perf.crc,
            payload_crc: perf.crc,
            class: ClassOfService { priority: perf.priority, critical: perf.critical },
        };
        Ok(DtnPerfClient {
            eid,
            header,
            spec: perf.clone(),
            send_at: Time(perf.start_ns),
            has_started: false,
            generated_bytes: 0,
            generated: 0,
            file: None,
            unacknowledged: BTreeMap::new(),
        })
    }

    /// Returns the payload of the next bundle; `None` when the amount is exhausted.
    fn next_payload_bytes(&self, now: Time) -> Option<u64> {
        match self.spec.amount {
            DtnPerfAmount::Time { duration_ns } => {
                let end = Time(self.spec.start_ns) + Span(duration_ns);
                (now < end).then_some(self.spec.payload_bytes)
            }
            DtnPerfAmount::Data { bytes } => {
                let left = bytes.saturating_sub(self.generated_bytes);
                (left > 0).then(|| left.min(self.spec.payload_bytes).max(MIN_PAYLOAD_BYTES))
            }
        }
    }

    /// Sets the amount to a file of `size` bytes; each bundle adds a header of `head` bytes.
    pub(super) fn set_file_size(&mut self, head: u64, size: u64) -> Result<(), String> {
        let max_payload = self.spec.payload_bytes;
        if max_payload <= head {
            return Err(format!(
                "payload_bytes: found {max_payload}, expected more than {head} for parts of this file"
            ));
        }
        if size == 0 {
            return Err("the file is empty".to_owned());
        }
        let bytes = size + size.div_ceil(max_payload - head) * head;
        self.spec.amount = DtnPerfAmount::Data { bytes };
        Ok(())
    }

    /// Builds the payload of the bundle after `sent` payload bytes.
    fn build_payload(&self, sent: u64, bytes: u64) -> Vec<Bytes> {
        let mut head = DATA.to_vec();
        head.push(pace_mark(&self.spec.pace));
        if let Some(file) = &self.file {
            return file.build_part(
                head,
                sent / self.spec.payload_bytes,
                self.spec.payload_bytes,
                bytes,
            );
        }
        let rest = zeros(bytes - head.len() as u64);
        std::iter::once(Bytes::from(head)).chain(rest).collect()
    }

    /// Handles an acknowledgement. Returns the payload bytes if it is the first one.
    pub fn on_acknowledgement(&mut self, now: Time, number: u64) -> Option<u64> {
        let bytes = self.unacknowledged.remove(&number)?;
        self.send_at = now;
        Some(bytes)
    }

    /// Returns the number of bundles to send now.
    fn due_bundles(&mut self, now: Time) -> u32 {
        if self.send_at > now {
            return 0;
        }
        self.has_started = true;
        match self.spec.pace {
            DtnPerfPace::Window { bundles } => {
                self.send_at = Time::MAX;
                bundles.saturating_sub(self.unacknowledged.len() as u32)
            }
            DtnPerfPace::Rate { bit_s } => {
                let sent = (self.generated + 1) * self.spec.payload_bytes;
                self.send_at = Time(self.spec.start_ns) + Rate(bit_s).time_for(sent);
                1
            }
        }
    }
}

impl BundleProtocolAgent {
    /// Returns the next deadline of all clients.
    pub(super) fn clients_poll_at(&self) -> Time {
        self.perf_clients.iter().map(|client| client.send_at).min().unwrap_or(Time::MAX)
    }

    /// Sends the due bundles of all clients.
    pub(super) fn run_clients(&mut self, now: Time) {
        for index in 0..self.perf_clients.len() {
            loop {
                let due = self.perf_clients[index].due_bundles(now);
                for _ in 0..due {
                    let Some(bytes) = self.perf_clients[index].next_payload_bytes(now) else {
                        self.perf_clients[index].send_at = Time::MAX;
                        break;
                    };
                    let sequence = self.take_sequence();
                    let created_ms = Some(self.clock_ms(now));
                    let client = &mut self.perf_clients[index];
                    let parts = client.build_payload(client.generated_bytes, bytes);
                    client.generated += 1;
                    client.generated_bytes += bytes;
                    if let DtnPerfPace::Window { .. } = client.spec.pace {
                        client.unacknowledged.insert(sequence, bytes);
                    }
                    let head = NewBundleHeader { created_ms, sequence, ..client.header.clone() };
                    self.originate_bundle(now, &head, parts, "data");
                }
                if due == 0 || self.perf_clients[index].send_at > now {
                    break;
                }
            }
        }
    }
}
