//! A bundle node as the loop knows it: an agent, and at each of its ends a transport whose connections carry sessions.
//! What is stored is in memory, and durable at once or so much later ([`InMemory`]).

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cc::CongestionControl;
use transport::load::StreamReport;
use transport::tls::Secured;
use transport::{
    App, Asker, Counters, Endpoint, Event, Gauges, MakeApp, Node, Notice, Order, Payload, quic,
};
use units::{Span, Time};

use crate::agent::{Act, Agent, SessionId};
use crate::layers::{LayerSpec, Memory, TlsPolicy};
use crate::{Answer, Carrier, InMemory, Mailbox, NodeSpec, Role, Said, Session, StopSpec, Store};

/// Sessions of connections that have come, by the numbers of these, not yet known to the node.
#[derive(Clone, Default)]
pub struct Met(Arc<Meeting>);

#[derive(Default)]
struct Meeting {
    /// There are any: asked for each packet.
    any: AtomicBool,
    sessions: Mutex<Vec<(u32, Mailbox)>>,
}

/// A session as the application of a connection, which has no TLS of its own in virtual time.
fn app(layer: &LayerSpec, role: Role, session: Box<dyn Session>, mailbox: Mailbox) -> Box<dyn App> {
    let carrier = Box::new(Carrier::new(session, mailbox));
    match layer.tls() {
        TlsPolicy::No => carrier,
        TlsPolicy::Allow | TlsPolicy::Require => {
            Box::new(Secured::new(carrier, role == Role::Active))
        }
    }
}

impl Met {
    /// Makes the sessions of connections that peers open.
    pub fn make_app(&self, layer: &LayerSpec, own: &str) -> MakeApp {
        let (met, layer, own) = (self.clone(), layer.clone(), own.to_owned());
        Box::new(move |number| {
            let mailbox = Mailbox::default();
            met.0.sessions().push((number, mailbox.clone()));
            met.0.any.store(true, Ordering::Release);
            app(&layer, Role::Passive, layer.session(Role::Passive, &own), mailbox)
        })
    }

    fn take(&self) -> Vec<(u32, Mailbox)> {
        if !self.0.any.load(Ordering::Relaxed) || !self.0.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        std::mem::take(&mut self.0.sessions())
    }
}

impl Meeting {
    fn sessions(&self) -> MutexGuard<'_, Vec<(u32, Mailbox)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An end of a bundle node.
pub struct End {
    /// The transport, a client or a server.
    pub endpoint: Box<dyn Endpoint>,
    /// The layer of its sessions.
    pub layer: LayerSpec,
    /// Connections of peers, whose applications it made.
    pub met: Met,
    /// Sessions are resumed, by what peers said in the one before; none: each begins anew.
    pub memory: Option<Memory>,
}

struct Live {
    end: usize,
    connection: u32,
    mailbox: Mailbox,
}

/// An agent, and when it wants to be woken: it looks at all it has to say so, and is asked for each packet.
struct Timed {
    agent: Agent,
    /// None: it may have changed since it was asked.
    wake_at: Option<Time>,
}

impl Timed {
    fn get_mut(&mut self) -> &mut Agent {
        self.wake_at = None;
        &mut self.agent
    }

    fn wake_at(&mut self) -> Time {
        *self.wake_at.get_or_insert_with(|| self.agent.wake_at())
    }
}

impl Deref for Timed {
    type Target = Agent;

