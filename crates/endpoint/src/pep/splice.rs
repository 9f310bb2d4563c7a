//! One connection in two pieces: two sockets, and for each direction a bounded buffer between them.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Most that one direction moves before others have their turn.
const TURN: usize = 1 << 20;

/// An emptied buffer above this size is given back.
const KEPT: usize = 64 << 10;

/// One of the two sockets; none while it is awaited.
#[derive(Debug, Default)]
pub struct End {
    /// The socket.
    pub stream: Option<TcpStream>,
    /// Its handshake is done.
    pub up: bool,
    /// A read may bring something.
    pub readable: bool,
    /// A write may take something.
    pub writable: bool,
}

impl End {
    /// A socket whose handshake is done.
    pub fn connected(stream: TcpStream) -> End {
        End { stream: Some(stream), up: true, readable: true, writable: true }
    }

    /// A socket that is connecting.
    pub fn connecting(stream: TcpStream) -> End {
        End { stream: Some(stream), ..End::default() }
    }
}

/// What one socket has received and the other has not taken.
#[derive(Debug, Default)]
pub struct Pipe {
    waiting: VecDeque<u8>,
    /// The sender has ended.
    ended: bool,
    /// The end has been passed on.
    passed: bool,
}

impl Pipe {
    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Puts bytes behind those that wait.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend(bytes);
    }

    /// Whether everything, the end included, has been passed on.
    pub fn is_done(&self) -> bool {
        self.passed
    }

    /// Hands over what waits; whether nothing waits any more.
    fn flush(&mut self, to: &mut End) -> io::Result<bool> {
        let (Some(stream), true) = (&to.stream, to.up) else { return Ok(self.waiting.is_empty()) };
        let mut stream: &TcpStream = stream;
        while to.writable && !self.waiting.is_empty() {
            match stream.write(self.waiting.as_slices().0) {
                Ok(taken) => drop(self.waiting.drain(..taken)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => to.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.waiting.is_empty() && self.waiting.capacity() > KEPT {
            self.waiting = VecDeque::new();
        }
        Ok(self.waiting.is_empty())
    }

    /// Passes on what `from` has received and its end, holding at most `bound` bytes; whether there is
    /// more to do at once.
    ///
    /// # Errors
    /// One of the sockets is broken.
    pub fn pass(
        &mut self,
        from: &mut End,
        to: &mut End,
        bound: usize,
        scratch: &mut [u8],
    ) -> io::Result<bool> {
        if self.passed {
            return Ok(false);
        }
        let mut left = TURN;
        self.flush(to)?;
        while from.up && from.readable && !self.ended && left > 0 {
            let Some(mut stream) = from.stream.as_ref() else { break };
            let room = bound.saturating_sub(self.waiting.len()).min(scratch.len());
            if room == 0 {
                break;
            }
            match stream.read(&mut scratch[..room]) {
                Ok(0) => self.ended = true,
                Ok(got) => {
                    left = left.saturating_sub(got);
                    self.hand_over(&scratch[..got], to)?;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => from.readable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if self.ended
            && self.waiting.is_empty()
            && to.up
            && let Some(stream) = &to.stream
        {
            self.passed = true;
            stream.shutdown(Shutdown::Write)?;
        }
        Ok(left == 0)
    }

    /// Writes bytes; what is not taken waits.
    fn hand_over(&mut self, bytes: &[u8], to: &mut End) -> io::Result<()> {
        let mut rest = bytes;
        if self.waiting.is_empty()
            && to.up
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
        self.waiting.extend(rest);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// A connection over loopback: the proxy's end, which does not block, and the other.
    fn pair() -> (End, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (own, _) = listener.accept().unwrap();
        own.set_nonblocking(true).unwrap();
        (End::connected(own), other)
    }

    #[test]
    fn a_reader_that_stalls_bounds_what_is_held_and_loses_nothing() {
        const BOUND: usize = 100_000;
        const ALL: usize = 30_000_000;
        let (mut from, sender) = pair();
        let (mut to, mut reader) = pair();
        let sending = std::thread::spawn(move || {
            let mut sender = sender;
            let bytes: Vec<u8> = (0..ALL).map(|n| (n % 251) as u8).collect();
            sender.write_all(&bytes).unwrap();
        });
        let (mut pipe, mut scratch, mut most) = (Pipe::default(), vec![0; 65_536], 0);
        let mut turn = |pipe: &mut Pipe| {
            (from.readable, to.writable) = (true, true);
            pipe.pass(&mut from, &mut to, BOUND, &mut scratch).unwrap();
            most = most.max(pipe.waiting());
        };
        // Until the sockets of the stalled reader are full as well.
        let mut still = 0;
        while still < 200 {
            let before = pipe.waiting();
            turn(&mut pipe);
            still = if pipe.waiting() == BOUND && before == BOUND { still + 1 } else { 0 };
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
        assert_eq!((got, most), (ALL, BOUND));
        assert!(pipe.is_done());
    }
}
