//! A UDP socket with batched input and output. It carries the ECN field and the local address of each datagram.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use transport::quic::{DatagramBatch, DatagramSink};
use units::Ecn;

/// Receive buffers per call of the kernel.
const RECEIVE_BUFFERS: usize = 8;

/// The buffer length in bytes: enough for the largest datagram, or for a batch that the kernel has joined.
const RECEIVE_BUFFER_BYTES: usize = 1 << 16;

/// The maximum of bytes per sendmsg call: the payload of an IP packet with the largest headers.
const MAX_BATCH_BYTES: usize = 65_000;

/// The requested socket buffers in bytes: about 6 ms at 5 Gbit/s. The kernel gives less to an unprivileged user if
/// net.core.rmem_max is lower.
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// The maximum of queued bytes while the kernel accepts no more. Beyond it datagrams are dropped, as by any full queue.
const MAX_BACKLOG_BYTES: usize = 4 << 20;

/// Datagrams of one peer that the kernel delivered together.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedBatch<'a> {
    /// The address of the peer.
    pub peer: SocketAddr,
    /// The local address.
    pub local_ip: Option<IpAddr>,
    /// The ECN field.
    pub ecn: Ecn,
    /// The length in bytes of each datagram except the last.
    pub segment_size: usize,
    /// The payloads of the datagrams.
    pub data: &'a [u8],
}

/// A queued batch.
struct QueuedBatch {
    to: SocketAddr,
    from: Option<IpAddr>,
    ecn: Ecn,
    segment_size: usize,
    data: Vec<u8>,
}

/// An observer of all received and sent datagrams.
pub trait DatagramObserver: Send {
    /// Receives a datagram from `peer`, or to `peer` if `sent`.
    fn on_datagram(&mut self, peer: SocketAddr, sent: bool, ecn: Ecn, data: &[u8]);
}

/// A bound socket.
pub struct BatchedUdpSocket {
    inner: UdpSocket,
    state: UdpSocketState,
    buffers: [Vec<u8>; RECEIVE_BUFFERS],
    metas: [RecvMeta; RECEIVE_BUFFERS],
    connected: bool,
    backlog: VecDeque<QueuedBatch>,
    backlog_bytes: usize,
    /// The length of a datagram that exceeded the MTU (EMSGSIZE).
    too_large: Option<usize>,
    observer: Option<Box<dyn DatagramObserver>>,
    send_error: Option<io::Error>,
}

impl BatchedUdpSocket {
    /// Binds a socket to `local`. With `peer` the socket receives only from the peer and detects its closed port.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn bind(local: SocketAddr, peer: Option<SocketAddr>) -> io::Result<BatchedUdpSocket> {
        let inner = UdpSocket::bind(local)?;
        if let Some(peer) = peer {
            inner.connect(peer)?;
        }
        let state = UdpSocketState::new((&inner).into())?;
        // Root exceeds the limits of the machine; other users are limited by them.
        if setsockopt(&inner, sockopt::RcvBufForce, &SOCKET_BUFFER_BYTES).is_err() {
            state.set_recv_buffer_size((&inner).into(), SOCKET_BUFFER_BYTES)?;
        }
        if setsockopt(&inner, sockopt::SndBufForce, &SOCKET_BUFFER_BYTES).is_err() {
            state.set_send_buffer_size((&inner).into(), SOCKET_BUFFER_BYTES)?;
        }
        Ok(BatchedUdpSocket {
            inner,
            state,
            buffers: std::array::from_fn(|_| vec![0; RECEIVE_BUFFER_BYTES]),
            metas: [RecvMeta::default(); RECEIVE_BUFFERS],
            connected: peer.is_some(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            too_large: None,
            observer: None,
            send_error: None,
        })
    }

