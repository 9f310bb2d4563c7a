//! A connection of the proxy from its SYN to its close. The proxy holds or answers the SYN and opens the onward
//! connection. It forwards data until both sides have finished or one is reset.

use std::io;
use std::net::{SocketAddr, TcpStream};

use nix::sys::epoll::EpollFlags;
use runtime::log_stderr;
use runtime::tcp::TcpInfo;
use transport::eviction::Eviction;
use transport::pep::HandshakeMode;
use units::{Span, Time};

use super::Proxy;
use crate::pep::proxy_header::AddressPair;
use crate::pep::socket::{reset, start_connect};
use crate::pep::splice::{SpliceBuffer, SpliceSocket};
use crate::pep::syn::{CapturedSegment, ResetPacket, SynDisposition, SynPacket};

/// The duration of SYN-ACK retransmissions (tcp_synack_retries = 5: 1 + 2 + 4 + 8 + 16 + 32 s).
const SYN_ACK_TIMEOUT: Span = Span::from_secs(63);

/// The maximum per poll of SYNs and resets, and of accepted connections per listener.
const MAX_SYNS_PER_POLL: usize = 1024;
const MAX_ACCEPTS_PER_POLL: usize = 256;

/// The capacity for a new connection.
pub(super) enum Capacity {
    Available,
    /// Capacity is possible after the minimum age of a half-open connection.
    RetryLater,
    Full,
}

/// A socket has failed, or both directions are closed.
pub(super) const BROKEN: EpollFlags = EpollFlags::EPOLLERR.union(EpollFlags::EPOLLHUP);
/// Data or FIN is readable.
pub(super) const READABLE: EpollFlags = EpollFlags::EPOLLIN.union(EpollFlags::EPOLLRDHUP);

/// An entry of the connection table.
pub(super) enum ProxyEntry {
    Flow(Box<ProxyFlow>),
    /// A pooled connection; whether it is established.
    Pooled(TcpStream, bool),
    Free,
}

/// A connection.
pub(super) struct ProxyFlow {
    /// The number in the sequence of starts.
    pub(super) number: u64,
    pub(super) addresses: AddressPair,
    /// The connection was opened from the server side.
    pub(super) from_server_side: bool,
    /// The SYN until its reinjection.
    pub(super) held_syn: Option<Vec<u8>>,
    /// The sequence number of the SYN during the client handshake.
    pub(super) syn_sequence: Option<u32>,
    /// Received header bytes of a pooled connection, `None` after a complete header or without a header.
    pub(super) header: Option<Vec<u8>>,
    /// The deadline of the header or of the client handshake.
    pub(super) deadline: Option<Time>,
    /// The onward connection has failed before the client handshake was complete.
    pub(super) failed: bool,
    /// Both sockets: of the opener, and the onward one.
    pub(super) sockets: [SpliceSocket; 2],
    /// Data from the first to the second socket, and back.
    pub(super) buffers: [SpliceBuffer; 2],
    /// The connection is queued to continue.
    pub(super) is_queued: bool,
}

impl ProxyFlow {
    /// Creates a connection between `ends` without sockets.
    pub(super) fn new(ends: AddressPair, from_far: bool) -> ProxyFlow {
        ProxyFlow {
            number: 0,
            addresses: ends,
            from_server_side: from_far,
            held_syn: None,
            syn_sequence: None,
            header: None,
            deadline: None,
            failed: false,
            sockets: Default::default(),
            buffers: Default::default(),
            is_queued: false,
        }
    }

    /// Returns the bytes of an IP header without options.
    pub(super) fn ip_header(&self) -> u64 {
        if self.addresses.client.is_ipv4() { 20 } else { 40 }
    }

    /// Converts a socket index to a proxy side: 0 is the client side.
    pub(super) fn side_index(&self, side: usize) -> usize {
        side ^ usize::from(self.from_server_side)
    }
}

