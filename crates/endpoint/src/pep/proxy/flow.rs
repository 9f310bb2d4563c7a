//! A connection of the proxy, from its SYN to its end: the SYN is held or answered, the way on is opened, bytes are
//! passed between both sockets until both ends have ended or one is reset.

use std::io;
use std::net::SocketAddr;

use nix::sys::epoll::EpollFlags;
use transport::pep::Setup;
use transport::places::Way;
use units::{Span, Time};

use super::{BROKEN, Proxy, READABLE, Slot};
use crate::pep::header::Ends;
use crate::pep::socket::{begin, reset};
use crate::pep::splice::{End, Pipe};
use crate::pep::syn::{Fate, Reset, Seen, Syn};
use crate::say::say;
use crate::tcp_info::TcpInfo;

/// How long a SYN-ACK is sent again (tcp_synack_retries = 5: 1 + 2 + 4 + 8 + 16 + 32 s).
const ANSWER: Span = Span::from_secs(63);

/// SYNs and resets, and connections of a listener, that are taken before others have their turn.
const SYNS_AT_ONCE: usize = 1024;
const ACCEPTS_AT_ONCE: usize = 256;

/// Whether a connection can have a place.
pub(super) enum Capacity {
    Free,
    /// When a half-open one has had its time.
    Later,
    None,
}

/// A connection.
pub(super) struct Flow {
    /// In order of beginning.
    pub(super) number: u64,
    pub(super) ends: Ends,
    /// It begins on the side towards the server.
    pub(super) from_far: bool,
    /// Its SYN, until it is put back.
    pub(super) held: Option<Vec<u8>>,
    /// The SYN's sequence number, while the client's handshake is under way.
    pub(super) half_open: Option<u32>,
    /// Bytes of the header of a pooled connection that have come; none: it is whole, or there is none.
    pub(super) header: Option<Vec<u8>>,
    /// When its header, or its client, is given up.
    pub(super) deadline: Option<Time>,
    /// The way on could not be opened, or has been reset, before the client was there.
    pub(super) failed: bool,
    /// Both sockets: of who opened it, and the way on.
    pub(super) sides: [End; 2],
    /// From the first to the second, and back.
    pub(super) pipes: [Pipe; 2],
    /// It waits for its turn to go on.
    pub(super) queued: bool,
}

impl Flow {
    /// A connection between `ends` that has no socket yet.
    pub(super) fn new(ends: Ends, from_far: bool) -> Flow {
        Flow {
            number: 0,
            ends,
            from_far,
            held: None,
            half_open: None,
            header: None,
            deadline: None,
            failed: false,
            sides: Default::default(),
            pipes: Default::default(),
            queued: false,
        }
    }

    /// Bytes of an IP header without options.
    pub(super) fn ip_header(&self) -> u64 {
        if self.ends.client.is_ipv4() { 20 } else { 40 }
    }

    /// Which leg a side is: 0 towards the client.
    pub(super) fn leg(&self, side: usize) -> usize {
        side ^ usize::from(self.from_far)
    }
}

