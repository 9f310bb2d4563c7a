//! The loop: SYNs, listeners, the pool and all connections of one proxy, by one epoll. `start` makes it,
//! `pooled` has the pool.

mod pooled;
mod start;

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};
use serde_json::json;
use transport::pep::Setup;
use units::{Span, Time};

use self::pooled::RETRY;
use self::start::files;
use super::counters::{Line, Lines};
use super::header::Ends;
use super::socket::{begin, reset};
use super::splice::{End, Pipe};
use super::syn::{Fate, Syn, Watch};
use super::{Leg, Plan, settings};
use crate::Clock;
use crate::perf::Failure;
use crate::tcp_info::{Kernel, TcpInfo};

/// How long a SYN-ACK is sent again (tcp_synack_retries = 5: 1 + 2 + 4 + 8 + 16 + 32 s).
const ANSWER: Span = Span::from_secs(63);
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

/// A connection.
struct Flow {
    ends: Ends,
    /// It begins on the side towards the server.
    from_far: bool,
    /// Its SYN, until it is put back.
    held: Option<Vec<u8>>,
    /// Bytes of the header of a pooled connection that have come; none: it is whole, or there is none.
    header: Option<Vec<u8>>,
    /// When its header, or its client, is given up.
    deadline: Option<Time>,
    /// The way on could not be opened, or has been reset, before the client was there.
    failed: bool,
    /// Both sockets: of who opened it, and the way on.
    sides: [End; 2],
    /// From the first to the second, and back.
    pipes: [Pipe; 2],
    queued: bool,
}

impl Flow {
    fn new(ends: Ends, from_far: bool) -> Flow {
        Flow {
            ends,
            from_far,
            held: None,
            header: None,
            deadline: None,
            failed: false,
            sides: Default::default(),
            pipes: Default::default(),
            queued: false,
        }
    }

    /// Which leg a side is: 0 towards the client.
    fn leg(&self, side: usize) -> usize {
        side ^ usize::from(self.from_far)
    }
}

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
    watch: Watch,
    own: Vec<IpAddr>,
    listeners: Vec<TcpListener>,
    pool_listener: Option<TcpListener>,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// Freed in this turn: their events may still come.
    freed: Vec<usize>,
    known: BTreeMap<(SocketAddr, SocketAddr), usize>,
    flows: usize,
    most: usize,
    /// Stock that stands, and that is being opened.
    stock: VecDeque<usize>,
    opening: usize,
    retry_at: Time,
    /// When deadlines are looked at next.
    look_at: Time,
    /// Connections that wait for stock.
    in_want: VecDeque<(usize, Ends)>,
    turn: VecDeque<usize>,
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
    let file = counters.map(|counters| {
        File::create(&counters.file)
            .map_err(|error| Failure::Input(format!("{}: {error}", counters.file.display())))
    });
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
    Ok(())
}

impl<'a> Proxy<'a> {
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

    fn register(
        &self,
        socket: &impl AsFd,
        place: usize,
        side: usize,
        again: bool,
    ) -> io::Result<()> {
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        let mut event = EpollEvent::new(flags, FIRST + 2 * place as u64 + side as u64);
        if again {
            self.epoll.modify(socket, &mut event)?;
        } else {
            self.epoll.add(socket, event)?;
        }
        Ok(())
    }

    /// Takes the SYNs that have come.
    fn syns(&mut self) -> io::Result<()> {
        while let Some((syn, from_far)) = self.watch.next()? {
            let key = (syn.ends.client, syn.ends.server);
            // A SYN that comes again is for the kernel, which answers again by its own timer.
            if self.known.contains_key(&key) || self.own.contains(&syn.ends.server.ip()) {
                continue;
            }
            if self.flows >= self.most {
                if self.line.refused == 0 {
                    eprintln!("bentpipe: more than {} connections: the rest is reset", self.most);
                }
                self.line.refused += 1;
                self.put_back(&syn.packet, Fate::Refused);
                continue;
            }
            self.begin(syn, from_far);
        }
        Ok(())
    }

    fn put_back(&self, packet: &[u8], fate: Fate) {
        // A SYN that is lost here comes again.
        let _ = self.watch.put_back(packet, fate);
    }

