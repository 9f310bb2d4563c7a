//! The browser: loads a page again and again, asks for objects when what they depend on has come, over
//! connections that it opens as it needs them (`connections`).

mod connections;

use std::sync::Arc;

use units::{RandomStream, Span, Time};

use self::connections::Connection;
use super::dial::{Dial, Protocol};
use super::pair::Transports;
use super::profile::Memory;
use super::{Http, LoadReport, PageSpec, Profile, RequestReport, WebSpec};
use crate::{Notice, Order};

/// How often requests of a lost connection are given to a new one, a host and a load.
const RETRIES: u32 = 3;

/// A host in the current load.
#[derive(Clone, Debug, Default)]
struct HostState {
    /// Objects that no connection was asked for yet.
    queue: Vec<u32>,
    /// QUIC was tried because of Alt-Svc; TCP joins the race then.
    race: Option<Time>,
    retries: u32,
}

/// Where the browser is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Off,
    /// Connections that are open before the load are on their way; they are given up then.
    Opening(Time),
    /// The load is given up then.
    Loading(Time),
    /// The next load begins then.
    Pause(Time),
    Done,
}

/// The browser.
pub(super) struct Browser {
    spec: WebSpec,
    page: Arc<PageSpec>,
    /// The document, and the redirects that lead to it.
    chain: Vec<u32>,
    /// Of each object, whether it is wanted by the document itself, and so for the content to be loaded.
    content: Vec<bool>,
    transports: Transports,
    memory: Memory,
    pauses: RandomStream,
    phase: Phase,
    connections: Vec<Connection>,
    /// How many were opened over TCP and over QUIC.
    opened: [u32; 2],
    /// What connections are to be told, by their number in reports.
    orders: Vec<(u32, Order)>,
    hosts: Vec<HostState>,
    /// Of each object: how many it still waits for, until when what has come is parsed, and when it may be asked for.
    needs: Vec<usize>,
    parsed: Vec<Time>,
    due: Vec<Time>,
    /// Of each object: the place of its request's report.
    reports: Vec<Option<usize>>,
    pub loads: Vec<LoadReport>,
    pub requests: Vec<RequestReport>,
}

impl Browser {
    /// A browser for a checked `spec`; `name` keys its random streams.
    pub fn new(spec: &WebSpec, page: Arc<PageSpec>, seed: u64, name: &str) -> Browser {
        let chain = page.chain();
        let is_content = |first: u32| {
            page.objects[first as usize].after.iter().all(|after| chain.contains(after))
        };
        Browser {
            spec: spec.clone(),
            content: page.firsts().into_iter().map(is_content).collect(),
            chain,
            transports: Transports::of(spec),
            memory: Memory::new(page.hosts.len()),
            pauses: RandomStream::named(seed, name, "pauses"),
            phase: Phase::Off,
            connections: Vec::new(),
            opened: [0; 2],
            orders: Vec::new(),
            hosts: Vec::new(),
            needs: Vec::new(),
            parsed: Vec::new(),
            due: Vec::new(),
            reports: Vec::new(),
            loads: Vec::new(),
            requests: Vec::new(),
            page,
        }
    }

    /// Begins the first load.
    pub fn start(&mut self, now: Time) {
        self.phase = Phase::Pause(now);
    }

    /// When it has something to do.
    pub fn wake_at(&self) -> Time {
        match self.phase {
            Phase::Off | Phase::Done => Time::MAX,
            Phase::Pause(until) => until,
            Phase::Opening(until) => until.min(self.next_race()),
            Phase::Loading(until) => {
                let due = self.due.iter().copied().min().unwrap_or(Time::MAX);
                until.min(due).min(self.next_race())
            }
        }
    }

    fn next_race(&self) -> Time {
        self.hosts.iter().filter_map(|host| host.race).min().unwrap_or(Time::MAX)
    }

