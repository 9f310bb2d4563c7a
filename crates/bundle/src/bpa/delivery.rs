//! Delivery at the destination: reassembles fragments, serves applications, sends and parses status reports (RFC 9171
//! sections 5.7, 5.9, 6).

use bytes::Bytes;
use hardy_bpv7::bundle;
use hardy_bpv7::dtn_time::DtnTime;
use hardy_bpv7::status_report::{AdministrativeRecord, BundleStatusReport, StatusAssertion};
use units::{Span, Time};

use super::BundleProtocolAgent;
use super::events::{BundleEventKind, BundleLabel, DELIVERED, ReportRecord, service_endpoint};
use super::storage::{LoadPurpose, StoredBundle};
use crate::spec::DtnPerfPace;
use crate::wire::{
    Bundle, ClassOfService, Crc, Eid, Flags, Id, NewBundleHeader, ReasonCode, node_id, slice,
};

/// Service numbers of dtnperf (from ION).
pub(super) const SERVER: u32 = 2000;
pub(super) const MONITOR: u32 = 1000;
/// The service number of the first client.
pub(super) const CLIENT: u32 = 3000;

/// The start of an acknowledgement; the bundle ID follows.
const ACKNOWLEDGEMENT: &[u8] = b"dtnperf ack ";
/// The start of a client payload. The next byte is the pace: `w` requests an acknowledgement, `r` does not.
pub(super) const DATA: &[u8] = b"dtnperf ";
/// The minimum payload of a client bundle.
pub(super) const MIN_PAYLOAD_BYTES: u64 = 16;

/// The deletion reason of a duplicate.
pub(super) const KNOWN: &str = "it is known here";

/// Returns the kind of a bundle in tables.
pub(super) fn payload_kind(bundle: &Bundle) -> &'static str {
    let begins = |with: &[u8]| slice(&bundle.payload, 0, with.len() as u64).concat() == with;
    let first = bundle.id.fragment_info.as_ref().is_none_or(|fragment| fragment.offset == 0);
    if bundle.flags.is_admin_record {
        "report"
    } else if first && begins(ACKNOWLEDGEMENT) {
        "acknowledgement"
    } else {
        "data"
    }
}

/// Returns the ID of the original bundle.
fn whole_bundle_id(id: &Id) -> Id {
    Id { fragment_info: None, ..id.clone() }
}

impl BundleProtocolAgent {
    /// Returns whether the bundle with this ID, or the original bundle of this fragment, was delivered.
    pub(super) fn was_delivered(&self, now: Time, id: &Id) -> bool {
        self.delivered_ids.contains(id, now)
            || (id.fragment_info.is_some()
                && self.delivered_ids.contains(&whole_bundle_id(id), now))
    }

    /// Delivers a durable bundle for this node.
    pub(super) fn deliver(&mut self, now: Time, key: u64) {
        let Some(stored) = self.stored.get(&key) else { return };
        if stored.deadline <= now {
            // The bundle expired during its storing, so its ID may no longer be recorded.
            return self.expire(now, key);
        }
        if self.delivered_ids.contains(&whole_bundle_id(&stored.bundle.id), now) {
            // A duplicate, whole or in fragments, arrived during the storing.
            let Some(stored) = self.delete_bundle(key) else { return };
            return self.record_event(
                now,
                BundleEventKind::Deleted,
                &stored.bundle,
                stored.kind,
                None,
                Some(KNOWN),
            );
        }
        if let Some(fragment) = stored.bundle.id.fragment_info.clone() {
            let id = whole_bundle_id(&stored.bundle.id);
            let end = fragment.offset + stored.bundle.payload_bytes();
            return self.reassemble(now, key, id, fragment.offset, end, fragment.total_adu_length);
        }
        if stored.bundle.is_payload_detached() {
            return self.load_payload(key, LoadPurpose::Process);
        }
        let Some(stored) = self.delete_bundle(key) else { return };
        self.deliver_to_application(now, &stored.bundle, stored.kind);
    }

    /// Returns the original bundle ID and the byte range of a fragment for this node.
    fn fragment_range(&self, bundle: &Bundle) -> Option<(Id, u64, u64)> {
        let fragment = bundle.id.fragment_info.as_ref()?;
        let is_local = node_id(&bundle.destination) == node_id(&self.eid);
        is_local.then(|| {
            (whole_bundle_id(&bundle.id), fragment.offset, fragment.offset + bundle.payload_bytes())
        })
    }

    /// Adds a fragment to its set, durable or not.
    pub(super) fn add_fragment(&mut self, key: u64, bundle: &Bundle) {
        if let Some((id, ..)) = self.fragment_range(bundle) {
            self.fragment_sets.entry(id).or_default().insert(key);
        }
    }

