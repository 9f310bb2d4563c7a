//! A bundle node's agent over sessions on real sockets. What happens is told when the store has what it led to.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::Path;

use bundle::{Act, Agent, Answer, InMemory, Record, ReportRecord, RouteRecord, Said, Store};
use serde_json::Value;
use transport::quic::End;
use transport::{App, Handle, Lines, Notice};
use units::Time;

use super::files::Files;
use super::{Gate, SessionId, Sessions, Traffic};

/// Rows that may wait for the store before the node waits with them, some 300 bytes each.
const WAITING_ROWS: usize = 1 << 16;

/// What has happened.
#[derive(Debug, Default)]
pub struct Events {
    /// To bundles.
    pub records: Vec<Record>,
    /// Decisions.
    pub routes: Vec<RouteRecord>,
    /// Reports that have come.
    pub reports: Vec<ReportRecord>,
}

impl Events {
    fn rows(&self) -> usize {
        self.records.len() + self.routes.len() + self.reports.len()
    }
}

/// A bundle node on a host.
pub struct BundleHost {
    agent: Agent,
    sessions: Sessions,
    store: Box<dyn Store>,
    answers: Vec<Answer>,
    /// What has happened, and in which turn.
    events: VecDeque<(u64, Events)>,
    /// Rows of these.
    rows: usize,
    acts: Vec<Act>,
    due: bool,
    /// Where files go that clients send; none: nowhere.
    files: Option<Files>,
    /// It is to end: sessions are told, or were.
    ending: Ending,
    /// Sessions whose peer has not said who it is, and at which end they are.
    unknown: BTreeMap<SessionId, usize>,
}

/// How far a node is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It goes on.
    No,
    /// Its sessions are to be told.
    Due,
    /// They were; no connection is opened any more.
    Told,
}

impl BundleHost {
    /// `agent`, whose doors lead to ends that have these gates.
    pub fn new(agent: Agent, gates: Vec<Gate>) -> BundleHost {
        let sessions = Sessions::new(&agent.eid().to_string(), gates);
        BundleHost {
            agent,
            sessions,
            store: Box::new(InMemory::default()),
            answers: Vec::new(),
            events: VecDeque::new(),
            rows: 0,
            acts: Vec::new(),
            due: true,
            files: None,
            ending: Ending::No,
            unknown: BTreeMap::new(),
        }
    }

    /// The same with another store than memory.
    pub fn with_store(mut self, store: Box<dyn Store>) -> BundleHost {
        self.store = store;
        self
    }

    /// Waits until the store has done what it was asked for, and takes no more.
    pub fn flush(&mut self) {
        self.store.flush();
    }

    /// Whether the store has failed, so that nothing more is durable.
    pub fn has_lost_its_store(&self) -> bool {
        self.store.is_over()
    }

    /// What has happened since the last call, as far as the store has what it led to.
    pub fn take_events(&mut self) -> Events {
        let (_, settled) = self.store.turns();
        let mut taken = Events::default();
        while let Some((_, mut events)) = self.events.pop_front_if(|(turn, _)| *turn <= settled) {
            self.rows -= events.rows();
            taken.records.append(&mut events.records);
            taken.routes.append(&mut events.routes);
            taken.reports.append(&mut events.reports);
        }
        taken
    }

    fn end_turn(&mut self, now: Time) {
        self.store.end_turn(now, &self.agent);
        let events = Events {
            records: self.agent.take_records(),
            routes: self.agent.take_routes(),
            reports: self.agent.take_reports(),
        };
        if events.rows() == 0 {
            return;
        }
        self.rows += events.rows();
        let (turn, settled) = self.store.turns();
        self.events.push_back((turn, events));
        // Bounds the rows that wait for a slow disk; the node takes nothing meanwhile.
        if self.rows > WAITING_ROWS && settled < turn {
            self.store.flush();
        }
    }

    /// What the store has to say; whether there was anything.
    fn settle(&mut self, now: Time) -> bool {
        self.store.answers(now, &mut self.answers);
        let any = !self.answers.is_empty();
        for answer in self.answers.drain(..) {
            self.agent.answered(now, answer);
        }
        any
    }

    /// Files that clients send go to `folder`.
    ///
    /// # Errors
    /// The kernel's: there is no such folder.
    pub fn keep_files(&mut self, folder: &Path) -> io::Result<()> {
        self.files = Some(Files::new(folder)?);
        self.agent.want_files();
        Ok(())
    }

    /// What has become of files since the last call.
    pub(super) fn take_files_told(&mut self) -> Vec<Value> {
        self.files.as_mut().map(Files::take_told).unwrap_or_default()
    }

    /// Ends its sessions as their layers have it (RFC 9174 section 6.1): what was given to them gets its answer, nothing new
    /// begins.
    pub fn end(&mut self) {
        self.ending = Ending::Due;
        self.due = true;
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
        let any = self.settle(now) || !met.is_empty() || !said.is_empty();
        self.unknown.extend(met.into_iter().map(|(end, session)| (session, end)));
        for (session, said) in said {
            self.meet(now, session, &said);
            self.agent.heard(now, session, said);
        }
        if self.agent.wake_at() <= now {
            self.agent.wake(now);
        }
        self.write_files(now);
        any
    }
}

