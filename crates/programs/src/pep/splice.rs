//! One split connection: two sockets, and one bounded buffer per direction.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// The maximum of bytes per direction before other connections continue.
const MAX_BYTES_PER_TRANSFER: usize = 1 << 20;

/// The capacity in bytes above which an empty buffer is freed.
const MAX_IDLE_CAPACITY: usize = 64 << 10;

/// One of the two sockets.
#[derive(Debug, Default)]
pub struct SpliceSocket {
    /// The socket, `None` before it exists.
    pub stream: Option<TcpStream>,
    /// The handshake is complete.
    pub is_connected: bool,
    /// A read can return data.
    pub readable: bool,
    /// A write can accept data.
    pub writable: bool,
}

impl SpliceSocket {
    /// Creates the side of a socket with a complete handshake.
    pub fn connected(stream: TcpStream) -> SpliceSocket {
        SpliceSocket { stream: Some(stream), is_connected: true, readable: true, writable: true }
    }

    /// Creates the side of a connecting socket.
    pub fn connecting(stream: TcpStream) -> SpliceSocket {
        SpliceSocket { stream: Some(stream), ..SpliceSocket::default() }
    }
}

/// Data received by one socket and not yet accepted by the other.
#[derive(Debug, Default)]
pub struct SpliceBuffer {
    buffered: VecDeque<u8>,
    /// The sender has finished.
    is_read_closed: bool,
    /// The FIN was forwarded.
    fin_sent: bool,
}

impl SpliceBuffer {
    /// Returns the number of buffered bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.buffered.len()
    }

    /// Appends bytes to the buffer.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffered.extend(bytes);
    }

    /// Returns whether all data and the FIN were forwarded.
    pub fn is_done(&self) -> bool {
        self.fin_sent
    }

    /// Writes the buffered bytes. Returns whether the buffer is empty.
    fn flush(&mut self, to: &mut SpliceSocket) -> io::Result<bool> {
        let (Some(stream), true) = (&to.stream, to.is_connected) else {
            return Ok(self.buffered.is_empty());
        };
        let mut stream: &TcpStream = stream;
        while to.writable && !self.buffered.is_empty() {
            match stream.write(self.buffered.as_slices().0) {
                Ok(taken) => drop(self.buffered.drain(..taken)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => to.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.buffered.is_empty() && self.buffered.capacity() > MAX_IDLE_CAPACITY {
            self.buffered = VecDeque::new();
        }
        Ok(self.buffered.is_empty())
    }

    /// Forwards data and FIN of `from` to `to`, with at most `bound` buffered bytes. Returns whether more can be done
    /// now.
    ///
    /// # Errors
    /// One of the sockets has failed.
    pub fn transfer(
        &mut self,
        from: &mut SpliceSocket,
        to: &mut SpliceSocket,
        bound: usize,
        scratch: &mut [u8],
    ) -> io::Result<bool> {
        if self.fin_sent {
            return Ok(false);
        }
        let mut left = MAX_BYTES_PER_TRANSFER;
        self.flush(to)?;
        while from.is_connected && from.readable && !self.is_read_closed && left > 0 {
            let Some(mut stream) = from.stream.as_ref() else { break };
            let free_bytes = bound.saturating_sub(self.buffered.len()).min(scratch.len());
            if free_bytes == 0 {
                break;
            }
            match stream.read(&mut scratch[..free_bytes]) {
                Ok(0) => self.is_read_closed = true,
                Ok(got) => {
                    left = left.saturating_sub(got);
                    self.write_or_buffer(&scratch[..got], to)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => from.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.is_read_closed
            && self.buffered.is_empty()
            && to.is_connected
            && let Some(stream) = &to.stream
        {
            self.fin_sent = true;
            stream.shutdown(Shutdown::Write)?;
        }
        Ok(left == 0)
    }

    /// Writes bytes and buffers the rest.
    fn write_or_buffer(&mut self, bytes: &[u8], to: &mut SpliceSocket) -> io::Result<()> {
        let mut rest = bytes;
        if self.buffered.is_empty()
            && to.is_connected
            && let Some(mut stream) = to.stream.as_ref()
        {
            while to.writable && !rest.is_empty() {
                match stream.write(rest) {
                    Ok(taken) => rest = &rest[taken..],
                    Err(error) if error.kind() == ErrorKind::WouldBlock => to.writable = false,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.buffered.extend(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A loopback connection: the non-blocking socket of the proxy, and its peer.
    fn pair() -> (SpliceSocket, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        (SpliceSocket::connected(accepted), other)
    }

    #[test]
    fn a_stalled_reader_bounds_the_buffer_and_loses_no_data() {
        const BOUND: usize = 100_000;
        const ALL: usize = 30_000_000;
        let (mut from, sender) = pair();
        let (mut to, mut reader) = pair();
        let sending = std::thread::spawn(move || {
            let mut sender = sender;
            let bytes: Vec<u8> = (0..ALL).map(|n| (n % 251) as u8).collect();
            sender.write_all(&bytes).unwrap();
        });
        let (mut pipe, mut scratch, mut max_buffered) =
            (SpliceBuffer::default(), vec![0; 65_536], 0);
        let mut turn = |pipe: &mut SpliceBuffer| {
            (from.readable, to.writable) = (true, true);
            pipe.transfer(&mut from, &mut to, BOUND, &mut scratch).unwrap();
            max_buffered = max_buffered.max(pipe.buffered_bytes());
        };
        // Until the socket buffers of the stalled reader are full as well.
        let mut still = 0;
        while still < 200 {
            let before = pipe.buffered_bytes();
            turn(&mut pipe);
            still = if pipe.buffered_bytes() == BOUND && before == BOUND { still + 1 } else { 0 };
        }
        reader.set_nonblocking(true).unwrap();
        let (mut got, mut buffer) = (0, vec![0; 1 << 20]);
        loop {
            turn(&mut pipe);
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let right = |(n, byte): (usize, &u8)| *byte == ((got + n) % 251) as u8;
                    assert!(buffer[..length].iter().enumerate().all(right));
                    got += length;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        sending.join().unwrap();
        assert_eq!((got, max_buffered), (ALL, BOUND));
        assert!(pipe.is_done());
    }
}
