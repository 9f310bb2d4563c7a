//! What applications need of a connection beyond bidirectional streams.

/// What is agreed on when a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Unidirectional streams that the peer may have open at once.
    pub uni_streams: u16,
    /// Bidirectional streams that the peer may have open at once; none: a client lets a server have few, a server a client
    /// 1,024.
    pub bidi_streams: Option<u32>,
    /// Datagrams (RFC 9221) may come and go, and at most so many bytes of them wait to leave, places in the queue
    /// included; of those that have come as many, or 64 KiB, which the largest takes. None: there are none.
    ///
    /// Between real hosts nothing is said of datagrams then. In virtual time the handshake says that they may come, as
    /// the stack has it by default: results rest on the handshake's size.
    pub datagram_bytes: Option<u32>,
}

impl Default for Needs {
    /// The stack's own number of streams, and no datagrams.
    fn default() -> Needs {
        Needs { uni_streams: 100, bidi_streams: None, datagram_bytes: None }
    }
}
