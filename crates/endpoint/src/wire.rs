//! Bytes of an application over a socket: as they are, or in TLS.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, ServerConnection};

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// So many bytes.
    Data(usize),
    /// None now.
    Blocked,
    /// None any more: the peer has finished.
    End,
}

/// How bytes travel.
pub enum Wire {
    /// As they are.
    Plain,
    /// In TLS, as a client.
    Client(Box<ClientConnection>),
    /// In TLS, as a server.
    Server(Box<ServerConnection>),
}

/// The same call of either side of TLS.
macro_rules! tls {
    ($wire:expr, $plain:expr, $inner:ident => $do:expr) => {
        match $wire {
            Wire::Plain => $plain,
            Wire::Client($inner) => $do,
            Wire::Server($inner) => $do,
        }
    };
}

fn blocked<T>(error: io::Error, then: T) -> io::Result<T> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(then),
        _ => Err(error),
    }
}

impl Wire {
    /// `tcp` or `tls`.
    pub fn name(&self) -> &'static str {
        tls!(self, "tcp", _inner => "tls")
    }

    /// Whether TLS's handshake is under way.
    pub fn is_handshaking(&self) -> bool {
        tls!(self, false, inner => inner.is_handshaking())
    }

    /// The certificate that the peer has shown.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        tls!(self, None, inner => inner.peer_certificates()?.first())
    }

    /// The ALPN agreed on.
    pub fn alpn(&self) -> Option<String> {
        let found = tls!(self, None, inner => inner.alpn_protocol());
        found.map(|alpn| String::from_utf8_lossy(alpn).into_owned())
    }

    /// Takes what has come for TLS alone: a handshake's messages. An error where the peer ends before it is done.
    ///
    /// # Errors
    /// The socket's, or TLS's in words (of kind `InvalidData`).
    pub fn handshake(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let came = tls!(self, Ok(()), inner => {
            match inner.read_tls(socket) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => match inner.process_new_packets() {
                    Ok(_) => Ok(()),
                    Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
                },
                Err(error) => blocked(error, ()),
            }
        });
        // Also after an error: the alert that tells the peer.
        let sent = self.flush(socket);
        came?;
        sent.map(|_| ())
    }

    /// Hands bytes to `take`, with the place of the first, until `received`, which counts them, has come to `until`
    /// ([`Read::Data`]: there may be more) or no more have come.
    pub fn read_until(
        &mut self,
        socket: &mut TcpStream,
        buffer: &mut [u8],
        received: &mut u64,
        until: u64,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> io::Result<Read> {
        while *received < until {
            match self.read(socket, buffer)? {
                Read::Data(count) => {
                    take(*received, &buffer[..count]);
                    *received += count as u64;
                }
                other => return Ok(other),
            }
        }
        Ok(Read::Data(0))
    }

    /// Reads into `buffer`.
    ///
    /// # Errors
    /// The socket's, or TLS's.
    pub fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Read> {
        if let Wire::Plain = self {
            return match socket.read(buffer) {
                Ok(0) => Ok(Read::End),
                Ok(count) => Ok(Read::Data(count)),
                Err(error) => blocked(error, Read::Blocked),
            };
        }
        loop {
            let read =
                tls!(self, unreachable!("plain is above"), inner => inner.reader().read(buffer));
            match read {
                Ok(0) => return Ok(Read::End),
                Ok(count) => return Ok(Read::Data(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The end of TCP without the end of TLS (RFC 8446 section 6.1).
                Err(error) => return Err(error),
            }
            let came = tls!(self, unreachable!("plain is above"), inner => inner.read_tls(socket));
            match came {
                Ok(_) => {
                    let done = tls!(self, unreachable!("plain is above"), inner => {
                        inner.process_new_packets()
                    });
                    if let Err(error) = done {
                        let _ = self.flush(socket);
                        return Err(io::Error::new(ErrorKind::InvalidData, error));
                    }
                }
                Err(error) => return blocked(error, Read::Blocked),
            }
        }
    }

    /// Gives bytes away: how many were taken.
    ///
    /// # Errors
    /// The socket's.
    pub fn write(&mut self, socket: &mut TcpStream, data: &[u8]) -> io::Result<usize> {
        if let Wire::Plain = self {
            return socket.write(data).or_else(|error| blocked(error, 0));
        }
        if !self.flush(socket)? {
            return Ok(0);
        }
        let taken =
            tls!(self, unreachable!("plain is above"), inner => inner.writer().write(data))?;
        self.flush(socket)?;
        Ok(taken)
    }

    /// Sends what TLS holds; whether nothing is left.
    ///
    /// # Errors
    /// The socket's.
    pub fn flush(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        while tls!(self, false, inner => inner.wants_write()) {
            let sent = tls!(self, Ok(0), inner => inner.write_tls(socket));
            match sent {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) => return blocked(error, false),
            }
        }
        Ok(true)
    }

    /// Whether bytes wait for the socket.
    pub fn is_blocked(&self) -> bool {
        tls!(self, false, inner => inner.wants_write())
    }

    /// The end of what this side sends: TLS's first, then TCP's; whether it is on its way.
    ///
    /// # Errors
    /// The socket's.
    pub fn finish(&mut self, socket: &mut TcpStream, first: bool) -> io::Result<bool> {
        if first {
            tls!(self, (), inner => inner.send_close_notify());
        }
        let flushed = self.flush(socket)?;
        if flushed {
            socket.shutdown(Shutdown::Write)?;
        }
        Ok(flushed)
    }
}