    /// A connection begins.
    fn begin(&mut self, syn: Syn, from_far: bool) {
        let mut flow = Flow::new(syn.ends, from_far);
        let pooled = self.plan.to_pool.is_some() && !from_far;
        let held = self.plan.proxy.setup == Setup::Relayed;
        flow.deadline = Some(self.clock.now() + ANSWER);
        flow.held = Some(syn.packet);
        let place = self.add(flow);
        self.known.insert((syn.ends.client, syn.ends.server), place);
        if pooled {
            self.take_stock(place, syn.ends)
        } else {
            self.go_on(place)
        }
        if !held {
            self.answer(place);
        }
    }

    fn add(&mut self, flow: Flow) -> usize {
        self.flows += 1;
        self.insert(Slot::Flow(Box::new(flow)))
    }

    /// Puts a SYN back, to be answered.
    fn answer(&mut self, place: usize) {
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        let fate = if flow.from_far { Fate::Far } else { Fate::Near };
        if let Some(packet) = flow.held.take() {
            self.put_back(&packet, fate);
        }
    }

    /// Opens the way on.
    fn go_on(&mut self, place: usize) {
        let Slot::Flow(flow) = &self.slots[place] else { return };
        let leg = flow.leg(1);
        let Ends { client, server } = flow.ends;
        let begun = begin(server, Some(client), self.devices[leg], &self.legs[leg])
            .and_then(|begun| self.register(&begun.stream, place, 1, false).map(|()| begun));
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        match begun {
            Ok(begun) => {
                self.line.other_port += u64::from(!begun.same_port);
                flow.sides[1] = End::connecting(begun.stream);
                self.opened(leg);
            }
            Err(_) => self.no_way(place, false),
        }
    }

    fn opened(&mut self, leg: usize) {
        let side = if leg == 0 { &mut self.line.client_side } else { &mut self.line.server_side };
        side.connections += 1;
    }

    /// The way on cannot be opened; `refused`: by a reset.
    fn no_way(&mut self, place: usize, refused: bool) {
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        self.line.unreachable += 1;
        match (flow.held.take(), &flow.sides[0].stream) {
            (Some(packet), _) => {
                // Relayed: as the server has answered. Who answers nothing is not answered for.
                if refused {
                    self.put_back(&packet, Fate::Refused);
                }
                self.close(place, false);
            }
            (None, Some(_)) => self.close(place, true),
            (None, None) => {
                flow.failed = true;
                flow.sides[1] = End::default();
            }
        }
    }

    /// A client's handshake is done.
    fn accept(&mut self, listener: usize) {
        while let Ok((stream, client)) = self.listeners[listener].accept() {
            let server = stream.local_addr().map(plain);
            let place = server.ok().and_then(|to| self.known.get(&(plain(client), to)).copied());
            let Some(place) = place else {
                reset(stream);
                continue;
            };
            let usable = stream.set_nonblocking(true).is_ok()
                && self.register(&stream, place, 0, false).is_ok();
            let Slot::Flow(flow) = &mut self.slots[place] else { continue };
            if flow.failed || !usable || flow.sides[0].stream.is_some() {
                reset(stream);
                if flow.sides[0].stream.is_none() {
                    self.close(place, true);
                }
                continue;
            }
            flow.deadline = None;
            flow.sides[0] = End::connected(stream);
            let leg = flow.leg(0);
            self.opened(leg);
            self.work(place);
        }
    }

    fn vacate(&mut self, place: usize) -> Slot {
        self.freed.push(place);
        std::mem::replace(&mut self.slots[place], Slot::Free)
    }

