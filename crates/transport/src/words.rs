//! Messages between a node and the applications on its connections. Transports forward them unread.

use std::collections::VecDeque;

/// Commands from a node to an application; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppCommand {
    /// Request an object from the peer.
    Request(u32),
    /// Cancel the queued requests that were not sent.
    CancelQueued,
    /// Cancel the queued requests, and close the connection.
    Close,
    /// Check the mailbox that node and application share: it has new content.
    CheckMailbox,
}

impl AppCommand {
    /// Applies the command to the queue of requests.
    pub(crate) fn update_queue(self, requests: &mut VecDeque<u32>) {
        match self {
            AppCommand::Request(object) => requests.push_back(object),
            AppCommand::CancelQueued | AppCommand::Close => requests.clear(),
            AppCommand::CheckMailbox => {}
        }
    }
}

/// Notifications from an application to its node; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppNotification {
    /// Requests are allowed.
    Ready,
    /// The peer has responded, by its handshake or by data.
    PeerResponded,
    /// A session ticket has arrived.
    SessionTicket,
    /// A request was given to the transport.
    RequestSent(u32),
    /// The first byte of a response has arrived.
    ResponseStarted(u32),
    /// Bytes of a response's body have arrived.
    BodyData(u32, u64),
    /// The last byte of a response has arrived.
    ResponseComplete(u32),
    /// The connection has ended.
    Closed,
    /// The mailbox that node and application share has new content.
    CheckMailbox,
}
