//! A UDP socket: datagrams in and out in batches, with the ECN field and the address spoken to.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use transport::quic::{Batch, Outlet};
use units::Ecn;

/// Buffers handed to the kernel at once.
const BUFFERS: usize = 8;

/// Length of a buffer: the largest datagram, or train of datagrams joined by the kernel, with room.
const BUFFER: usize = 1 << 16;

/// Most bytes in one call of sendmsg: what an IP packet carries after the largest headers.
const LARGEST_TRAIN: usize = 65_000;

/// Socket buffers asked for, bytes: some 6 ms at 5 Gbit/s. The kernel gives less to an ordinary user
/// whose net.core.rmem_max is lower.
const KERNEL_BUFFER: usize = 4 << 20;

/// Bytes that wait here while the kernel takes no more; beyond them datagrams are dropped, as any full
/// queue would.
const BACKLOG: usize = 4 << 20;

/// Datagrams that arrived together from one peer.
#[derive(Clone, Copy, Debug)]
pub struct Train<'a> {
    /// The peer.
    pub from: SocketAddr,
    /// The address of ours.
    pub to: Option<IpAddr>,
    /// ECN field.
    pub ecn: Ecn,
    /// Length of each datagram but the last, bytes.
    pub segment: usize,
    /// The datagrams.
    pub data: &'a [u8],
}

/// A train that waits.
struct Waiting {
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: Ecn,
    segment: usize,
    data: Vec<u8>,
}

/// Sees every datagram that is received or sent.
pub trait Observer: Send {
    /// A datagram from `peer`, or to it if it is sent.
    fn datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]);
}

/// A bound socket.
pub struct Socket {
    inner: UdpSocket,
    state: UdpSocketState,
    buffers: [Vec<u8>; BUFFERS],
    metas: [RecvMeta; BUFFERS],
    connected: bool,
    backlog: VecDeque<Waiting>,
    backlog_bytes: usize,
    /// Length of a datagram that the way out does not take (EMSGSIZE).
    too_large: Option<usize>,
    observer: Option<Box<dyn Observer>>,
    failed: Option<io::Error>,
}

impl Socket {
    /// A socket at `local`; with `peer`, one that hears only the peer and learns when its port is closed.
    ///
    /// # Errors
    /// The kernel's.
    pub fn bind(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<Socket> {
        let inner = UdpSocket::bind(local)?;
        if let Some(peer) = peer {
            inner.connect(peer)?;
        }
        let state = UdpSocketState::new((&inner).into())?;
        // As root beyond the limits of the machine, else up to them.
        if setsockopt(&inner, sockopt::RcvBufForce, &KERNEL_BUFFER).is_err() {
            state.set_recv_buffer_size((&inner).into(), KERNEL_BUFFER)?;
        }
        if setsockopt(&inner, sockopt::SndBufForce, &KERNEL_BUFFER).is_err() {
            state.set_send_buffer_size((&inner).into(), KERNEL_BUFFER)?;
        }
        Ok(Socket {
            inner,
            state,
            buffers: std::array::from_fn(|_| vec![0; BUFFER]),
            metas: [RecvMeta::default(); BUFFERS],
            connected: peer.is_some(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            too_large: None,
            observer: None,
            failed: None,
        })
    }

    /// Has every datagram from now on seen by `observer`.
    pub fn observe(&mut self, observer: Box<dyn Observer>) {
        self.observer = Some(observer);
    }

    /// Its address.
    ///
    /// # Errors
    /// The kernel's.
    pub fn local(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Takes over what one call to the kernel yields: how many trains, to be read by [`Socket::train`].
    ///
    /// # Errors
    /// The kernel's; for a socket with a peer also that its port is closed.
    pub fn receive(&mut self) -> io::Result<usize> {
        let mut slices = self.buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        match self.state.recv((&self.inner).into(), &mut slices, &mut self.metas) {
            Ok(count) => {
                self.show(count);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            // A peer's closed port says nothing to a socket that has many peers.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !self.connected => {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Shows the observer what was received.
    fn show(&mut self, count: usize) {
        let Some(mut observer) = self.observer.take() else { return };
        for index in 0..count {
            let Train { from, ecn, segment, data, .. } = self.train(index);
            for datagram in data.chunks(segment.max(1)) {
                observer.datagram(from, false, ecn, datagram);
            }
        }
        self.observer = Some(observer);
    }

    /// Number `index` of what was received last: datagrams of one size, the last maybe shorter.
    pub fn train(&self, index: usize) -> Train<'_> {
        let meta = &self.metas[index];
        let ecn = match meta.ecn {
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
            None => Ecn::NotEct,
        };
        let data = &self.buffers[index][..meta.len];
        Train { from: meta.addr, to: meta.dst_ip, ecn, segment: meta.stride, data }
    }

    /// Sends what waits; whether nothing is left.
    pub fn flush(&mut self) -> bool {
        while let Some(train) = self.backlog.pop_front() {
            let Waiting { to, from, ecn, segment, ref data } = train;
            if !self.send(Batch { to, from, ecn, segment, data }) {
                self.backlog.push_front(train);
                return false;
            }
            self.backlog_bytes -= train.data.len();
        }
        true
    }

    /// Whether datagrams wait for the kernel.
    pub fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Length of a datagram that the way out did not take, bytes.
    pub fn too_large(&self) -> Option<usize> {
        self.too_large
    }

    /// An error of sending that no later datagram will mend, once.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// One train; false: the kernel takes none now.
    fn send(&mut self, train: Batch<'_>) -> bool {
        let ecn = match train.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let transmit = Transmit {
            destination: train.to,
            ecn,
            contents: train.data,
            segment_size: Some(train.segment),
            src_ip: train.from,
        };
        match self.state.try_send((&self.inner).into(), &transmit) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if quinn_udp::is_msg_size_err(&error) => {
                self.too_large = Some(train.segment.min(train.data.len()));
                true
            }
            Err(error) => {
                // A lost datagram is QUIC's daily bread; a way that is not there is not.
                if self.connected {
                    self.failed = Some(error);
                }
                true
            }
        }
    }
}

impl Outlet for Socket {
    fn put(&mut self, batch: Batch<'_>) {
        if let Some(observer) = &mut self.observer {
            for datagram in batch.data.chunks(batch.segment) {
                observer.datagram(batch.to, true, batch.ecn, datagram);
            }
        }
        let segments = self.state.max_gso_segments().min(LARGEST_TRAIN / batch.segment).max(1);
        for data in batch.data.chunks(segments * batch.segment) {
            let train = Batch { data, ..batch };
            if self.backlog.is_empty() && self.send(train) {
                continue;
            }
            if self.backlog_bytes + data.len() <= BACKLOG {
                self.backlog_bytes += data.len();
                let Batch { to, from, ecn, segment, .. } = batch;
                self.backlog.push_back(Waiting { to, from, ecn, segment, data: data.to_vec() });
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
