//! Bytes of an application over a socket: plain or in TLS.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};

use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, ServerConnection};

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The number of bytes read.
    Data(usize),
    /// No bytes are available now.
    WouldBlock,
    /// The peer has finished.
    Eof,
}

/// The encoding of a byte stream on the socket.
pub enum ByteStream {
    /// Plain bytes.
    Plain,
    /// TLS as a client.
    TlsClient(Box<ClientConnection>),
    /// TLS as a server.
    TlsServer(Box<ServerConnection>),
}

/// The same call on either side of TLS.
macro_rules! tls {
    ($stream:expr, $plain:expr, $inner:ident => $do:expr) => {
        match $stream {
            ByteStream::Plain => $plain,
            ByteStream::TlsClient($inner) => $do,
            ByteStream::TlsServer($inner) => $do,
        }
    };
}

fn blocked<T>(error: io::Error, then: T) -> io::Result<T> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(then),
        _ => Err(error),
    }
}

impl ByteStream {
    /// Returns `tcp` or `tls`.
    pub fn name(&self) -> &'static str {
        tls!(self, "tcp", _inner => "tls")
    }

    /// Returns whether the TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        tls!(self, false, inner => inner.is_handshaking())
    }

    /// Returns the certificate that the peer presented.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        tls!(self, None, inner => inner.peer_certificates()?.first())
    }

    /// Returns the negotiated ALPN.
    pub fn alpn(&self) -> Option<String> {
        let found = tls!(self, None, inner => inner.alpn_protocol());
        found.map(|alpn| String::from_utf8_lossy(alpn).into_owned())
    }

    /// Processes received TLS handshake messages. Fails if the peer closes before the handshake is complete.
    ///
    /// # Errors
    /// An error of the socket, or the text of a TLS error (of kind `InvalidData`).
    pub fn handshake(&mut self, socket: &mut TcpStream) -> io::Result<()> {
        let result = tls!(self, Ok(()), inner => {
            match inner.read_tls(socket) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => match inner.process_new_packets() {
                    Ok(_) => Ok(()),
                    Err(error) => Err(io::Error::new(ErrorKind::InvalidData, error)),
                },
                Err(error) => blocked(error, ()),
            }
        });
        // Also after an error: sends the alert to the peer.
        let sent = self.flush(socket);
        result?;
        sent.map(|_| ())
    }

    /// Passes bytes and the offset of the first to `take` until the counter `received` reaches `until` or no bytes are
    /// available. Returns [`ReadOutcome::Data`] if more bytes can be available.
    pub fn read_until(
        &mut self,
        socket: &mut TcpStream,
        buffer: &mut [u8],
        received: &mut u64,
        until: u64,
        take: &mut dyn FnMut(u64, &[u8]),
    ) -> io::Result<ReadOutcome> {
        while *received < until {
            match self.read(socket, buffer)? {
                ReadOutcome::Data(count) => {
                    take(*received, &buffer[..count]);
                    *received += count as u64;
                }
                other => return Ok(other),
            }
        }
        Ok(ReadOutcome::Data(0))
    }

    /// Reads into `buffer`.
    ///
    /// # Errors
    /// An error of the socket or of TLS.
    pub fn read(&mut self, socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<ReadOutcome> {
        if let ByteStream::Plain = self {
            return match socket.read(buffer) {
                Ok(0) => Ok(ReadOutcome::Eof),
                Ok(count) => Ok(ReadOutcome::Data(count)),
                Err(error) => blocked(error, ReadOutcome::WouldBlock),
            };
        }
        loop {
            let read =
                tls!(self, unreachable!("plain is above"), inner => inner.reader().read(buffer));
            match read {
                Ok(0) => return Ok(ReadOutcome::Eof),
                Ok(count) => return Ok(ReadOutcome::Data(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // TCP ended without close_notify of TLS (RFC 8446 section 6.1).
                Err(error) => return Err(error),
            }
            let received =
                tls!(self, unreachable!("plain is above"), inner => inner.read_tls(socket));
            match received {
                Ok(_) => {
                    let done = tls!(self, unreachable!("plain is above"), inner => {
                        inner.process_new_packets()
                    });
                    if let Err(error) = done {
                        let _ = self.flush(socket);
                        return Err(io::Error::new(ErrorKind::InvalidData, error));
                    }
                }
                Err(error) => return blocked(error, ReadOutcome::WouldBlock),
            }
        }
    }

    /// Writes bytes. Returns the number of accepted bytes.
    ///
    /// # Errors
    /// An error of the socket.
    pub fn write(&mut self, socket: &mut TcpStream, data: &[u8]) -> io::Result<usize> {
        if let ByteStream::Plain = self {
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

    /// Sends the bytes that TLS has buffered. Returns whether the buffer is empty.
    ///
    /// # Errors
    /// An error of the socket.
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

    /// Returns whether bytes wait for the socket.
    pub fn is_blocked(&self) -> bool {
        tls!(self, false, inner => inner.wants_write())
    }

    /// Finishes the sending direction: first TLS, then TCP. Returns whether the FIN is queued.
    ///
    /// # Errors
    /// An error of the socket.
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
