//! What becomes of bundles at their destination: fragments are put together, applications served, reports written and
//! read (RFC 9171 sections 5.7, 5.9, 6).

use bytes::Bytes;
use hardy_bpv7::bundle;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::status_report::{AdministrativeRecord, BundleStatusReport, StatusAssertion};
use units::{Span, Time};

use super::keep::Kept;
use super::lasting::Want;
use super::receive::KNOWN;
use super::{Agent, node_id};
use crate::record::{Happened, Name, ReportRecord, service};
use crate::spec::PaceSpec;
use crate::wire::{Bundle, Class, Crc, Eid, Flags, Head, Id, ReasonCode, slice};

/// Services of dtnperf (ION's numbers).
pub(super) const SERVER: u32 = 2000;
pub(super) const MONITOR: u32 = 1000;
/// Of a client; further ones follow.
pub(super) const CLIENT: u32 = 3000;

/// What a server's acknowledgement begins with; the bundle's id follows.
const ACKNOWLEDGEMENT: &[u8] = b"dtnperf ack ";
/// What a client's bundle begins with, and then how it paces: `w` is acknowledged, `r` is not.
pub(super) const DATA: &[u8] = b"dtnperf ";
/// Payload of the least bundle of a client.
pub(super) const LEAST_PAYLOAD: u64 = 16;

/// What a report speaks of.
pub(super) const RECEIVED: usize = 0;
pub(super) const FORWARDED: usize = 1;
pub(super) const DELIVERED: usize = 2;
pub(super) const DELETED: usize = 3;

/// What a bundle is, for tables.
pub(super) fn kind(bundle: &Bundle) -> &'static str {
    let begins = |with: &[u8]| slice(&bundle.payload, 0, with.len() as u64).concat() == with;
    let first = bundle.id.fragment_info.as_ref().is_none_or(|part| part.offset == 0);
    if bundle.flags.is_admin_record {
        "report"
    } else if first && begins(ACKNOWLEDGEMENT) {
        "acknowledgement"
    } else {
        "data"
    }
}

/// The id of the whole.
fn whole(id: &Id) -> Id {
    Id { fragment_info: None, ..id.clone() }
}

impl Agent {
    /// Whether an application has the bundle with this id, or the one that this is a part of.
    pub(super) fn was_delivered(&self, now: Time, id: &Id) -> bool {
        self.delivered.contains(id, now)
            || (id.fragment_info.is_some() && self.delivered.contains(&whole(id), now))
    }

    /// A bundle for this node is durable.
    pub(super) fn deliver(&mut self, now: Time, key: u64) {
        let Some(kept) = self.kept.get(&key) else { return };
        if kept.deadline <= now {
            // The store has taken longer than the bundle's lifetime; its id may be forgotten already.
            return self.expire(now, key);
        }
        if self.delivered.contains(&whole(&kept.bundle.id), now) {
            // It came again, whole or in parts, while it was being stored.
            let Some(kept) = self.forget(key) else { return };
            return self.note(now, Happened::Deleted, &kept.bundle, kept.kind, None, Some(KNOWN));
        }
        if let Some(part) = kept.bundle.id.fragment_info.clone() {
            let id = whole(&kept.bundle.id);
            let end = part.offset + kept.bundle.payload_bytes();
            return self.gather(now, key, id, part.offset, end, part.total_adu_length);
        }
        if kept.bundle.is_away() {
            return self.want(key, Want::Decide);
        }
        let Some(kept) = self.forget(key) else { return };
        self.hand_over(now, &kept.bundle, kept.kind);
    }

    /// The parts of the bundle that this is one of, if it is for this node.
    fn parts_of(&self, bundle: &Bundle) -> Option<(Id, u64, u64)> {
        let part = bundle.id.fragment_info.as_ref()?;
        let ours = node_id(&bundle.destination) == node_id(&self.eid);
        ours.then(|| (whole(&bundle.id), part.offset, part.offset + bundle.payload_bytes()))
    }

    /// A part of a bundle is here, stored or not.
    pub(super) fn enter_part(&mut self, key: u64, bundle: &Bundle) {
        if let Some((id, ..)) = self.parts_of(bundle) {
            self.parts.entry(id).or_default().enter(key);
        }
    }

    /// It is here no more.
    pub(super) fn leave_part(&mut self, key: u64, bundle: &Bundle) {
        let Some((id, from, to)) = self.parts_of(bundle) else { return };
        let Some(parts) = self.parts.get_mut(&id) else { return };
        parts.leave(key, from, to);
        if parts.is_empty() {
            self.parts.remove(&id);
        }
    }