    fn deref(&self) -> &Agent {
        &self.agent
    }
}

/// A bundle node.
pub struct BundleNode {
    agent: Timed,
    ends: Vec<End>,
    /// Those that have worked since they were listened to.
    stirred: Vec<bool>,
    /// Sessions by their number, which is their place.
    sessions: Vec<Live>,
    said: Vec<(u32, Notice)>,
    heard: Vec<Said>,
    acts: Vec<Act>,
    store: InMemory,
    answers: Vec<Answer>,
    /// When it stops, in order of time.
    stops: VecDeque<StopSpec>,
    /// It is stopped, until then.
    stopped: Option<Time>,
}

impl BundleNode {
    /// `agent` with its ends, whose numbers its doors have.
    pub fn new(agent: Agent, ends: Vec<End>) -> BundleNode {
        BundleNode {
            agent: Timed { agent, wake_at: None },
            stirred: vec![false; ends.len()],
            ends,
            sessions: Vec::new(),
            said: Vec::new(),
            heard: Vec::new(),
            acts: Vec::new(),
            store: InMemory::default(),
            answers: Vec::new(),
            stops: VecDeque::new(),
            stopped: None,
        }
    }

    /// The same with a store that takes its time, and with stops.
    pub fn with(mut self, spec: &NodeSpec) -> BundleNode {
        self.store = InMemory::new(Span(spec.store_ns));
        self.stops = spec.stops.iter().copied().collect();
        self
    }

    /// Stops and goes on as it is due; whether it is stopped.
    fn rests(&mut self, now: Time) -> bool {
        loop {
            if let Some(until) = self.stopped {
                if now < until {
                    return true;
                }
                self.stopped = None;
                self.agent.get_mut().restart(now);
            }
            let Some(stop) = self.stops.pop_front_if(|stop| Time(stop.at_ns) <= now) else {
                return false;
            };
            for end in &mut self.ends {
                end.endpoint.stop(now);
                end.met.take();
            }
            self.store.stop();
            self.agent.get_mut().stop(now, stop.keeps);
            self.stopped = Some(stop.until_ns.map_or(Time::MAX, Time));
        }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Lets agent and sessions work until neither has anything for the other.
    fn work(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        loop {
            let mut idle = true;
            for end in 0..self.ends.len() {
                if std::mem::take(&mut self.stirred[end]) {
                    idle &= !self.listen(now, end);
                }
            }
            self.settle(now);
            if self.agent.wake_at() <= now {
                self.agent.get_mut().wake(now);
            }
            if !self.agent.has_acts() {
                if idle {
                    return;
                }
                continue;
            }
            self.agent.get_mut().take_acts(&mut self.acts);
            let mut acts = std::mem::take(&mut self.acts);
            let mut woken = vec![false; self.ends.len()];
            for act in acts.drain(..) {
                match act {
                    Act::Store(asked) => {
                        self.store.ask(now, asked, &self.agent);
                        self.settle(now);
                    }
                    Act::Open(end) => self.dial(now, end, out),
                    Act::Tell(session, told) => {
                        let Some(live) = self.sessions.get(session as usize) else { continue };
                        live.mailbox.tell(told);
                        self.ends[live.end].endpoint.say(live.connection, Order::Attend);
                        (woken[live.end], self.stirred[live.end]) = (true, true);
                    }
                }
            }
            self.acts = acts;
            for (end, _) in woken.iter().enumerate().filter(|(_, woken)| **woken) {
                self.ends[end].endpoint.wake(now, &mut out[end]);
            }
        }
    }

    /// Hears what the store has to say.
    fn settle(&mut self, now: Time) {
        self.store.answers(now, &mut self.answers);
        for answer in self.answers.drain(..) {
            self.agent.get_mut().answered(now, answer);
        }
    }

    /// Hears what sessions at an end have said; whether any has.
    fn listen(&mut self, now: Time, end: usize) -> bool {
        let one = &mut self.ends[end];
        one.endpoint.take_said(&mut self.said);
        for (connection, mailbox) in one.met.take() {
            let session = self.sessions.len() as SessionId;
            self.sessions.push(Live { end, connection, mailbox });
            self.agent.get_mut().opened(now, end, session);
        }
        if self.said.is_empty() {
            return false;
        }
        let mut last = None;
        for (connection, _) in std::mem::take(&mut self.said) {
            if last.replace(connection) == Some(connection) {
                continue;
            }
            let is = |live: &Live| live.end == end && live.connection == connection;
            let Some(session) = self.sessions.iter().rposition(is) else { continue };
            self.sessions[session].mailbox.take_said(&mut self.heard);
            for said in self.heard.drain(..) {
                self.agent.get_mut().heard(now, session as SessionId, said);
            }
        }
        true
    }

    fn dial(&mut self, now: Time, end: usize, out: &mut [Vec<Payload>]) {
        self.stirred[end] = true;
        let one = &mut self.ends[end];
        let mailbox = Mailbox::default();
        let own = self.agent.eid().to_string();
        let session = match &one.memory {
            Some(memory) => one.layer.resuming(Role::Active, &own, memory),
            None => one.layer.session(Role::Active, &own),
        };
        let app = app(&one.layer, Role::Active, session, mailbox.clone());
        let connection = one.endpoint.opened();
        let number = self.sessions.len() as SessionId;
        self.sessions.push(Live { end, connection, mailbox });
        // The specification was checked when the endpoint was built.
        let connected = one.endpoint.connect(now, Some(app), &mut out[end]);
        debug_assert!(connected.is_ok(), "{connected:?}");
        self.agent.get_mut().opened(now, end, number);
    }
}

impl Node for BundleNode {
    fn receive(&mut self, now: Time, end: usize, payload: Payload, out: &mut [Vec<Payload>]) {
        if self.rests(now) {
            return;
        }
        self.ends[end].endpoint.receive(now, payload, &mut out[end]);
        self.stirred[end] = true;
        self.work(now, out);
    }

    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]) {
        if self.rests(now) {
            return;
        }
        for (place, (end, out)) in self.ends.iter_mut().zip(out.iter_mut()).enumerate() {
            if end.endpoint.wake_at() <= now {
                end.endpoint.wake(now, out);
                self.stirred[place] = true;
            }
        }
        self.work(now, out);
    }

