//! A bundle node's agent over sessions on real sockets. What is stored is in memory, and durable at once.

use bundle::{Act, Agent};
use transport::quic::End;
use transport::{App, Handle, Lines, Notice};
use units::Time;

use super::{Gate, Sessions, Traffic};

/// A bundle node on a host.
pub struct BundleHost {
    agent: Agent,
    sessions: Sessions,
    acts: Vec<Act>,
    due: bool,
}

impl BundleHost {
    /// `agent`, whose doors lead to ends that have these gates.
    pub fn new(agent: Agent, gates: Vec<Gate>) -> BundleHost {
        let sessions = Sessions::new(&agent.eid().to_string(), gates);
        BundleHost { agent, sessions, acts: Vec::new(), due: true }
    }

    /// The agent.
    pub fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The same, to be told what it may forget.
    pub fn agent_mut(&mut self) -> &mut Agent {
        &mut self.agent
    }

    /// What the connections of each end have carried.
    pub fn traffic(&self) -> &[Traffic] {
        self.sessions.traffic()
    }

    /// How many sessions there are.
    pub fn sessions(&self) -> usize {
        self.sessions.count()
    }

    /// What sessions have said and what is due; whether there was anything.
    fn listen(&mut self, now: Time) -> bool {
        let (met, said) = (self.sessions.take_met(), self.sessions.take_said());
        let any = !met.is_empty() || !said.is_empty();
        for (end, session) in met {
            self.agent.opened(now, end, session);
        }
        for (session, said) in said {
            self.agent.heard(now, session, said);
        }
        if self.agent.wake_at() <= now {
            self.agent.wake(now);
        }
        any
    }
}

impl transport::Agent for BundleHost {
    fn accept(&mut self, now: Time, handle: Handle) -> Box<dyn App> {
        self.due = true;
        self.sessions.accept(now, handle)
    }

    fn hear(&mut self, now: Time, handle: Handle, _notice: Notice) {
        self.due = true;
        self.sessions.hear(now, handle);
    }

    fn ended(&mut self, now: Time, handle: Handle, end: &End) {
        self.due = true;
        let why = match end {
            End::Lost(why) => Some(why.clone()),
            End::Here | End::There => None,
        };
        self.sessions.ended(now, handle, why);
    }

    fn wake(&mut self, now: Time, lines: &mut dyn Lines) {
        self.due = false;
        loop {
            let any = self.listen(now);
            self.agent.take_acts(&mut self.acts);
            if self.acts.is_empty() && !any {
                return;
            }
            for act in std::mem::take(&mut self.acts) {
                match act {
                    Act::Store(key) => self.agent.stored(now, key),
                    Act::Tell(session, told) => self.sessions.tell(now, session, told, lines),
                    Act::Open(end) => {
                        let session = self.sessions.dial(now, end, lines);
                        self.agent.opened(now, end, session);
                    }
                }
            }
        }
    }

    fn wake_at(&mut self) -> Time {
        if self.due { Time::ZERO } else { self.agent.wake_at() }
    }
}
