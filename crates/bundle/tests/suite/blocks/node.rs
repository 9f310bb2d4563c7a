//! A node that receives a bundle from a neighbour.

use bundle::wire::Eid;
use bundle::{
    BpaAction, BundleEvent, BundleProtocolAgent, ContactStartSpec, DeliveryMode, NeighbourConfig,
    SessionCommand, SessionEvent, StoreCompletion, StoreRequest,
};
use bytes::Bytes;
use units::{Span, Time};

const SESSION: u64 = 7;
/// The start time of the nodes in milliseconds since 2000.
pub const EPOCH: u64 = 850_000_000_000;

pub fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

/// Returns a neighbour that opens the connections.
pub fn neighbour_config(neighbour: &str) -> NeighbourConfig {
    NeighbourConfig {
        neighbour: neighbour.to_owned(),
        interface: 0,
        can_send: true,
        can_open: false,
        opens_with_contact: true,
        closes_after_contact: false,
        on_contact_start: ContactStartSpec::Keep,
        needs_link_state: false,
    }
}

/// Reason codes and assertions (received, forwarded, delivered, deleted).
pub type Reports = Vec<(u64, [bool; 4])>;

/// The results of received bundles.
pub struct Given {
    pub records: Vec<BundleEvent>,
    pub reports: Reports,
    /// The number of acknowledged bundles.
    pub taken: usize,
    /// The bundles sent to the same neighbour.
    pub sent: Vec<Bytes>,
}

/// Passes bundles to a node with a store that completes at once.
pub fn give(mut agent: BundleProtocolAgent, bundles: &[Bytes]) -> Given {
    let now = Time::ZERO + Span::from_secs(1);
    agent.on_session_opened(now, 0, SESSION);
    for (id, data) in (0..).zip(bundles) {
        let data = vec![data.clone()];
        agent.on_session_event(
            now,
            SESSION,
            SessionEvent::Received { id, data, mode: DeliveryMode::Reliable },
        );
    }
    agent.poll(now);
    let (mut taken, mut sent, mut acts) = (0, Vec::new(), Vec::new());
    loop {
        agent.take_actions(&mut acts);
        if acts.is_empty() {
            break;
        }
        for act in std::mem::take(&mut acts) {
            match act {
                BpaAction::Store(StoreRequest::Put(key)) => {
                    agent.on_store_completion(now, StoreCompletion::Durable(key))
                }
                BpaAction::SendCommand(SESSION, SessionCommand::ConfirmStored(_)) => taken += 1,
                BpaAction::SendCommand(SESSION, SessionCommand::Send(transfer)) => {
                    sent.push(transfer.data.concat().into())
                }
                _ => {}
            }
        }
    }
    let reports = agent.reports().iter();
    let reports = reports.map(|one| (one.reason, one.times_ms.map(|time| time.is_some())));
    let reports = reports.collect();
    Given { records: agent.events().to_vec(), reports, taken, sent }
}

/// Returns the events of client bundles, with reasons.
pub fn events(records: &[BundleEvent]) -> Vec<(&str, Option<&str>)> {
    let data = records.iter().filter(|one| one.kind == "data");
    data.map(|one| (one.event.name(), one.reason)).collect()
}