    /// Does what is due; returns the connections to open.
    pub fn step(&mut self, now: Time) -> Vec<Dial> {
        let mut dials = Vec::new();
        match self.phase {
            Phase::Pause(until) if until <= now => self.open(now, &mut dials),
            Phase::Opening(until) => {
                for host in 0..self.hosts.len() {
                    if let Some(at) = self.hosts[host].race {
                        self.race(now, host, at, &mut dials);
                    }
                }
                if until <= now || (0..self.hosts.len()).all(|host| self.is_up(host)) {
                    self.begin(now);
                }
            }
            _ => {}
        }
        if let Phase::Loading(until) = self.phase {
            self.ask(now);
            for host in 0..self.hosts.len() {
                self.serve(now, host, &mut dials);
            }
            let whole = self.loads.last().is_some_and(|load| load.load_event_end.is_some());
            if whole || until <= now {
                self.end(now);
            }
        }
        dials
    }

    /// What connections are to be told since the last call, by their number in reports.
    pub fn take_orders(&mut self) -> Vec<(u32, Order)> {
        std::mem::take(&mut self.orders)
    }

    /// Opens what is to be open before a load.
    fn open(&mut self, now: Time, dials: &mut Vec<Dial>) {
        if self.spec.profile == Profile::Fresh && !self.loads.is_empty() {
            self.memory.forget();
        }
        self.phase = Phase::Opening(now + Span(self.spec.timeout_ns));
        self.hosts = vec![HostState::default(); self.page.hosts.len()];
        for host in 0..self.page.hosts.len() {
            let is_up = |connection: &&Connection| connection.dial.host as usize == host;
            if self.page.hosts[host].open && self.live().find(is_up).is_none() {
                let protocol = self.protocol(host);
                self.dial(now, host, protocol, dials);
            }
        }
        if dials.is_empty() {
            self.begin(now);
        }
    }

    /// Index of the document.
    fn document(&self) -> usize {
        self.chain.last().map_or(0, |index| *index as usize)
    }

    /// Begins a load.
    fn begin(&mut self, now: Time) {
        let objects = self.page.objects.len();
        self.phase = Phase::Loading(now + Span(self.spec.timeout_ns));
        self.needs = self.page.objects.iter().map(|object| object.after.len()).collect();
        self.parsed = vec![now; objects];
        self.due = self.needs.iter().map(|n| if *n == 0 { now } else { Time::MAX }).collect();
        self.reports = vec![None; objects];
        self.loads.push(LoadReport {
            load: self.loads.len() as u32 + 1,
            protocol: self.protocol(self.page.objects[self.document()].host as usize).alpn(),
            start: now,
            ..LoadReport::default()
        });
    }

    /// Ends a load; then comes a pause, or nothing more.
    fn end(&mut self, now: Time) {
        for connection in &mut self.connections {
            let host = connection.dial.host as usize;
            let quic = connection.dial.protocol == Protocol::Http3;
            if quic && self.spec.http == Http::AltSvc && !connection.answered {
                self.memory.hosts[host].broken = true;
            }
        }
        let last = self.loads.len() as u32 >= self.spec.loads;
        // A fresh profile is a browser begun anew.
        let keep = !last && self.spec.keep_connections && self.spec.profile == Profile::Kept;
        for connection in &mut self.connections {
            let useful = connection.answered && connection.waiting.is_empty();
            let stays = keep && useful;
            if !(stays || connection.closed) {
                connection.closed = true;
                self.orders.push((connection.dial.number, Order::Close));
            }
        }
        self.connections.retain(|connection| !connection.closed);
        let (least, most) = self.spec.pause_ns;
        let pause = Span(least) + self.pauses.span_below(Span(most.saturating_sub(least) + 1));
        self.phase = if last { Phase::Done } else { Phase::Pause(now + pause) };
    }

    /// Queues the objects whose time has come.
    fn ask(&mut self, now: Time) {
        for object in 0..self.due.len() {
            if self.due[object] > now {
                continue;
            }
            let queued = std::mem::replace(&mut self.due[object], Time::MAX);
            let host = self.page.objects[object].host as usize;
            self.reports[object] = Some(self.requests.len());
            self.requests.push(RequestReport {
                load: self.loads.len() as u32,
                object: object as u32,
                protocol: self.protocol(host).alpn(),
                queued,
                ..RequestReport::default()
            });
            self.hosts[host].queue.push(object as u32);
        }
    }

