//! What a node and the applications on its connections tell each other. Transports hand it on and do not look into it.

use std::collections::VecDeque;

/// From the node to an application; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ask the peer for an object.
    Ask(u32),
    /// Forget what was to be asked for and has not been.
    Forget,
    /// Forget it, and close the connection.
    Close,
    /// Look into what both of you share: there is something new.
    Attend,
}

impl Order {
    /// What is to be asked for after it.
    pub(crate) fn enter(self, requests: &mut VecDeque<u32>) {
        match self {
            Order::Ask(object) => requests.push_back(object),
            Order::Forget | Order::Close => requests.clear(),
            Order::Attend => {}
        }
    }
}

/// From an application to its node; numbers are objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Requests may go.
    Ready,
    /// The peer has answered: its handshake, or data.
    Answered,
    /// A session ticket came.
    Ticket,
    /// A request was given to the transport.
    Sent(u32),
    /// First byte of a response.
    Response(u32),
    /// Bytes of its body.
    Body(u32, u64),
    /// Its last byte.
    End(u32),
    /// The connection is over.
    Closed,
    /// There is something new in what both of you share.
    Attend,
}