    fn wake_at(&mut self) -> Time {
        if let Some(until) = self.stopped {
            return until;
        }
        let ends = self.ends.iter_mut().map(|end| end.endpoint.wake_at()).min();
        let stops = self.stops.front().map_or(Time::MAX, |stop| Time(stop.at_ns));
        let stored = self.store.wake_at();
        ends.unwrap_or(Time::MAX).min(self.agent.wake_at()).min(stops).min(stored)
    }

    fn asker(&mut self) -> (Asker, usize) {
        let own = ((self.agent.wake_at(), Asker::Application), 0);
        let ends = self.ends.iter_mut().enumerate();
        let first = ends.map(|(place, end)| (end.endpoint.asker(), place)).chain([own]).min();
        first.map_or((Asker::Application, 0), |((_, asker), end)| (asker, end))
    }

    fn opened(&self, end: usize) -> u32 {
        self.ends[end].endpoint.opened()
    }

    fn completed(&self, end: usize) -> u32 {
        self.ends[end].endpoint.completed()
    }

    fn connected_at(&self, end: usize) -> Option<Time> {
        self.ends[end].endpoint.connected_at()
    }

    fn ended_at(&self, end: usize) -> Option<Time> {
        self.ends[end].endpoint.ended_at()
    }

    fn counters(&self, end: usize) -> Counters {
        self.ends[end].endpoint.counters()
    }

    fn gauges(&self, end: usize) -> Gauges {
        self.ends[end].endpoint.gauges()
    }

    fn controller(&self, end: usize) -> Option<&dyn CongestionControl> {
        self.ends[end].endpoint.controller()
    }

    fn take_events(&mut self, end: usize) -> Vec<Event> {
        self.ends[end].endpoint.take_events()
    }

    fn streams(&self, end: usize) -> Vec<(u32, StreamReport)> {
        self.ends[end].endpoint.streams()
    }

    fn quic(&self, end: usize) -> Option<&quic::Endpoint> {
        self.ends[end].endpoint.quic()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
