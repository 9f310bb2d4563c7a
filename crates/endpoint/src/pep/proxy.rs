//! The loop: SYNs, listeners, the pool and all connections of one proxy, by one epoll. `start` makes it,
//! `flow` is the life of a connection, `half_open` who gives way, `leaving` what the kernel has to do after it, `pooled` the pool.

mod flow;
mod half_open;
mod leaving;
mod pooled;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::json;
use units::{Span, Time};

use self::flow::Flow;
use self::half_open::HalfOpen;
use self::leaving::Leaving;
use self::start::files;
use super::counters::{Line, Lines};
use super::syn::Watch;
use super::{Leg, Plan, settings};
use crate::Clock;
use crate::kept::Kept;
use crate::perf::Failure;
use crate::tcp_info::{Kernel, TcpInfo};

/// Between two looks at all deadlines.
const LOOK: Span = Span::from_secs(1);
/// Longest sleep: how late a request to end is noticed at worst.
const SLEEP_MS: u16 = 100;
/// What one read brings.
const SCRATCH: usize = 256 << 10;
/// Events taken at once.
const EVENTS: usize = 512;

/// Tokens: listeners by their place, then these, then two for each connection.
const POOL_LISTENER: u64 = 4;
const SYNS: u64 = 5;
const FIRST: u64 = 8;

/// A socket has failed, or is over both ways.
const BROKEN: EpollFlags = EpollFlags::EPOLLERR.union(EpollFlags::EPOLLHUP);
/// Bytes have come, or the end.
const READABLE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLRDHUP);

/// What a place holds.
enum Slot {
    Flow(Box<Flow>),
    /// A connection of the pool's stock; whether it stands.
    Stock(TcpStream, bool),
    Free,
}

struct Proxy<'a> {
    plan: &'a Plan,
    legs: [Leg; 2],
    devices: [&'a str; 2],
    epoll: Epoll,
    clock: Clock,
    kernel: Kernel,
    watch: Watch,
    /// Addresses of the namespace: connections to them are not split.
    own: Vec<IpAddr>,
    listeners: Vec<TcpListener>,
    pool_listener: Option<TcpListener>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Freed in this turn: their events may still come.
    freed: Vec<usize>,
    /// Place of each connection, by its ends.
    known: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// Connections there have been, there are, and may be.
    begun: u64,
    flows: usize,
    most: usize,
    /// Stock that stands, and that is being opened.
    stock: VecDeque<usize>,
    opening: usize,
    retry_at: Time,
    /// When deadlines are looked at next.
    look_at: Time,
    /// Connections that wait for stock, by number: where each is.
    in_want: BTreeMap<u64, usize>,
    /// Those whose client's handshake is under way.
    half_open: HalfOpen,
    /// Connections that have more to do than their turn had room for.
    turn: VecDeque<usize>,
    /// Sockets of connections that have ended here and not yet in the kernel, in the order in which they did.
    leaving: VecDeque<Leaving>,
    /// The counters of all connections before these.
    line: Line,
    scratch: Vec<u8>,
}

/// Runs a plan until `stop` is set; `ready` is told when connections are split from now on.
///
/// # Errors
/// What is wrong with the plan, what the kernel cannot do, the network.
pub fn run(
    plan: &Plan,
    stop: &AtomicBool,
    ready: &mut dyn FnMut(&str) -> io::Result<()>,
) -> Result<(), Failure> {
    plan.check().map_err(Failure::Input)?;
    let legs = [
        Leg::new("client_side", &plan.proxy.client_side).map_err(Failure::Input)?,
        Leg::new("server_side", &plan.proxy.server_side).map_err(Failure::Input)?,
    ];
    let wanted = settings(&plan.proxy).map_err(Failure::Input)?;
    let input = |error: io::Error| Failure::Input(error.to_string());
    let counters = plan.counters.as_ref();
    let file =
        counters.map(|counters| Kept::create("counters", &counters.file).map_err(Failure::Input));
    let mut lines = Lines::new(file.transpose()?);
    let interval = counters.map_or(Span(u64::MAX), |counters| Span(counters.interval_ns));
    let mut notes = Vec::new();
    let most = files(plan, &mut notes)?;
    let (mut proxy, rules) = Proxy::start(plan, legs, &wanted, most, &mut notes).map_err(input)?;
    proxy.fill(stop)?;
    ready(&json!({"ready": true, "setup": plan.proxy.setup, "notes": notes}).to_string())?;
    lines.write(&proxy.count(false))?;
    let mut line_at = proxy.clock.now() + interval.min(Span::from_secs(1 << 30));
    while !stop.load(Ordering::Relaxed) {
        proxy.step(line_at)?;
        if proxy.clock.now() >= line_at {
            lines.write(&proxy.count(false))?;
            line_at += interval;
        }
    }
    lines.write(&proxy.count(true))?;
    drop(rules);
    if lines.is_cut() { Err(Failure::Cut) } else { Ok(()) }
}