    /// A part of a bundle is stored.
    fn gather(&mut self, now: Time, key: u64, id: Id, from: u64, to: u64, total: u64) {
        let Some(parts) = self.parts.get_mut(&id) else { return };
        if !parts.add(key, from, to, total) {
            return;
        }
        let kept = &self.kept;
        let away = |key| kept.get(&key).is_some_and(|kept: &Kept| kept.bundle.is_away());
        let Some(away) = parts.ask(away) else { return };
        if !away.is_empty() {
            return away.into_iter().for_each(|key| self.want(key, Want::Decide));
        }
        let (mut at, mut payload, mut found): (u64, Vec<Bytes>, Option<Bundle>) = (0, vec![], None);
        // What is said to be behind its end is of no bundle.
        for (from, to, key) in parts.needed() {
            let Some(kept) = self.kept.get(&key).filter(|_| from <= at) else { break };
            payload.extend(slice(&kept.bundle.payload, at - from, to - from));
            at = to;
            found.get_or_insert_with(|| kept.bundle.clone());
        }
        let mut kind = "data";
        for key in parts.all().collect::<Vec<u64>>() {
            if let Some(kept) = self.forget(key) {
                kind = if kept.kind == "data" { kind } else { kept.kind };
                self.note(now, Happened::Joined, &kept.bundle, kept.kind, None, None);
            }
        }
        let Some(bundle) = found.map(|first| first.joined(payload)) else { return };
        self.note(now, Happened::Reassembled, &bundle, kind, None, None);
        if let Some(why) = self.judge(&bundle) {
            return self.gone(now, &bundle, kind, why);
        }
        self.hand_over(now, &bundle, kind);
    }

    /// An application gets a whole bundle.
    fn hand_over(&mut self, now: Time, bundle: &Bundle, kind: &'static str) {
        let is = |number, name: &str| bundle.destination == service(&self.eid, number, name);
        let own = self.clients.iter().any(|client| client.eid == bundle.destination);
        let (server, monitor) = (is(SERVER, "dtnperf/server"), is(MONITOR, "dtnperf/monitor"));
        let admin = bundle.destination.is_admin_endpoint();
        if !(own || server || monitor || admin) {
            let code = ReasonCode::DestinationEndpointIDUnavailable;
            return self.gone(now, bundle, kind, code);
        }
        self.remember(now, bundle);
        self.note(now, Happened::Delivered, bundle, kind, None, None);
        self.report(now, bundle, DELIVERED, ReasonCode::NoAdditionalInformation);
        let head = slice(&bundle.payload, 0, 256).concat();
        if bundle.flags.is_admin_record {
            self.read_report(now, bundle);
        } else if own {
            if let Some(id) = head.strip_prefix(ACKNOWLEDGEMENT)
                && let Ok(Ok(id)) = std::str::from_utf8(id).map(Id::from_key)
            {
                self.acknowledged(now, &id);
            }
        } else if server && head.starts_with(DATA) && head.get(DATA.len()) == Some(&b'w') {
            self.acknowledge(now, bundle);
        }
        if server {
            self.take_part(bundle);
        }
    }

    /// A server says that it has a bundle.
    fn acknowledge(&mut self, now: Time, bundle: &Bundle) {
        let mut payload = ACKNOWLEDGEMENT.to_vec();
        payload.extend_from_slice(bundle.id.to_key().as_bytes());
        let head = Head {
            source: bundle.destination.clone(),
            destination: bundle.id.source.clone(),
            report_to: Eid::Null,
            created_ms: Some(self.clock_ms(now)),
            sequence: self.number(),
            lifetime: bundle.lifetime,
            flags: Flags::default(),
            hop_limit: None,
            crc: Crc::None,
            payload_crc: Crc::None,
            class: bundle.class,
        };
        self.send(now, &head, vec![payload.into()], "acknowledgement");
    }

    /// The next of this node's own bundles has this number: one never comes twice in a millisecond.
    pub(super) fn number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// A bundle of an application of this node.
    pub(super) fn send(&mut self, now: Time, head: &Head, payload: Vec<Bytes>, kind: &'static str) {
        // The specification was checked: what is written can be written.
        let Ok(bundle) = Bundle::new(head, payload) else { return };
        let mut bundle = bundle;
        bundle.previous = None;
        self.sign(&mut bundle);
        self.note(now, Happened::Generated, &bundle, kind, None, None);
        if let Err(bundle) = self.keep(now, bundle, kind, None) {
            self.gone(now, &bundle, kind, ReasonCode::DepletedStorage);
        }
    }