impl BundleHost {
    /// A session that a peer has begun takes the place of another one once its layer knows the peer: who only opens connections
    /// ends nobody's.
    fn meet(&mut self, now: Time, session: SessionId, said: &Said) {
        if let Some(end) = self.unknown.remove(&session)
            && !matches!(said, Said::Ended { .. })
        {
            self.agent.opened(now, end, session);
        }
    }

    fn write_files(&mut self, now: Time) {
        let Some(files) = &mut self.files else { return };
        for part in self.agent.take_files() {
            files.take(now, &part);
        }
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
        if self.ending == Ending::Due {
            self.ending = Ending::Told;
            self.sessions.end(now, lines);
        }
        self.agent.resume(now);
        loop {
            let any = self.listen(now);
            self.agent.take_acts(&mut self.acts);
            if self.acts.is_empty() && !any {
                return self.end_turn(now);
            }
            for act in std::mem::take(&mut self.acts) {
                match act {
                    Act::Store(asked) => {
                        self.store.ask(now, asked, &self.agent);
                        self.settle(now);
                        self.write_files(now);
                    }
                    Act::Tell(session, told) => self.sessions.tell(now, session, told, lines),
                    Act::Open(_) if self.ending == Ending::Told => {}
                    Act::Open(end) => {
                        let session = self.sessions.dial(now, end, lines);
                        self.agent.opened(now, end, session);
                    }
                }
            }
        }
    }

    fn wake_at(&mut self) -> Time {
        if self.due || self.agent.unresumed() > 0 {
            return Time::ZERO;
        }
        self.agent.wake_at().min(self.store.wake_at())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use bundle::wire::{Bundle, Class, Crc, Eid, Flags, Head};
    use bundle::{Asked, DtnSpec, Service};
    use serde_json::json;
    use units::Span;

    use super::*;

    /// A disk that stores nothing before it is waited for; how often that is.
    #[derive(Default)]
    struct Slow {
        turn: u64,
        settled: u64,
        flushes: Arc<AtomicU64>,
    }

    impl Store for Slow {
        fn ask(&mut self, _: Time, _: Asked, _: &Agent) {}
        fn end_turn(&mut self, _: Time, _: &Agent) {
            self.turn += 1;
        }
        fn answers(&mut self, _: Time, _: &mut Vec<Answer>) {}
        fn wake_at(&self) -> Time {
            Time::MAX
        }
        fn stop(&mut self) {}
        fn flush(&mut self) {
            self.flushes.fetch_add(1, Ordering::Relaxed);
            self.settled = self.turn;
        }
        fn turns(&self) -> (u64, u64) {
            (self.turn, self.settled)
        }
    }

    #[test]
    fn a_node_waits_for_a_slow_disk_before_too_much_has_happened() {
        let name = |name: &str| name.parse::<Eid>().unwrap();
        let spec: DtnSpec = serde_json::from_value(json!({
            "epoch_ms": 0, "links": [], "plan": {"contacts": []},
            "nodes": [{"name": "1", "eid": "ipn:1.0"}, {"name": "2", "eid": "ipn:2.0"}],
        }))
        .unwrap();
        let head = Head {
            source: name("ipn:1.3000"),
            destination: name("ipn:2.2000"),
            report_to: Eid::Null,
            created_ms: Some(0),
            sequence: 7,
            lifetime: Span::from_secs(60),
            flags: Flags::default(),
            hop_limit: None,
            crc: Crc::Crc32c,
            payload_crc: Crc::None,
            class: Class::default(),
        };
        let bundle = Bundle::new(&head, vec![]).unwrap().encode(&name("ipn:1.0"), Span::ZERO);
        let slow = Slow::default();
        let flushes = slow.flushes.clone();
        let agent = Agent::new(&spec, "2", &[]).unwrap();
        let mut host = BundleHost::new(agent, vec![]).with_store(Box::new(slow));
        host.agent.opened(Time::ZERO, 0, 1);
        // The same bundle again and again, each time received and deleted.
        let mut rows = 0;
        for id in 0..2 * WAITING_ROWS as u64 {
            let said = Said::Received { id, data: bundle.clone(), service: Service::Reliable };
            host.agent.heard(Time::ZERO, 1, said);
            host.agent.take_acts(&mut Vec::new());
            host.end_turn(Time::ZERO);
            assert!(host.rows <= WAITING_ROWS + 2, "{}", host.rows);
            rows += host.take_events().records.len();
        }
        assert!(flushes.load(Ordering::Relaxed) >= 3, "four times as many rows have come");
        assert_eq!(rows + host.rows, 4 * WAITING_ROWS - 1, "the first is no copy");
    }
}