    /// Removes a fragment from its set.
    pub(super) fn remove_fragment(&mut self, key: u64, bundle: &Bundle) {
        let Some((id, from, to)) = self.fragment_range(bundle) else { return };
        let Some(parts) = self.fragment_sets.get_mut(&id) else { return };
        parts.remove(key, from, to);
        if parts.is_empty() {
            self.fragment_sets.remove(&id);
        }
    }

    /// Adds a durable fragment and delivers the bundle if it is complete.
    fn reassemble(&mut self, now: Time, key: u64, id: Id, from: u64, to: u64, total: u64) {
        let Some(parts) = self.fragment_sets.get_mut(&id) else { return };
        if !parts.add_stored(key, from, to, total) {
            return;
        }
        let stored = &self.stored;
        let away = |key| {
            stored
                .get(&key)
                .is_some_and(|stored: &StoredBundle| stored.bundle.is_payload_detached())
        };
        let Some(away) = parts.payloads_to_load(away) else { return };
        if !away.is_empty() {
            return away.into_iter().for_each(|key| self.load_payload(key, LoadPurpose::Process));
        }
        let (mut at, mut payload, mut found): (u64, Vec<Bytes>, Option<Bundle>) = (0, vec![], None);
        // The loop stops at a gap: fragments beyond the end do not belong to the bundle.
        for (from, to, key) in parts.needed() {
            let Some(stored) = self.stored.get(&key).filter(|_| from <= at) else { break };
            payload.extend(slice(&stored.bundle.payload, at - from, to - from));
            at = to;
            found.get_or_insert_with(|| stored.bundle.clone());
        }
        let mut kind = "data";
        for key in parts.keys().collect::<Vec<u64>>() {
            if let Some(stored) = self.delete_bundle(key) {
                kind = if stored.kind == "data" { kind } else { stored.kind };
                self.record_event(
                    now,
                    BundleEventKind::FragmentMerged,
                    &stored.bundle,
                    stored.kind,
                    None,
                    None,
                );
            }
        }
        let Some(bundle) = found.map(|first| first.into_whole(payload)) else { return };
        self.record_event(now, BundleEventKind::Reassembled, &bundle, kind, None, None);
        if let Some(reason) = self.check_integrity(&bundle) {
            return self.record_deletion(now, &bundle, kind, reason);
        }
        self.deliver_to_application(now, &bundle, kind);
    }

    /// Delivers a whole bundle to its application.
    fn deliver_to_application(&mut self, now: Time, bundle: &Bundle, kind: &'static str) {
        let is =
            |number, name: &str| bundle.destination == service_endpoint(&self.eid, number, name);
        let is_client = self.perf_clients.iter().any(|client| client.eid == bundle.destination);
        let (is_server, is_monitor) =
            (is(SERVER, "dtnperf/server"), is(MONITOR, "dtnperf/monitor"));
        let is_admin = bundle.destination.is_admin_endpoint();
        if !(is_client || is_server || is_monitor || is_admin) {
            let code = ReasonCode::DestinationEndpointIDUnavailable;
            return self.record_deletion(now, bundle, kind, code);
        }
        self.record_delivered(now, bundle);
        self.record_event(now, BundleEventKind::Delivered, bundle, kind, None, None);
        self.report_status(now, bundle, DELIVERED, ReasonCode::NoAdditionalInformation);
        let head = slice(&bundle.payload, 0, 256).concat();
        if bundle.flags.is_admin_record {
            self.receive_status_report(now, bundle);
        } else if is_client {
            if let Some(id) = head.strip_prefix(ACKNOWLEDGEMENT)
                && let Ok(Ok(id)) = std::str::from_utf8(id).map(Id::from_key)
            {
                self.on_acknowledgement(now, &id);
            }
        } else if is_server && head.starts_with(DATA) && head.get(DATA.len()) == Some(&b'w') {
            self.send_acknowledgement(now, bundle);
        }
        if is_server {
            self.receive_file_part(bundle);
        }
    }

    /// Sends the acknowledgement of a server.
    fn send_acknowledgement(&mut self, now: Time, bundle: &Bundle) {
        let mut payload = ACKNOWLEDGEMENT.to_vec();
        payload.extend_from_slice(bundle.id.to_key().as_bytes());
        let head = NewBundleHeader {
            source: bundle.destination.clone(),
            destination: bundle.id.source.clone(),
            report_to: Eid::Null,
            created_ms: Some(self.clock_ms(now)),
            sequence: self.take_sequence(),
            lifetime: bundle.lifetime,
            flags: Flags::default(),
            hop_limit: None,
            crc: Crc::None,
            payload_crc: Crc::None,
            class: bundle.class,
        };
        self.originate_bundle(now, &head, vec![payload.into()], "acknowledgement");
    }