    /// What the connection with this number in reports tells.
    pub fn hear(&mut self, number: u32, at: Time, notice: Notice) {
        let is_it = |own: &Connection| own.dial.number == number;
        let Some(place) = self.connections.iter().position(is_it) else { return };
        let host = self.connections[place].dial.host as usize;
        let connection = &mut self.connections[place];
        match notice {
            Notice::Ready => {
                connection.ready.get_or_insert(at);
            }
            Notice::Answered => connection.answered = true,
            Notice::Ticket => self.memory.hosts[host].ticket = true,
            Notice::Closed => {
                connection.closed = true;
                let lost = std::mem::take(&mut connection.waiting);
                if let Phase::Loading(_) = self.phase {
                    self.hosts[host].retries += u32::from(!lost.is_empty());
                    if self.hosts[host].retries <= RETRIES {
                        self.hosts[host].queue.extend(lost);
                    }
                }
            }
            Notice::Sent(object)
            | Notice::Response(object)
            | Notice::Body(object, _)
            | Notice::End(object) => {
                if connection.waiting.contains(&object) {
                    self.progress(place, object, at, notice);
                }
            }
            Notice::Attend => {}
        }
    }

    /// What happened to an object of the current load.
    fn progress(&mut self, place: usize, object: u32, at: Time, notice: Notice) {
        let document = object as usize == self.document();
        let (Some(load), Some(report)) = (self.loads.last_mut(), self.reports[object as usize])
        else {
            return;
        };
        let report = &mut self.requests[report];
        let connection = &mut self.connections[place];
        match notice {
            Notice::Sent(_) => {
                report.sent = Some(at);
                if document {
                    load.protocol = connection.dial.protocol.alpn();
                }
                // The first request: the document's, or the first redirect on the way to it.
                if object == 0 {
                    // A connection that was open before is used from the request on.
                    let new = connection.dial.at >= load.start;
                    load.connect_start = Some(if new { connection.dial.at } else { report.queued });
                    let end = connection.ready.filter(|_| new);
                    load.connect_end = Some(end.unwrap_or(report.queued));
                    load.request_start = Some(at);
                }
            }
            Notice::Response(_) => {
                report.response_start.get_or_insert(at);
                if document {
                    load.response_start.get_or_insert(at);
                }
                let tcp = connection.dial.protocol != Protocol::Http3;
                let known = &mut self.memory.hosts[connection.dial.host as usize];
                known.http3 |= self.spec.http == Http::AltSvc && tcp;
            }
            Notice::Body(_, bytes) => {
                report.bytes += bytes;
                load.bytes += bytes;
            }
            _ => {
                report.end = Some(at);
                load.objects += 1;
                connection.waiting.retain(|other| *other != object);
                if document {
                    load.response_end = Some(at);
                }
                self.whole(object, at);
            }
        }
    }

    /// `object` has come whole.
    fn whole(&mut self, object: u32, at: Time) {
        for (index, spec) in self.page.objects.iter().enumerate() {
            let count = spec.after.iter().filter(|after| **after == object).count();
            if count > 0 {
                // A redirect has nothing to parse.
                let leads = self.page.objects[object as usize].redirect == Some(index as u32);
                let parsed = at + Span(if leads { 0 } else { self.spec.parse_ns });
                self.parsed[index] = self.parsed[index].max(parsed);
                self.needs[index] -= count;
                if self.needs[index] == 0 {
                    self.due[index] = self.parsed[index];
                }
            }
        }
        let come = |index: usize| {
            self.reports[index].is_some_and(|report| self.requests[report].end.is_some())
        };
        let count = self.page.objects.len();
        let loaded = (0..count).all(|index| come(index) || !self.content[index]);
        let over = (0..count).all(come);
        if let Some(load) = self.loads.last_mut() {
            if loaded {
                load.content_loaded.get_or_insert(at);
            }
            if over {
                load.load_event_end = Some(at);
            }
        }
    }
}