    /// News of a socket.
    fn event(&mut self, token: u64, events: EpollFlags) {
        let (place, side) = ((token / 2) as usize, (token % 2) as usize);
        let broken = events.intersects(EpollFlags::EPOLLERR | EpollFlags::EPOLLHUP);
        match self.slots.get_mut(place) {
            Some(Slot::Stock(stream, stands)) => {
                let dead = broken
                    || events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP)
                    || stream.peer_addr().is_err();
                if dead {
                    if *stands {
                        self.stock.retain(|one| *one != place);
                    } else {
                        self.opening -= 1;
                    }
                    self.retry_at = self.clock.now() + RETRY;
                    self.vacate(place);
                } else if !*stands {
                    *stands = true;
                    self.opening -= 1;
                    self.stock.push_back(place);
                    self.serve_want();
                }
            }
            Some(Slot::Flow(flow)) => {
                let end = &mut flow.sides[side];
                let Some(stream) = &end.stream else { return };
                if broken && let Ok(Some(error)) = stream.take_error() {
                    let refused = error.kind() == io::ErrorKind::ConnectionRefused;
                    if side == 1 && !end.up {
                        return self.no_way(place, refused);
                    }
                    return self.broken(place);
                }
                end.readable |=
                    broken || events.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP);
                end.writable |= events.contains(EpollFlags::EPOLLOUT);
                if !end.up && end.writable && stream.peer_addr().is_ok() {
                    end.up = true;
                    self.answer(place);
                }
                self.work(place);
            }
            _ => {}
        }
    }

    /// One socket of a connection was reset, or is lost: so is the other.
    fn broken(&mut self, place: usize) {
        self.line.reset += 1;
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        if flow.sides[0].stream.is_none() {
            // The client's handshake is under way: it is reset when it is done.
            flow.failed = true;
            flow.sides[1] = End::default();
            return;
        }
        self.close(place, true);
    }

    /// Moves what can be moved.
    fn work(&mut self, place: usize) {
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        if flow.header.is_some() {
            return self.read_header(place);
        }
        let bound = usize::try_from(self.plan.proxy.buffer_bytes).unwrap_or(usize::MAX);
        let Flow { sides: [opener, onward], pipes: [there, back], .. } = &mut **flow;
        let mut more = there.pass(opener, onward, bound, &mut self.scratch);
        if let Ok(first) = more {
            more =
                back.pass(onward, opener, bound, &mut self.scratch).map(|second| first || second);
        }
        for (pipe, leg) in [(0, flow.leg(1)), (1, flow.leg(0))] {
            let waiting = flow.pipes[pipe].waiting() as u64;
            let side =
                if leg == 0 { &mut self.line.client_side } else { &mut self.line.server_side };
            side.largest_buffered_bytes = side.largest_buffered_bytes.max(waiting);
        }
        match more {
            Err(_) => self.broken(place),
            Ok(_) if flow.pipes.iter().all(Pipe::is_done) => self.close(place, false),
            Ok(true) if !flow.queued => {
                flow.queued = true;
                self.turn.push_back(place);
            }
            Ok(_) => {}
        }
    }

    /// Ends a connection, by a reset of both sockets or as both ends have wished.
    fn close(&mut self, place: usize, by_reset: bool) {
        let Slot::Flow(flow) = self.vacate(place) else { return };
        self.flows -= 1;
        let key = (flow.ends.client, flow.ends.server);
        if self.known.get(&key) == Some(&place) {
            self.known.remove(&key);
        }
        let legs = [flow.leg(0), flow.leg(1)];
        for (end, leg) in flow.sides.into_iter().zip(legs) {
            let Some(stream) = end.stream else { continue };
            if flow.header.is_none()
                && let Ok(info) = counted(&stream)
            {
                self.side(leg).add(&info, false);
            }
            if by_reset {
                reset(stream);
            }
        }
    }

    fn side(&mut self, leg: usize) -> &mut super::counters::Side {
        if leg == 0 { &mut self.line.client_side } else { &mut self.line.server_side }
    }

    /// Gives up what is awaited for too long.
    fn expire(&mut self) {
        let now = self.clock.now();
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK;
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
        for slot in &self.slots {
            let Slot::Flow(flow) = slot else { continue };
            for (side, one) in flow.sides.iter().enumerate() {
                let leg = flow.leg(side);
                let into = if leg == 0 { &mut line.client_side } else { &mut line.server_side };
                into.buffered_bytes += flow.pipes[1 - side].waiting() as u64;
                if let Some(stream) = &one.stream
                    && flow.header.is_none()
                    && let Ok(info) = counted(stream)
                {
                    into.add(&info, true);
                }
            }
        }
        line
    }
}

/// What the kernel has counted for a connection; the shorter structure has all that is asked for.
fn counted(stream: &TcpStream) -> nix::Result<TcpInfo> {
    TcpInfo::of(stream, Kernel::Short)
}

/// An IPv4 address as itself, whatever socket shows it.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
