//! Sessions of convergence layers on connections of a host: which is on which, and the letters between them and a node.

use std::collections::{BTreeMap, BTreeSet};

use bundle::layers::{LayerSpec, Terms};
use bundle::{Carrier, Mailbox, Role, Said, Told};
use transport::{App, Handle, Lines, Order};
use units::Time;

/// A session, by a number that no other has.
pub type SessionId = u64;

/// An end of a bundle node.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The layer of its sessions.
    pub layer: LayerSpec,
    /// Who is dialled, as ADDRESS:PORT; none: nobody.
    pub peer: Option<String>,
    /// Whom its sessions take, and whether over TLS.
    pub terms: Terms,
}

/// What the connections of an end have carried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// How many have begun.
    pub begun: u64,
    /// How many of these have ended.
    pub ended: u64,
    /// How many of those were lost, or refused.
    pub lost: u64,
    /// Why the last one was lost.
    pub why: Option<String>,
    /// When the first one began.
    pub first_begun: Option<Time>,
    /// When the peer of the first one had said who it is.
    pub first_started: Option<Time>,
    /// Bytes of bundles that were given to them.
    pub written_bytes: u64,
    /// Bytes of bundles that came whole.
    pub received_bytes: u64,
    /// When the first bundle was given to one.
    pub first_written: Option<Time>,
    /// When the first bundle had come.
    pub first_received: Option<Time>,
    /// When the last bundle had come.
    pub last_received: Option<Time>,
}

/// The sessions of a node.
pub struct Sessions {
    /// The node's id.
    node: String,
    gates: Vec<Gate>,
    traffic: Vec<Traffic>,
    live: BTreeMap<SessionId, (Handle, Mailbox)>,
    numbers: BTreeMap<Handle, SessionId>,
    next: SessionId,
    /// Those that have said that they are over, whose connections are not yet.
    over: BTreeSet<SessionId>,
    /// Those that have carried a bundle, and those that ended with an error before that.
    carried: BTreeSet<SessionId>,
    barred: BTreeSet<SessionId>,
    met: Vec<(usize, SessionId)>,
    said: Vec<(SessionId, Said)>,
    heard: Vec<Said>,
}

impl Sessions {
    /// Of the node called `node`; a gate for each end of its host.
    pub fn new(node: &str, gates: Vec<Gate>) -> Sessions {
        Sessions {
            node: node.to_owned(),
            traffic: vec![Traffic::default(); gates.len()],
            gates,
            live: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next: 0,
            over: BTreeSet::new(),
            carried: BTreeSet::new(),
            barred: BTreeSet::new(),
            met: Vec::new(),
            said: Vec::new(),
            heard: Vec::new(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    /// What the connections of each end have carried.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    fn enter(&mut self, now: Time, handle: Handle, mailbox: Mailbox) -> SessionId {
        let traffic = &mut self.traffic[handle.end];
        traffic.begun += 1;
        traffic.first_begun.get_or_insert(now);
        let number = self.next;
        self.next += 1;
        self.live.insert(number, (handle, mailbox));
        self.numbers.insert(handle, number);
        number
    }

    /// A peer has opened a connection ([`transport::Agent::accept`]).
    pub fn accept(&mut self, now: Time, handle: Handle) -> Box<dyn App> {
        let gate = &self.gates[handle.end];
        let session = gate.layer.session_with(Role::Passive, &self.node, gate.terms.clone());
        let mailbox = Mailbox::default();
        let number = self.enter(now, handle, mailbox.clone());
        self.met.push((handle.end, number));
        Box::new(Carrier::new(session, mailbox))
    }

    /// Opens a connection to the peer of an end. Where none can be opened the session ends at once.
    pub fn dial(&mut self, now: Time, end: usize, lines: &mut dyn Lines) -> SessionId {
        let gate = &self.gates[end];
        let mailbox = Mailbox::default();
        let session = gate.layer.session_with(Role::Active, &self.node, gate.terms.clone());
        let app = Box::new(Carrier::new(session, mailbox.clone()));
        let dialled = match &gate.peer {
            Some(peer) => lines.dial(end, peer, app),
            None => Err("nobody is known to be dialled there".to_owned()),
        };
        match dialled {
            Ok(handle) => self.enter(now, handle, mailbox),
            Err(why) => {
                let number = self.next;
                self.next += 1;
                self.said.push((number, Said::Ended { error: Some(why) }));
                number
            }
        }
    }

    /// Tells a session something, if it has not ended.
    pub fn tell(&mut self, now: Time, session: SessionId, told: Told, lines: &mut dyn Lines) {
        if let Some((handle, mailbox)) = self.live.get(&session) {
            if let Told::Send(transfer) = &told {
                let traffic = &mut self.traffic[handle.end];
                traffic.written_bytes += transfer.bytes();
                traffic.first_written.get_or_insert(now);
            }
            mailbox.tell(told);
            lines.say(*handle, Order::Attend);
        }
    }

    /// Tells all sessions to end.
    pub fn end(&mut self, now: Time, lines: &mut dyn Lines) {
        let all: Vec<SessionId> = self.live.keys().copied().collect();
        for session in all {
            self.tell(now, session, Told::End, lines);
        }
    }

    /// A session has said something ([`transport::Agent::hear`]).
    pub fn hear(&mut self, now: Time, handle: Handle) {
        let Some(number) = self.numbers.get(&handle) else { return };
        let Some((_, mailbox)) = self.live.get(number) else { return };
        mailbox.take_said(&mut self.heard);
        let traffic = &mut self.traffic[handle.end];
        for said in &self.heard {
            match said {
                Said::Started { .. } => {
                    traffic.first_started.get_or_insert(now);
                }
                Said::Accepted { .. } => {
                    self.carried.insert(*number);
                }
                Said::Received { data, .. } => {
                    self.carried.insert(*number);
                    traffic.received_bytes +=
                        data.iter().map(|part| part.len() as u64).sum::<u64>();
                    traffic.first_received.get_or_insert(now);
                    traffic.last_received = Some(now);
                }
                Said::Ended { error } => {
                    self.over.insert(*number);
                    if error.is_some() && !self.carried.contains(number) {
                        self.barred.insert(*number);
                    }
                    traffic.why = error.clone().or(traffic.why.take());
                }
                _ => {}
            }
        }
        self.said.extend(self.heard.drain(..).map(|said| (*number, said)));
    }

    /// A connection is over ([`transport::Agent::ended`]), and with it its session.
    pub fn ended(&mut self, now: Time, handle: Handle, why: Option<String>) {
        self.hear(now, handle);
        let Some(number) = self.numbers.remove(&handle) else { return };
        let traffic = &mut self.traffic[handle.end];
        traffic.ended += 1;
        let barred = self.barred.remove(&number);
        self.carried.remove(&number);
        traffic.lost += u64::from(why.is_some() || barred);
        traffic.why = why.clone().or(traffic.why.take());
        self.live.remove(&number);
        if !self.over.remove(&number) {
            self.said.push((number, Said::Ended { error: why }));
        }
    }

    /// Sessions that peers have begun since the last call, and at which end.
    pub fn take_met(&mut self) -> Vec<(usize, SessionId)> {
        std::mem::take(&mut self.met)
    }

    /// What sessions have said since the last call, in order.
    pub fn take_said(&mut self) -> Vec<(SessionId, Said)> {
        std::mem::take(&mut self.said)
    }
}
