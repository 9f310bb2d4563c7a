//! Clients of dtnperf: bundles of one size, as many as a window allows or at a rate, for a time or so much.

use std::collections::BTreeMap;

use bytes::Bytes;
use units::{Rate, Span, Time};

use super::Agent;
use super::deliver::{CLIENT, DATA, LEAST_PAYLOAD, MONITOR, SERVER, mark};
use super::file::Outgoing;
use crate::pieces::zeros;
use crate::record::service;
use crate::spec::{AmountSpec, DtnSpec, PaceSpec, PerfSpec};
use crate::wire::{Class, Eid, Flags, Head};

/// A client.
pub(super) struct Client {
    pub eid: Eid,
    pub head: Head,
    spec: PerfSpec,
    /// When it begins, or sends the next at a rate; never where it waits for acknowledgements.
    at: Time,
    begun: bool,
    generated_bytes: u64,
    generated: u64,
    /// What its bundles are parts of; none: they have zeros.
    pub(super) file: Option<Outgoing>,
    /// What is not acknowledged: payload by number.
    open: BTreeMap<u64, u64>,
}

impl Client {
    /// Client number `number` of a specification, at a node.
    pub fn new(
        spec: &DtnSpec,
        number: usize,
        perf: &PerfSpec,
        node: &Eid,
    ) -> Result<Client, String> {
        let eid_of = |name: &str| -> Result<Eid, String> {
            let found = spec.nodes.iter().find(|node| node.name == name);
            let found = found.ok_or_else(|| format!("{}: no bundle node {name:?}", perf.name))?;
            found.eid.parse().map_err(|_| format!("{}: no node id", found.eid))
        };
        if perf.payload_bytes < LEAST_PAYLOAD {
            return Err(format!("{}: a payload has at least {LEAST_PAYLOAD} bytes", perf.name));
        }
        let monitor = perf.monitor.as_ref().map_or(Ok(node.clone()), |name| eid_of(name))?;
        let eid = service(node, CLIENT + number as u32, &format!("dtnperf/client-{number}"));
        let reports = perf.reports;
        let any = reports.received || reports.forwarded || reports.delivered || reports.deleted;
        let head = Head {
            source: eid.clone(),
            destination: service(&eid_of(&perf.server)?, SERVER, "dtnperf/server"),
            report_to: service(&monitor, MONITOR, "dtnperf/monitor"),
            created_ms: Some(0),
            sequence: 0,
            lifetime: Span(perf.lifetime_ns),
            flags: Flags {
                do_not_fragment: perf.whole,
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
            class: Class { priority: perf.priority, critical: perf.critical },
        };
        Ok(Client {
            eid,
            head,
            spec: perf.clone(),
            at: Time(perf.start_ns),
            begun: false,
            generated_bytes: 0,
            generated: 0,
            file: None,
            open: BTreeMap::new(),
        })
    }

    /// Payload of the next bundle; none if there is none any more.
    fn next_bytes(&self, now: Time) -> Option<u64> {
        match self.spec.amount {
            AmountSpec::Time { duration_ns } => {
                let end = Time(self.spec.start_ns) + Span(duration_ns);
                (now < end).then_some(self.spec.payload_bytes)
            }
            AmountSpec::Data { bytes } => {
                let left = bytes.saturating_sub(self.generated_bytes);
                (left > 0).then(|| left.min(self.spec.payload_bytes).max(LEAST_PAYLOAD))
            }
        }
    }

    /// It sends a file of `size` bytes, of which each part has a head of `head`.
    pub(super) fn send_file(&mut self, head: u64, size: u64) -> Result<(), String> {
        let most = self.spec.payload_bytes;
        if most <= head {
            return Err(format!(
                "a payload of {most} bytes: a part of this file needs more than {head}"
            ));
        }
        if size == 0 {
            return Err("the file is empty".to_owned());
        }
        let bytes = size + size.div_ceil(most - head) * head;
        self.spec.amount = AmountSpec::Data { bytes };
        Ok(())
    }

    /// Payload of the bundle after so many bytes of payload.
    fn payload(&self, sent: u64, bytes: u64) -> Vec<Bytes> {
        let mut head = DATA.to_vec();
        head.push(mark(&self.spec.pace));
        if let Some(file) = &self.file {
            return file.part(head, sent / self.spec.payload_bytes, self.spec.payload_bytes, bytes);
        }
        let rest = zeros(bytes - head.len() as u64);
        std::iter::once(Bytes::from(head)).chain(rest).collect()
    }

    /// A bundle is acknowledged; its payload, the first time.
    pub fn acknowledged(&mut self, now: Time, number: u64) -> Option<u64> {
        let bytes = self.open.remove(&number)?;
        self.at = now;
        Some(bytes)
    }

    /// How many bundles may go now.
    fn due(&mut self, now: Time) -> u32 {
        if self.at > now {
            return 0;
        }
        self.begun = true;
        match self.spec.pace {
            PaceSpec::Window { bundles } => {
                self.at = Time::MAX;
                bundles.saturating_sub(self.open.len() as u32)
            }
            PaceSpec::Rate { bit_s } => {
                let sent = (self.generated + 1) * self.spec.payload_bytes;
                self.at = Time(self.spec.start_ns) + Rate(bit_s).time_for(sent);
                1
            }
        }
    }
}

impl Agent {
    /// When a client wants to send.
    pub(super) fn clients_at(&self) -> Time {
        self.clients.iter().map(|client| client.at).min().unwrap_or(Time::MAX)
    }

    /// Lets clients send that may.
    pub(super) fn run_clients(&mut self, now: Time) {
        for place in 0..self.clients.len() {
            loop {
                let due = self.clients[place].due(now);
                for _ in 0..due {
                    let Some(bytes) = self.clients[place].next_bytes(now) else {
                        self.clients[place].at = Time::MAX;
                        break;
                    };
                    let sequence = self.number();
                    let created_ms = Some(self.clock_ms(now));
                    let client = &mut self.clients[place];
                    let parts = client.payload(client.generated_bytes, bytes);
                    client.generated += 1;
                    client.generated_bytes += bytes;
                    if let PaceSpec::Window { .. } = client.spec.pace {
                        client.open.insert(sequence, bytes);
                    }
                    let head = Head { created_ms, sequence, ..client.head.clone() };
                    self.send(now, &head, parts, "data");
                }
                if due == 0 || self.clients[place].at > now {
                    break;
                }
            }
        }
    }
}