impl Proxy<'_> {
    /// Waits for something to do, at most until `until`, and does it.
    fn step(&mut self, until: Time) -> io::Result<()> {
        let now = self.clock.now();
        let left = (until.0.saturating_sub(now.0) / 1_000_000).min(SLEEP_MS.into()) as u16;
        let wait = if self.turn.is_empty() { left.max(1) } else { 0 };
        let mut events = [EpollEvent::empty(); EVENTS];
        let came = match self.epoll.wait(&mut events, EpollTimeout::from(wait)) {
            Ok(came) => came,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(error.into()),
        };
        // Connections that had their turn cut go on after those with news.
        let turn = std::mem::take(&mut self.turn);
        for event in &events[..came] {
            match event.data() {
                SYNS => self.syns()?,
                POOL_LISTENER => self.accept_pooled(),
                place if place < POOL_LISTENER => self.accept(place as usize),
                token => self.event(token - FIRST, event.events()),
            }
        }
        for place in turn {
            if let Slot::Flow(flow) = &mut self.slots[place] {
                flow.queued = false;
                self.work(place);
            }
        }
        self.free.append(&mut self.freed);
        self.restock();
        self.expire();
        Ok(())
    }

    /// Puts something into a free place.
    fn insert(&mut self, slot: Slot) -> usize {
        match self.free.pop() {
            Some(place) => {
                self.slots[place] = slot;
                place
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        }
    }

    /// Takes out what a place holds.
    fn vacate(&mut self, place: usize) -> Slot {
        self.freed.push(place);
        std::mem::replace(&mut self.slots[place], Slot::Free)
    }

    /// Watches a socket of what is at `place`; `again`: it was watched for another place.
    fn register(
        &self,
        socket: &impl AsFd,
        place: usize,
        side: usize,
        again: bool,
    ) -> io::Result<()> {
        let flags = READABLE | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        let mut event = EpollEvent::new(flags, FIRST + 2 * place as u64 + side as u64);
        if again {
            self.epoll.modify(socket, &mut event)?;
        } else {
            self.epoll.add(socket, event)?;
        }
        Ok(())
    }

    /// News of a socket.
    fn event(&mut self, token: u64, events: EpollFlags) {
        let (place, side) = ((token / 2) as usize, (token % 2) as usize);
        match self.slots.get(place) {
            Some(Slot::Flow(_)) => self.flow_event(place, side, events),
            Some(Slot::Stock(..)) => self.stock_event(place, events),
            Some(Slot::Free) | None => {}
        }
    }

    /// Gives up what is awaited for too long.
    fn expire(&mut self) {
        let now = self.clock.now();
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
        self.let_go(now);
        let late: Vec<usize> = self
            .slots
            .iter()
            .enumerate()
            .filter_map(|(place, slot)| match slot {
                Slot::Flow(flow) if flow.deadline.is_some_and(|at| at <= now) => Some(place),
                _ => None,
            })
            .collect();
        for place in late {
            self.close(place, true);
        }
    }

    /// The counters now.
    fn count(&self, end: bool) -> Line {
        let mut line = Line { end, open: self.flows as u64, ..self.line };
        let mut flows: Vec<&Flow> = self
            .slots
            .iter()
            .filter_map(|slot| if let Slot::Flow(flow) = slot { Some(&**flow) } else { None })
            .collect();
        flows.sort_unstable_by_key(|flow| flow.number);
        for leaving in &self.leaving {
            leaving.add_to(&mut line, self.kernel);
        }
        for flow in flows {
            for (side, one) in flow.sides.iter().enumerate() {
                let into = line.side(flow.leg(side));
                into.buffered_bytes += flow.pipes[1 - side].waiting() as u64;
                if let Some(stream) = &one.stream
                    && flow.header.is_none()
                    && let Ok(info) = TcpInfo::of(stream, self.kernel)
                {
                    into.add(&info, flow.ip_header());
                }
            }
        }
        line
    }
}
