//! A node that is given a bundle by a neighbour.

use bundle::wire::Eid;
use bundle::{Act, Agent, Answer, Asked, Door, Record, ReturnSpec, Said, Service, Told};
use bytes::Bytes;
use units::{Span, Time};

const SESSION: u64 = 7;
/// Milliseconds since 2000 at which nodes begin.
pub const EPOCH: u64 = 850_000_000_000;

pub fn eid(name: &str) -> Eid {
    name.parse().expect("a name")
}

/// A neighbour that opens the connections.
pub fn door(neighbour: &str) -> Door {
    Door {
        neighbour: neighbour.to_owned(),
        end: 0,
        sends: true,
        opens: false,
        with_contact: true,
        closes: false,
        on_return: ReturnSpec::Alone,
        by_plan: false,
    }
}

/// Reasons, and of what (received, forwarded, delivered, deleted).
pub type Reports = Vec<(u64, [bool; 4])>;

/// What a node does with bundles that its neighbour gives it.
pub struct Given {
    pub records: Vec<Record>,
    pub reports: Reports,
    /// How many the neighbour hears to be taken.
    pub taken: usize,
    /// What it sends on to the same neighbour.
    pub sent: Vec<Bytes>,
}

/// Gives bundles to a node whose store answers at once.
pub fn give(mut agent: Agent, bundles: &[Bytes]) -> Given {
    let now = Time::ZERO + Span::from_secs(1);
    agent.opened(now, 0, SESSION);
    for (id, data) in (0..).zip(bundles) {
        let data = vec![data.clone()];
        agent.heard(now, SESSION, Said::Received { id, data, service: Service::Reliable });
    }
    agent.wake(now);
    let (mut taken, mut sent, mut acts) = (0, Vec::new(), Vec::new());
    loop {
        agent.take_acts(&mut acts);
        if acts.is_empty() {
            break;
        }
        for act in std::mem::take(&mut acts) {
            match act {
                Act::Store(Asked::Keep(key)) => agent.answered(now, Answer::Durable(key)),
                Act::Tell(SESSION, Told::Stored(_)) => taken += 1,
                Act::Tell(SESSION, Told::Send(transfer)) => {
                    sent.push(transfer.data.concat().into())
                }
                _ => {}
            }
        }
    }
    let reports = agent.reports().iter();
    let reports = reports.map(|one| (one.reason, one.times_ms.map(|time| time.is_some())));
    let reports = reports.collect();
    Given { records: agent.records().to_vec(), reports, taken, sent }
}

/// What happened to bundles of clients, and why.
pub fn events(records: &[Record]) -> Vec<(&str, Option<&str>)> {
    let data = records.iter().filter(|one| one.kind == "data");
    data.map(|one| (one.what.name(), one.reason)).collect()
}
