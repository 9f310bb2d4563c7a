//! What a node tells of its bundles: a row an event, from which tables are made.

use units::Time;

use crate::wire::{Bundle, Eid, ReasonCode};

/// What happened to a bundle at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// An application gave it.
    Generated,
    /// It came from a neighbour.
    Received,
    /// It was given to the layer that leads to a neighbour.
    Sent,
    /// A neighbour has it.
    Forwarded,
    /// What was given to a layer was not taken, or it is not known: it is decided on again.
    Returned,
    /// It was cut into fragments.
    Cut,
    /// It is such a fragment.
    Part,
    /// A fragment that came is part of a whole again.
    Joined,
    /// The whole again, from fragments.
    Reassembled,
    /// An application has it.
    Delivered,
    /// The application that sent it knows that it was delivered.
    Acknowledged,
    /// It is gone, and why.
    Deleted,
}

impl Happened {
    /// The name used in results.
    pub fn name(self) -> &'static str {
        match self {
            Happened::Generated => "generated",
            Happened::Received => "received",
            Happened::Sent => "sent",
            Happened::Forwarded => "forwarded",
            Happened::Returned => "returned",
            Happened::Cut => "cut",
            Happened::Part => "part",
            Happened::Joined => "joined",
            Happened::Reassembled => "reassembled",
            Happened::Delivered => "delivered",
            Happened::Acknowledged => "acknowledged",
            Happened::Deleted => "deleted",
        }
    }
}

/// Which bundle, in words and numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Who sent it.
    pub source: String,
    /// Milliseconds since 2000; 0 without a clock.
    pub created_ms: u64,
    /// The source's number of it.
    pub sequence: u64,
    /// Of a fragment: where it begins in the whole.
    pub offset: Option<u64>,
}

impl Name {
    /// A bundle's.
    pub fn of(bundle: &Bundle) -> Name {
        Name {
            source: bundle.id.source.to_string(),
            created_ms: bundle.created_ms().unwrap_or(0),
            sequence: bundle.id.timestamp.sequence_number(),
            offset: bundle.id.fragment_info.as_ref().map(|part| part.offset),
        }
    }
}

/// An event of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When.
    pub at: Time,
    /// What.
    pub what: Happened,
    /// Which bundle.
    pub bundle: Name,
    /// To whom it goes.
    pub destination: String,
    /// Payload.
    pub payload_bytes: u64,
    /// The neighbour that it came from or goes to.
    pub peer: Option<String>,
    /// Why it was deleted or returned.
    pub reason: Option<&'static str>,
    /// `data` of a client, `acknowledgement` of a server, `report` of a node.
    pub kind: &'static str,
}

/// A decision on a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteRecord {
    /// When.
    pub at: Time,
    /// Which bundle.
    pub bundle: Name,
    /// The node it goes to.
    pub to: String,
    /// `planned`, `static`, or `kept`.
    pub decision: &'static str,
    /// The next hop.
    pub next: Option<String>,
    /// When it is to arrive.
    pub arrival: Option<Time>,
    /// The contacts it is to take, by where they are said.
    pub contacts: String,
    /// Why it is kept.
    pub reason: String,
}

/// A status report that has come to a monitor.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportRecord {
    /// When it came.
    pub at: Time,
    /// The report itself.
    pub report: Name,
    /// The bundle it speaks of.
    pub bundle: Name,
    /// Length of that fragment's payload, of a fragment.
    pub total_bytes: Option<u64>,
    /// Milliseconds since 2000 at which it was received, forwarded, delivered, deleted.
    pub times_ms: [Option<u64>; 4],
    /// Why.
    pub reason: u64,
}

/// A reason in words (RFC 9171 section 9.5).
pub fn reason(code: ReasonCode) -> &'static str {
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

/// Endpoint number `number` of a node, or `name` where endpoints have names.
pub(crate) fn service(node: &Eid, number: u32, name: &str) -> Eid {
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
