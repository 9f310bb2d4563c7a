//! Requirements of applications for a connection beyond bidirectional streams.

/// Parameters that are agreed on when a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicRequirements {
    /// Unidirectional streams that the peer may have open at once.
    pub max_uni_streams: u16,
    /// Limit of open bidirectional streams of the peer. `None`: few for the server of a client, 1,024 for the client of
    /// a server.
    pub max_bidi_streams: Option<u32>,
    /// Enables datagrams (RFC 9221), with this limit of waiting bytes, queue entries included. The limit of received
    /// ones is the same, or 64 KiB if that is larger, as the largest needs it. `None` disables datagrams.
    ///
    /// Between real hosts the handshake then has no datagrams. In virtual time it allows them, as the stack does by
    /// default: results depend on the size of the handshake.
    pub datagram_buffer_bytes: Option<u32>,
}

impl Default for QuicRequirements {
    /// The stack's default number of streams, and no datagrams.
    fn default() -> QuicRequirements {
        QuicRequirements {
            max_uni_streams: 100,
            max_bidi_streams: None,
            datagram_buffer_bytes: None,
        }
    }
}