impl Proxy<'_> {
    /// Takes the SYNs and resets that have come, as many as there is a turn for.
    pub(super) fn syns(&mut self) -> io::Result<()> {
        for _ in 0..SYNS_AT_ONCE {
            let Some((seen, from_far)) = self.watch.next()? else { return Ok(()) };
            let syn = match seen {
                Seen::Syn(syn) => syn,
                Seen::Reset(reset) => {
                    self.abort_handshake(reset, from_far);
                    continue;
                }
            };
            let key = (syn.ends.client, syn.ends.server);
            // A SYN that comes again is for the kernel, which answers again by its own timer.
            if self.known.contains_key(&key) || self.own.contains(&syn.ends.server.ip()) {
                continue;
            }
            match self.make_place() {
                Capacity::Free => self.begin(syn, from_far),
                // It comes again.
                Capacity::Later => {}
                Capacity::None => {
                    if self.line.refused == 0 {
                        let most = self.most;
                        say(format_args!(
                            "bentpipe: more than {most} connections: the rest is reset"
                        ));
                    }
                    self.line.refused += 1;
                    self.put_back(&syn.packet, Fate::Refused);
                }
            }
        }
        Ok(())
    }

    /// Whether there is a place for one more connection; a half-open one gives its place to it.
    pub(super) fn make_place(&mut self) -> Capacity {
        if self.flows < self.most {
            return Capacity::Free;
        }
        match self.half_open.gives_way(self.clock.now()) {
            Way::Gives(place) => {
                if self.line.gave_way == 0 {
                    let most = self.most;
                    say(format_args!(
                        "bentpipe: more than {most} connections: half-open ones give way to new ones"
                    ));
                }
                self.line.gave_way += 1;
                self.close(place, true);
                Capacity::Free
            }
            Way::Wait(_) => Capacity::Later,
            Way::Full => Capacity::None,
        }
    }

    /// A client has reset a connection before its handshake was done.
    fn abort_handshake(&mut self, reset: Reset, from_far: bool) {
        let key = (reset.ends.client, reset.ends.server);
        let Some(place) = self.known.get(&key).copied() else { return };
        if let Slot::Flow(flow) = &self.slots[place]
            && flow.from_far == from_far
            && flow.half_open.is_some_and(|syn| reset.ends_handshake(syn))
        {
            self.line.reset += 1;
            self.close(place, true);
        }
    }

    /// Gives a SYN back to the kernel.
    fn put_back(&self, packet: &[u8], fate: Fate) {
        // A SYN that is lost here comes again.
        let _ = self.watch.put_back(packet, fate);
    }

    /// A connection begins.
    fn begin(&mut self, syn: Syn, from_far: bool) {
        let mut flow = Flow::new(syn.ends, from_far);
        let pooled = self.plan.to_pool.is_some() && !from_far;
        let held = self.plan.proxy.setup == Setup::Relayed;
        let now = self.clock.now();
        flow.deadline = Some(now + ANSWER);
        flow.half_open = Some(syn.sequence);
        flow.held = Some(syn.packet);
        let place = self.add(flow);
        self.half_open.insert(self.begun, place, now);
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

    /// Gives a connection its place.
    pub(super) fn add(&mut self, mut flow: Flow) -> usize {
        self.flows += 1;
        self.make_room();
        self.begun += 1;
        flow.number = self.begun;
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
    pub(super) fn go_on(&mut self, place: usize) {
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
                self.line.side(leg).connections += 1;
            }
            Err(_) => self.no_way(place, false),
        }
    }

    /// The way on cannot be opened; `refused`: by a reset.
    pub(super) fn no_way(&mut self, place: usize, refused: bool) {
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
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPTS_AT_ONCE {
            let Ok((stream, client)) = self.listeners[listener].accept() else { return };
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
            flow.half_open = None;
            self.half_open.remove(flow.number);
            flow.sides[0] = End::connected(stream);
            self.line.side(flow.leg(0)).connections += 1;
            self.work(place);
        }
    }

    /// News of one of a connection's sockets.
    pub(super) fn flow_event(&mut self, place: usize, side: usize, events: EpollFlags) {
        let Slot::Flow(flow) = &mut self.slots[place] else { return };
        let end = &mut flow.sides[side];
        let Some(stream) = &end.stream else { return };
        let broken = events.intersects(BROKEN);
        if broken && let Ok(Some(error)) = stream.take_error() {
            let refused = error.kind() == io::ErrorKind::ConnectionRefused;
            if side == 1 && !end.up {
                return self.no_way(place, refused);
            }
            return self.broken(place);
        }
        end.readable |= broken || events.intersects(READABLE);
        end.writable |= events.contains(EpollFlags::EPOLLOUT);
        if !end.up && end.writable && stream.peer_addr().is_ok() {
            end.up = true;
            self.answer(place);
        }
        self.work(place);
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
    pub(super) fn work(&mut self, place: usize) {
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
            let side = self.line.side(leg);
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
    pub(super) fn close(&mut self, place: usize, by_reset: bool) {
        let Slot::Flow(flow) = self.vacate(place) else { return };
        self.flows -= 1;
        self.half_open.remove(flow.number);
        self.in_want.remove(&flow.number);
        let key = (flow.ends.client, flow.ends.server);
        if self.known.get(&key) == Some(&place) {
            self.known.remove(&key);
        }
        let (legs, ip) = ([flow.leg(0), flow.leg(1)], flow.ip_header());
        for (end, leg) in flow.sides.into_iter().zip(legs) {
            let Some(stream) = end.stream else { continue };
            let counts = flow.header.is_none();
            if counts && !by_reset {
                self.leave(stream, leg, ip);
                continue;
            }
            if counts && let Ok(info) = TcpInfo::of(&stream, self.kernel) {
                self.line.side(leg).add(&info, ip);
            }
            if by_reset {
                reset(stream);
            }
        }
        self.make_room();
    }
}

/// An IPv4 address as itself, whatever socket shows it.
pub(super) fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