    /// A status report, if the bundle asks for it: not about reports (section 5.1).
    pub(super) fn report(&mut self, now: Time, bundle: &Bundle, what: usize, code: ReasonCode) {
        let flags = &bundle.flags;
        let asked = [
            flags.receipt_report_requested,
            flags.forward_report_requested,
            flags.delivery_report_requested,
            flags.delete_report_requested,
        ];
        if asked[what] {
            self.report_on(now, bundle, what, code);
        }
    }

    /// The same whether the bundle asks for it or a block of it does (section 4.2.4).
    pub(super) fn report_on(&mut self, now: Time, bundle: &Bundle, what: usize, code: ReasonCode) {
        let flags = &bundle.flags;
        if flags.is_admin_record || bundle.report_to.is_null() {
            return;
        }
        let time = flags.report_status_time.then(|| DtnTime::new(self.clock_ms(now)).into());
        let mut marks: [Option<StatusAssertion>; 4] = Default::default();
        marks[what] = Some(StatusAssertion(time));
        let [received, forwarded, delivered, deleted] = marks;
        let report = BundleStatusReport {
            bundle_id: bundle.id.clone(),
            received,
            forwarded,
            delivered,
            deleted,
            reason: code,
        };
        let record = AdministrativeRecord::BundleStatusReport(report);
        let head = Head {
            source: self.eid.clone(),
            destination: bundle.report_to.clone(),
            report_to: Eid::Null,
            created_ms: Some(self.clock_ms(now)),
            sequence: self.number(),
            lifetime: bundle.lifetime.max(Span::from_secs(60)),
            flags: Flags { is_admin_record: true, ..Flags::default() },
            hop_limit: None,
            crc: Crc::None,
            payload_crc: Crc::None,
            class: Class::default(),
        };
        let payload = Bytes::from(hardy_cbor::encode::emit(&record).0);
        self.send(now, &head, vec![payload], "report");
    }

    fn read_report(&mut self, at: Time, bundle: &Bundle) {
        let payload = bundle.payload.concat();
        let read = hardy_cbor::decode::parse::<AdministrativeRecord>(&payload);
        let Ok(AdministrativeRecord::BundleStatusReport(report)) = read else { return };
        let millis = |mark: &Option<StatusAssertion>| {
            let mark = mark.as_ref()?;
            Some(mark.0.map_or(0, |time| DtnTime::saturating_from(time).millisecs()))
        };
        let id: &bundle::Id = &report.bundle_id;
        self.reports.push(ReportRecord {
            at,
            report: Name::of(bundle),
            bundle: Name {
                source: id.source.to_string(),
                created_ms: id.timestamp.creation_time().map_or(0, DtnTime::millisecs),
                sequence: id.timestamp.sequence_number(),
                offset: id.fragment_info.as_ref().map(|part| part.offset),
            },
            total_bytes: id.fragment_info.as_ref().map(|part| part.total_adu_length),
            times_ms: [&report.received, &report.forwarded, &report.delivered, &report.deleted]
                .map(millis),
            reason: u64::from(report.reason),
        });
    }

    /// A server has acknowledged a client's bundle.
    fn acknowledged(&mut self, now: Time, id: &Id) {
        let Some(client) = self.clients.iter_mut().find(|client| client.eid == id.source) else {
            return;
        };
        let Some(payload_bytes) = client.acknowledged(now, id.timestamp.sequence_number()) else {
            return;
        };
        let destination = client.head.destination.to_string();
        self.records.push(crate::record::Record {
            at: now,
            what: Happened::Acknowledged,
            bundle: Name {
                source: id.source.to_string(),
                created_ms: id.timestamp.creation_time().map_or(0, DtnTime::millisecs),
                sequence: id.timestamp.sequence_number(),
                offset: None,
            },
            destination,
            payload_bytes,
            peer: None,
            reason: None,
            kind: "data",
        });
    }
}

/// Whether a client's bundles are acknowledged, as its payload says.
pub(super) fn mark(pace: &PaceSpec) -> u8 {
    match pace {
        PaceSpec::Window { .. } => b'w',
        PaceSpec::Rate { .. } => b'r',
    }
}