    /// Returns the next sequence number. It is unique even within a millisecond.
    pub(super) fn take_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence - 1
    }

    /// Originates a bundle of a local application.
    pub(super) fn originate_bundle(
        &mut self,
        now: Time,
        head: &NewBundleHeader,
        payload: Vec<Bytes>,
        kind: &'static str,
    ) {
        // The specification was checked, so the encoding succeeds.
        let Ok(bundle) = Bundle::new(head, payload) else { return };
        let mut bundle = bundle;
        bundle.previous_node = None;
        self.sign(&mut bundle);
        self.record_event(now, BundleEventKind::Generated, &bundle, kind, None, None);
        if let Err(bundle) = self.store_bundle(now, bundle, kind, None) {
            self.record_deletion(now, &bundle, kind, ReasonCode::DepletedStorage);
        }
    }

    /// Sends a status report if the bundle requests it, but not about reports (section 5.1).
    pub(super) fn report_status(
        &mut self,
        now: Time,
        bundle: &Bundle,
        assertion: usize,
        code: ReasonCode,
    ) {
        let flags = &bundle.flags;
        let requested = [
            flags.receipt_report_requested,
            flags.forward_report_requested,
            flags.delivery_report_requested,
            flags.delete_report_requested,
        ];
        if requested[assertion] {
            self.send_status_report(now, bundle, assertion, code);
        }
    }

    /// Sends a status report that the bundle or one of its blocks requests (section 4.2.4).
    pub(super) fn send_status_report(
        &mut self,
        now: Time,
        bundle: &Bundle,
        assertion: usize,
        code: ReasonCode,
    ) {
        let flags = &bundle.flags;
        if flags.is_admin_record || bundle.report_to.is_null() {
            return;
        }
        let time = flags.report_status_time.then(|| DtnTime::new(self.clock_ms(now)).into());
        let mut marks: [Option<StatusAssertion>; 4] = Default::default();
        marks[assertion] = Some(StatusAssertion(time));
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
        let head = NewBundleHeader {
            source: self.eid.clone(),
            destination: bundle.report_to.clone(),
            report_to: Eid::Null,
            created_ms: Some(self.clock_ms(now)),
            sequence: self.take_sequence(),
            lifetime: bundle.lifetime.max(Span::from_secs(60)),
            flags: Flags { is_admin_record: true, ..Flags::default() },
            hop_limit: None,
            crc: Crc::None,
            payload_crc: Crc::None,
            class: ClassOfService::default(),
        };
        let payload = Bytes::from(hardy_cbor::encode::emit(&record).0);
        self.originate_bundle(now, &head, vec![payload], "report");
    }

    fn receive_status_report(&mut self, at: Time, bundle: &Bundle) {
        let payload = bundle.payload.concat();
        let read = hardy_cbor::decode::parse::<AdministrativeRecord>(&payload);
        let Ok(AdministrativeRecord::BundleStatusReport(report)) = read else { return };
        let millis = |mark: &Option<StatusAssertion>| {
            let mark = mark.as_ref()?;
            Some(mark.0.map_or(0, |time| DtnTime::saturating_from(time).millisecs()))
        };
        let id: &bundle::Id = &report.bundle_id;
        self.report_records.push(ReportRecord {
            at,
            report: BundleLabel::from_bundle(bundle),
            bundle: BundleLabel {
                source: id.source.to_string(),
                created_ms: id.timestamp.creation_time().map_or(0, DtnTime::millisecs),
                sequence: id.timestamp.sequence_number(),
                offset: id.fragment_info.as_ref().map(|fragment| fragment.offset),
            },
            total_bytes: id.fragment_info.as_ref().map(|fragment| fragment.total_adu_length),
            times_ms: [&report.received, &report.forwarded, &report.delivered, &report.deleted]
                .map(millis),
            reason: u64::from(report.reason),
        });
    }

    /// Handles an acknowledgement of a server.
    fn on_acknowledgement(&mut self, now: Time, id: &Id) {
        let Some(client) = self.perf_clients.iter_mut().find(|client| client.eid == id.source)
        else {
            return;
        };
        let Some(payload_bytes) = client.on_acknowledgement(now, id.timestamp.sequence_number())
        else {
            return;
        };
        let destination = client.header.destination.to_string();
        self.events.push(super::BundleEvent {
            at: now,
            event: BundleEventKind::Acknowledged,
            bundle: BundleLabel {
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

/// Returns the payload byte that requests an acknowledgement or not.
pub(super) fn pace_mark(pace: &DtnPerfPace) -> u8 {
    match pace {
        DtnPerfPace::Window { .. } => b'w',
        DtnPerfPace::Rate { .. } => b'r',
    }
}
