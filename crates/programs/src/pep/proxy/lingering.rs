//! Sockets of closed connections: both sides have finished, and the kernel still sends buffered data. The proxy holds
//! them until then, so that this data is counted.

use std::net::TcpStream;

use runtime::tcp::{TcpInfo, TcpInfoLayout};
use units::{Span, Time};

use super::{CounterLine, Proxy};

/// The timeout of a socket without new acknowledgements: equal to the kernel's for an orphaned socket in FIN-WAIT-2
/// (tcp_fin_timeout, tcp(7)).
const FIN_TIMEOUT: Span = Span::from_secs(60);

/// A socket with data that the kernel still sends.
pub(super) struct LingeringSocket {
    stream: TcpStream,
    side: usize,
    /// Bytes of an IP header.
    ip_header_bytes: u64,
    /// Acknowledged bytes, and the deadline of further acknowledgements.
    acked_bytes: u64,
    deadline: Time,
}

impl LingeringSocket {
    /// Adds the kernel's counters.
    pub(super) fn add_to(&self, line: &mut CounterLine, kernel: TcpInfoLayout) {
        if let Ok(info) = TcpInfo::query(&self.stream, kernel) {
            line.side(self.side).add(&info, self.ip_header_bytes);
        }
    }
}

impl Proxy<'_> {
    /// Holds a socket of a closed connection, unless the kernel has closed it.
    pub(super) fn linger(&mut self, stream: TcpStream, side: usize, ip: u64) {
        let until = self.clock.now() + FIN_TIMEOUT;
        let lingering =
            LingeringSocket { stream, side, ip_header_bytes: ip, acked_bytes: 0, deadline: until };
        let open =
            TcpInfo::query(&lingering.stream, self.info_layout).is_ok_and(|info| !info.is_closed());
        // Its table index is reused soon: its events would be attributed to another connection.
        if open && self.epoll.delete(&lingering.stream).is_ok() {
            self.lingering.push_back(lingering);
        } else {
            lingering.add_to(&mut self.counters, self.info_layout);
        }
    }

    /// Releases the oldest sockets while there are more open files than the permitted connections need.
    pub(super) fn release_oldest(&mut self) {
        while 2 * self.open_flows + self.lingering.len() > 2 * self.max_flows
            && let Some(oldest) = self.lingering.pop_front()
        {
            oldest.add_to(&mut self.counters, self.info_layout);
        }
    }

    /// Releases sockets that the kernel has closed, or that have made no progress.
    pub(super) fn release_finished(&mut self, now: Time) {
        let (kernel, line) = (self.info_layout, &mut self.counters);
        self.lingering.retain_mut(|one| {
            let info = TcpInfo::query(&one.stream, kernel);
            if let Ok(info) = &info
                && info.bytes_acked != one.acked_bytes
            {
                (one.acked_bytes, one.deadline) = (info.bytes_acked, now + FIN_TIMEOUT);
            }
            let stays = info.is_ok_and(|info| !info.is_closed()) && now < one.deadline;
            if !stays {
                one.add_to(line, kernel);
            }
            stays
        });
    }
}