impl Proxy<'_> {
    /// Processes captured SYNs and resets, up to the limit per poll.
    pub(super) fn process_syns(&mut self) -> io::Result<()> {
        for _ in 0..MAX_SYNS_PER_POLL {
            let Some((seen, from_far)) = self.syn_capture.next_segment()? else { return Ok(()) };
            let syn = match seen {
                CapturedSegment::Syn(syn) => syn,
                CapturedSegment::Reset(reset) => {
                    self.abort_handshake(reset, from_far);
                    continue;
                }
            };
            let key = (syn.addresses.client, syn.addresses.server);
            // The kernel's timer handles a retransmitted SYN.
            if self.by_addresses.contains_key(&key)
                || self.local_addresses.contains(&syn.addresses.server.ip())
            {
                continue;
            }
            match self.reserve_capacity() {
                Capacity::Available => self.start_flow(syn, from_far),
                // The client retransmits the SYN.
                Capacity::RetryLater => {}
                Capacity::Full => {
                    if self.counters.refused == 0 {
                        let max_flows = self.max_flows;
                        log_stderr(format_args!(
                            "bentpipe: limit of {max_flows} connections reached: the proxy resets further connections"
                        ));
                    }
                    self.counters.refused += 1;
                    self.reinject(&syn.packet, SynDisposition::Refused);
                }
            }
        }
        Ok(())
    }

    /// Checks the capacity for one more connection, and evicts a half-open connection if necessary.
    pub(super) fn reserve_capacity(&mut self) -> Capacity {
        if self.open_flows < self.max_flows {
            return Capacity::Available;
        }
        match self.half_open.select_eviction(self.clock.now()) {
            Eviction::Evict(index) => {
                if self.counters.evicted_half_open == 0 {
                    let max_flows = self.max_flows;
                    log_stderr(format_args!(
                        "bentpipe: limit of {max_flows} connections reached: new connections replace half-open connections"
                    ));
                }
                self.counters.evicted_half_open += 1;
                self.close_flow(index, true);
                Capacity::Available
            }
            Eviction::RetryAt(_) => Capacity::RetryLater,
            Eviction::Full => Capacity::Full,
        }
    }

    /// Handles a reset by the client before its handshake was complete.
    fn abort_handshake(&mut self, reset: ResetPacket, from_far: bool) {
        let key = (reset.addresses.client, reset.addresses.server);
        let Some(index) = self.by_addresses.get(&key).copied() else { return };
        if let ProxyEntry::Flow(flow) = &self.entries[index]
            && flow.from_server_side == from_far
            && flow.syn_sequence.is_some_and(|syn| reset.aborts_handshake(syn))
        {
            self.counters.reset += 1;
            self.close_flow(index, true);
        }
    }

    /// Reinjects a SYN into the kernel.
    fn reinject(&self, packet: &[u8], disposition: SynDisposition) {
        // The client retransmits a SYN that is lost here.
        let _ = self.syn_capture.reinject(packet, disposition);
    }

    /// Starts a connection.
    fn start_flow(&mut self, syn: SynPacket, from_far: bool) {
        let mut flow = ProxyFlow::new(syn.addresses, from_far);
        let pooled = self.plan.to_pool.is_some() && !from_far;
        let held = self.plan.proxy.handshake == HandshakeMode::Relayed;
        let now = self.clock.now();
        flow.deadline = Some(now + SYN_ACK_TIMEOUT);
        flow.syn_sequence = Some(syn.sequence);
        flow.held_syn = Some(syn.packet);
        let index = self.add_flow(flow);
        self.half_open.insert(self.started_flows, index, now);
        self.by_addresses.insert((syn.addresses.client, syn.addresses.server), index);
        if pooled {
            self.take_pooled(index, syn.addresses)
        } else {
            self.connect_onward(index)
        }
        if !held {
            self.answer_syn(index);
        }
    }

    /// Adds a connection to the table.
    pub(super) fn add_flow(&mut self, mut flow: ProxyFlow) -> usize {
        self.open_flows += 1;
        self.release_oldest();
        self.started_flows += 1;
        flow.number = self.started_flows;
        self.insert(ProxyEntry::Flow(Box::new(flow)))
    }

    /// Reinjects a SYN to have it answered.
    fn answer_syn(&mut self, index: usize) {
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        let disposition =
            if flow.from_server_side { SynDisposition::Far } else { SynDisposition::Near };
        if let Some(packet) = flow.held_syn.take() {
            self.reinject(&packet, disposition);
        }
    }

    /// Opens the onward connection.
    pub(super) fn connect_onward(&mut self, index: usize) {
        let ProxyEntry::Flow(flow) = &self.entries[index] else { return };
        let side = flow.side_index(1);
        let AddressPair { client, server } = flow.addresses;
        let connecting =
            start_connect(server, Some(client), self.devices[side], &self.side_options[side])
                .and_then(|connecting| {
                    self.register(&connecting.stream, index, 1, false).map(|()| connecting)
                });
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        match connecting {
            Ok(connecting) => {
                self.counters.other_port += u64::from(!connecting.is_same_port);
                flow.sockets[1] = SpliceSocket::connecting(connecting.stream);
                self.counters.side(side).connections += 1;
            }
            Err(_) => self.fail_onward(index, false),
        }
    }

    /// Handles a failed onward connection; `refused` marks a reset by the server.
    pub(super) fn fail_onward(&mut self, index: usize, refused: bool) {
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        self.counters.unreachable += 1;
        match (flow.held_syn.take(), &flow.sockets[0].stream) {
            (Some(packet), _) => {
                // Relayed mode copies the server: a refusal is forwarded, silence is not answered.
                if refused {
                    self.reinject(&packet, SynDisposition::Refused);
                }
                self.close_flow(index, false);
            }
            (None, Some(_)) => self.close_flow(index, true),
            (None, None) => {
                flow.failed = true;
                flow.sockets[1] = SpliceSocket::default();
            }
        }
    }

    /// Accepts clients with a complete handshake.
    pub(super) fn accept(&mut self, listener: usize) {
        for _ in 0..MAX_ACCEPTS_PER_POLL {
            let Ok((stream, client)) = self.listeners[listener].accept() else { return };
            let server = stream.local_addr().map(canonical_addr);
            let index = server
                .ok()
                .and_then(|to| self.by_addresses.get(&(canonical_addr(client), to)).copied());
            let Some(index) = index else {
                reset(stream);
                continue;
            };
            let usable = stream.set_nonblocking(true).is_ok()
                && self.register(&stream, index, 0, false).is_ok();
            let ProxyEntry::Flow(flow) = &mut self.entries[index] else { continue };
            if flow.failed || !usable || flow.sockets[0].stream.is_some() {
                reset(stream);
                if flow.sockets[0].stream.is_none() {
                    self.close_flow(index, true);
                }
                continue;
            }
            flow.deadline = None;
            flow.syn_sequence = None;
            self.half_open.remove(flow.number);
            flow.sockets[0] = SpliceSocket::connected(stream);
            self.counters.side(flow.side_index(0)).connections += 1;
            self.transfer(index);
        }
    }

    /// Handles an event of a socket.
    pub(super) fn on_flow_event(&mut self, index: usize, side: usize, events: EpollFlags) {
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        let end = &mut flow.sockets[side];
        let Some(stream) = &end.stream else { return };
        let broken = events.intersects(BROKEN);
        if broken && let Ok(Some(error)) = stream.take_error() {
            let refused = error.kind() == io::ErrorKind::ConnectionRefused;
            if side == 1 && !end.is_connected {
                return self.fail_onward(index, refused);
            }
            return self.reset_flow(index);
        }
        end.readable |= broken || events.intersects(READABLE);
        end.writable |= events.contains(EpollFlags::EPOLLOUT);
        if !end.is_connected && end.writable && stream.peer_addr().is_ok() {
            end.is_connected = true;
            self.answer_syn(index);
        }
        self.transfer(index);
    }

    /// Resets the other socket of a connection after a reset or a loss.
    fn reset_flow(&mut self, index: usize) {
        self.counters.reset += 1;
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        if flow.sockets[0].stream.is_none() {
            // The client handshake is incomplete: the connection is reset when it completes.
            flow.failed = true;
            flow.sockets[1] = SpliceSocket::default();
            return;
        }
        self.close_flow(index, true);
    }

    /// Transfers the available data.
    pub(super) fn transfer(&mut self, index: usize) {
        let ProxyEntry::Flow(flow) = &mut self.entries[index] else { return };
        if flow.header.is_some() {
            return self.read_header(index);
        }
        let bound = usize::try_from(self.plan.proxy.buffer_bytes).unwrap_or(usize::MAX);
        let ProxyFlow { sockets: [opener, onward], buffers: [there, back], .. } = &mut **flow;
        let mut more = there.transfer(opener, onward, bound, &mut self.scratch);
        if let Ok(first) = more {
            more = back
                .transfer(onward, opener, bound, &mut self.scratch)
                .map(|second| first || second);
        }
        for (pipe, side_index) in [(0, flow.side_index(1)), (1, flow.side_index(0))] {
            let waiting = flow.buffers[pipe].buffered_bytes() as u64;
            let side = self.counters.side(side_index);
            side.largest_buffered_bytes = side.largest_buffered_bytes.max(waiting);
        }
        match more {
            Err(_) => self.reset_flow(index),
            Ok(_) if flow.buffers.iter().all(SpliceBuffer::is_done) => {
                self.close_flow(index, false)
            }
            Ok(true) if !flow.is_queued => {
                flow.is_queued = true;
                self.ready_flows.push_back(index);
            }
            Ok(_) => {}
        }
    }

    /// Closes a connection: by a reset of both sockets, or normally.
    pub(super) fn close_flow(&mut self, index: usize, by_reset: bool) {
        let ProxyEntry::Flow(flow) = self.remove_entry(index) else { return };
        self.open_flows -= 1;
        self.half_open.remove(flow.number);
        self.waiting_for_pool.remove(&flow.number);
        let key = (flow.addresses.client, flow.addresses.server);
        if self.by_addresses.get(&key) == Some(&index) {
            self.by_addresses.remove(&key);
        }
        let (sides, ip) = ([flow.side_index(0), flow.side_index(1)], flow.ip_header());
        for (end, side) in flow.sockets.into_iter().zip(sides) {
            let Some(stream) = end.stream else { continue };
            let counts = flow.header.is_none();
            if counts && !by_reset {
                self.linger(stream, side, ip);
                continue;
            }
            if counts && let Ok(info) = TcpInfo::query(&stream, self.info_layout) {
                self.counters.side(side).add(&info, ip);
            }
            if by_reset {
                reset(stream);
            }
        }
        self.release_oldest();
    }
}

/// Converts an IPv4-mapped address to IPv4.
pub(super) fn canonical_addr(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
