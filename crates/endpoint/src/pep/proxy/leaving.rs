//! Sockets whose connection the proxy is done with: both ends have ended, and the kernel still sends what waits in
//! them. They are kept until it has, so that what it sends is counted.

use std::net::TcpStream;

use units::{Span, Time};

use super::{Line, Proxy};
use crate::tcp_info::{Kernel, TcpInfo};

/// A socket is let go when nothing more was acknowledged for so long: as Linux keeps one that nobody holds and that
/// waits for the other end (tcp_fin_timeout, tcp(7)).
const PATIENCE: Span = Span::from_secs(60);

/// A socket that the kernel goes on with.
pub(super) struct Leaving {
    stream: TcpStream,
    leg: usize,
    /// Bytes of an IP header.
    ip: u64,
    /// Bytes acknowledged, and until when there have to be more.
    acked: u64,
    until: Time,
}

impl Leaving {
    /// Adds what the kernel has counted.
    pub(super) fn add_to(&self, line: &mut Line, kernel: Kernel) {
        if let Ok(info) = TcpInfo::of(&self.stream, kernel) {
            line.side(self.leg).add(&info, self.ip);
        }
    }
}

impl Proxy<'_> {
    /// Keeps a socket of a connection that has ended, if the kernel is not done with it.
    pub(super) fn leave(&mut self, stream: TcpStream, leg: usize, ip: u64) {
        let until = self.clock.now() + PATIENCE;
        let leaving = Leaving { stream, leg, ip, acked: 0, until };
        let open = TcpInfo::of(&leaving.stream, self.kernel).is_ok_and(|info| !info.is_closed());
        // Its place is another's soon, whom its events would be taken for.
        if open && self.epoll.delete(&leaving.stream).is_ok() {
            self.leaving.push_back(leaving);
        } else {
            leaving.add_to(&mut self.line, self.kernel);
        }
    }

    /// Lets go of the oldest while there are more open files than the connections that are allowed have.
    pub(super) fn make_room(&mut self) {
        while 2 * self.flows + self.leaving.len() > 2 * self.most
            && let Some(oldest) = self.leaving.pop_front()
        {
            oldest.add_to(&mut self.line, self.kernel);
        }
    }

    /// Lets go of those that the kernel is done with, or does not get on with.
    pub(super) fn let_go(&mut self, now: Time) {
        let (kernel, line) = (self.kernel, &mut self.line);
        self.leaving.retain_mut(|one| {
            let info = TcpInfo::of(&one.stream, kernel);
            if let Ok(info) = &info
                && info.bytes_acked != one.acked
            {
                (one.acked, one.until) = (info.bytes_acked, now + PATIENCE);
            }
            let stays = info.is_ok_and(|info| !info.is_closed()) && now < one.until;
            if !stays {
                one.add_to(line, kernel);
            }
            stays
        });
    }
}
