//! Events of the bundles of a node, one row each. The bundle tables are built from them.

use units::Time;

use crate::wire::{Bundle, Eid, ReasonCode};

/// The assertions of a status report.
pub(super) const RECEIVED: usize = 0;
pub(super) const FORWARDED: usize = 1;
pub(super) const DELIVERED: usize = 2;
pub(super) const DELETED: usize = 3;

/// An event of a bundle at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundleEventKind {
    /// An application originated the bundle.
    Generated,
    /// A neighbour delivered the bundle.
    Received,
    /// The node passed the bundle to the CLA session of a neighbour.
    Sent,
    /// A neighbour acknowledged the bundle.
    Forwarded,
    /// The transfer was refused, or its outcome is unknown. The bundle is dispatched again.
    Returned,
    /// The bundle was fragmented.
    Fragmented,
    /// The bundle is a new fragment.
    FragmentCreated,
    /// The received fragment became part of a reassembled bundle.
    FragmentMerged,
    /// The bundle was reassembled from fragments.
    Reassembled,
    /// The bundle was delivered to an application.
    Delivered,
    /// The sending application received the acknowledgement of the delivery.
    Acknowledged,
    /// The bundle was deleted; the row has the reason.
    Deleted,
}

impl BundleEventKind {
    /// Returns the name in results.
    pub fn name(self) -> &'static str {
        match self {
            BundleEventKind::Generated => "generated",
            BundleEventKind::Received => "received",
            BundleEventKind::Sent => "sent",
            BundleEventKind::Forwarded => "forwarded",
            BundleEventKind::Returned => "returned",
            BundleEventKind::Fragmented => "fragmented",
            BundleEventKind::FragmentCreated => "fragment_created",
            BundleEventKind::FragmentMerged => "fragment_merged",
            BundleEventKind::Reassembled => "reassembled",
            BundleEventKind::Delivered => "delivered",
            BundleEventKind::Acknowledged => "acknowledged",
            BundleEventKind::Deleted => "deleted",
        }
    }
}

/// The identity of a bundle as text and numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BundleLabel {
    /// The source endpoint.
    pub source: String,
    /// The creation time in milliseconds since 2000; 0 without a clock.
    pub created_ms: u64,
    /// The sequence number of the creation timestamp.
    pub sequence: u64,
    /// The fragment offset in the original bundle.
    pub offset: Option<u64>,
}

impl BundleLabel {
    /// Returns the label of `bundle`.
    pub fn from_bundle(bundle: &Bundle) -> BundleLabel {
        BundleLabel {
            source: bundle.id.source.to_string(),
            created_ms: bundle.created_ms().unwrap_or(0),
            sequence: bundle.id.timestamp.sequence_number(),
            offset: bundle.id.fragment_info.as_ref().map(|part| part.offset),
        }
    }
}

/// A row of the bundle table.
#[derive(Clone, Debug, PartialEq)]
pub struct BundleEvent {
    /// The time of the event.
    pub at: Time,
    /// The kind of event.
    pub event: BundleEventKind,
    /// The bundle.
    pub bundle: BundleLabel,
    /// The destination endpoint.
    pub destination: String,
    /// The payload length.
    pub payload_bytes: u64,
    /// The neighbour that sent or receives the bundle.
    pub peer: Option<String>,
    /// The reason of a deletion or a return.
    pub reason: Option<&'static str>,
    /// `data` of a client, `acknowledgement` of a server, `report` of a node.
    pub kind: &'static str,
}

/// A forwarding decision.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRecord {
    /// The time of the decision.
    pub at: Time,
    /// The bundle.
    pub bundle: BundleLabel,
    /// The destination node.
    pub destination: String,
    /// `planned`, `static`, or `kept`.
    pub decision: &'static str,
    /// The next hop.
    pub next_hop: Option<String>,
    /// The planned arrival time.
    pub arrival: Option<Time>,
    /// The planned contacts, by the label of their origin.
    pub contacts: String,
    /// The reason for keeping the bundle.
    pub reason: String,
}

/// A status report that a monitor received.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRecord {
    /// The time of reception.
    pub at: Time,
    /// The report.
    pub report: BundleLabel,
    /// The subject of the report.
    pub bundle: BundleLabel,
    /// The payload length of the subject, if it is a fragment.
    pub total_bytes: Option<u64>,
    /// The reported times of reception, forwarding, delivery and deletion, in milliseconds since 2000.
    pub times_ms: [Option<u64>; 4],
    /// The reason code.
    pub reason: u64,
}

/// Returns a reason code as text (RFC 9171 section 9.5).
pub fn reason_text(code: ReasonCode) -> &'static str {
    match code {
        ReasonCode::LifetimeExpired => "lifetime expired",
        ReasonCode::TransmissionCanceled => "transmission canceled",
        ReasonCode::DepletedStorage => "depleted storage",
        ReasonCode::DestinationEndpointIDUnavailable => "destination endpoint unavailable",
        ReasonCode::NoKnownRouteToDestinationFromHere => "no known route",
        ReasonCode::NoTimelyContactWithNextNodeOnRoute => "no timely contact",
        ReasonCode::BlockUnintelligible => "block unintelligible",
        ReasonCode::HopLimitExceeded => "hop limit exceeded",
        ReasonCode::BlockUnsupported => "block unsupported",
        // RFC 9172 section 11.3
        ReasonCode::MissingSecurityOperation => "missing security operation",
        ReasonCode::UnknownSecurityOperation => "unknown security operation",
        ReasonCode::UnexpectedSecurityOperation => "unexpected security operation",
        ReasonCode::FailedSecurityOperation => "failed security operation",
        ReasonCode::ConflictingSecurityOperation => "conflicting security operation",
        _ => "no additional information",
    }
}

/// Returns the endpoint with service number `number`, or `name` in the `dtn` scheme.
pub(super) fn service_endpoint(node: &Eid, number: u32, name: &str) -> Eid {
    match node {
        Eid::Ipn { fqnn, .. } | Eid::LegacyIpn { fqnn, .. } => {
            Eid::Ipn { fqnn: *fqnn, service_number: number }
        }
        Eid::Dtn { node_name, .. } => {
            Eid::Dtn { node_name: node_name.clone(), service_name: name.into() }
        }
        other => other.clone(),
    }
}