    /// Sets the observer of all later datagrams.
    pub fn set_observer(&mut self, observer: Box<dyn DatagramObserver>) {
        self.observer = Some(observer);
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// Receives with one call of the kernel. Returns the number of batches for [`BatchedUdpSocket::received_batch`].
    ///
    /// # Errors
    /// An error of the kernel; for a socket with a peer also the peer's closed port.
    pub fn receive(&mut self) -> io::Result<usize> {
        let mut slices = self.buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        match self.state.recv((&self.inner).into(), &mut slices, &mut self.metas) {
            Ok(count) => {
                self.notify_observer(count);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            // The closed port of one peer does not concern a socket with many peers.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && !self.connected => {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Passes the received datagrams to the observer.
    fn notify_observer(&mut self, count: usize) {
        let Some(mut observer) = self.observer.take() else { return };
        for index in 0..count {
            let ReceivedBatch { peer: from, ecn, segment_size: segment, data, .. } =
                self.received_batch(index);
            for datagram in data.chunks(segment.max(1)) {
                observer.on_datagram(from, false, ecn, datagram);
            }
        }
        self.observer = Some(observer);
    }

    /// Returns batch `index` of the last receive call: datagrams of one size, the last can be shorter.
    pub fn received_batch(&self, index: usize) -> ReceivedBatch<'_> {
        let meta = &self.metas[index];
        let ecn = match meta.ecn {
            Some(EcnCodepoint::Ect0) => Ecn::Ect0,
            Some(EcnCodepoint::Ect1) => Ecn::Ect1,
            Some(EcnCodepoint::Ce) => Ecn::Ce,
            None => Ecn::NotEct,
        };
        let data = &self.buffers[index][..meta.len];
        ReceivedBatch {
            peer: meta.addr,
            local_ip: meta.dst_ip,
            ecn,
            segment_size: meta.stride,
            data,
        }
    }

    /// Sends the queued batches. Returns whether the queue is empty.
    pub fn flush(&mut self) -> bool {
        while let Some(train) = self.backlog.pop_front() {
            let QueuedBatch { to, from, ecn, segment_size: segment, ref data } = train;
            if !self.send(DatagramBatch {
                destination: to,
                src_ip: from,
                ecn,
                segment_size: segment,
                data,
            }) {
                self.backlog.push_front(train);
                return false;
            }
            self.backlog_bytes -= train.data.len();
        }
        true
    }

    /// Returns whether datagrams are queued for the kernel.
    pub fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Returns the length in bytes of a datagram that exceeded the MTU.
    pub fn too_large(&self) -> Option<usize> {
        self.too_large
    }

    /// Takes a permanent send error.
    pub fn take_error(&mut self) -> Option<io::Error> {
        self.send_error.take()
    }

    /// Sends one batch. Returns false if the kernel accepts none now.
    fn send(&mut self, train: DatagramBatch<'_>) -> bool {
        let ecn = match train.ecn {
            Ecn::NotEct => None,
            Ecn::Ect0 => Some(EcnCodepoint::Ect0),
            Ecn::Ect1 => Some(EcnCodepoint::Ect1),
            Ecn::Ce => Some(EcnCodepoint::Ce),
        };
        let transmit = Transmit {
            destination: train.destination,
            ecn,
            contents: train.data,
            segment_size: Some(train.segment_size),
            src_ip: train.src_ip,
        };
        match self.state.try_send((&self.inner).into(), &transmit) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) if quinn_udp::is_msg_size_err(&error) => {
                self.too_large = Some(train.segment_size.min(train.data.len()));
                true
            }
            Err(error) => {
                // QUIC recovers a lost datagram, but a connected socket has to report a missing route.
                if self.connected {
                    self.send_error = Some(error);
                }
                true
            }
        }
    }
}

impl DatagramSink for BatchedUdpSocket {
    fn send_batch(&mut self, batch: DatagramBatch<'_>) {
        if let Some(observer) = &mut self.observer {
            for datagram in batch.data.chunks(batch.segment_size) {
                observer.on_datagram(batch.destination, true, batch.ecn, datagram);
            }
        }
        let segments =
            self.state.max_gso_segments().min(MAX_BATCH_BYTES / batch.segment_size).max(1);
        for data in batch.data.chunks(segments * batch.segment_size) {
            let train = DatagramBatch { data, ..batch };
            if self.backlog.is_empty() && self.send(train) {
                continue;
            }
            if self.backlog_bytes + data.len() <= MAX_BACKLOG_BYTES {
                self.backlog_bytes += data.len();
                let DatagramBatch {
                    destination: to, src_ip: from, ecn, segment_size: segment, ..
                } = batch;
                self.backlog.push_back(QueuedBatch {
                    to,
                    from,
                    ecn,
                    segment_size: segment,
                    data: data.to_vec(),
                });
            }
        }
    }
}

impl AsFd for BatchedUdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}
