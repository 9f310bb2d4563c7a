//! The boundary between a bundle node and a convergence-layer adapter (CLA). A session carries whole, opaque bundles
//! over the streams of one connection.

use bytes::Bytes;
use transport::{AppEvent, Streams};
use units::{Rate, Span, Time};

/// The role of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that opened the connection.
    Active,
    /// The side that accepted the connection.
    Passive,
}

/// The delivery mode that a bundle requests from the CLA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryMode {
    /// The bundle arrives, or the session ends.
    #[default]
    Reliable,
    /// The bundle can be lost, and the sender is notified of the loss.
    Notified,
    /// The bundle can be lost without notification.
    Unreliable,
}

/// A bundle to transmit.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The transfer number of the node, unique in the session.
    pub id: u64,
    /// The bundle as a sequence of chunks, which the store can share.
    pub data: Vec<Bytes>,
    /// The requested delivery mode.
    pub mode: DeliveryMode,
    /// 0 bulk, 1 normal, 2 expedited.
    pub priority: u8,
}

impl Transfer {
    /// Returns the length of the bundle.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|part| part.len() as u64).sum()
    }
}

/// The reason for refusing a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// No reason is available.
    Unknown,
    /// The receiver already has the bundle.
    Completed,
    /// The store of the receiver is full at present.
    NoResources,
    /// The bundle exceeds the limit of the peer. Larger bundles need no attempt.
    TooLarge,
    /// The data is not a bundle, or not an acceptable one.
    NotAcceptable,
    /// An error interrupted the transfer, which can be repeated.
    Retransmit,
    /// The session is terminating.
    Terminating,
    /// The CLA or the connection does not support the requested delivery mode.
    UnsupportedMode,
}

/// The planned state of the link to the peer from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkState {
    /// Whether this side can send.
    pub can_send: bool,
    /// The planned rate, if any.
    pub rate: Option<Rate>,
    /// Whether the peer can send now. Its data arrives one OWLT later.
    pub can_receive: bool,
    /// The one-way light time to the peer.
    pub owlt_out: Span,
    /// The one-way light time from the peer.
    pub owlt_in: Span,
}

/// A command from the node to a session.
#[derive(Clone, Debug)]
pub enum SessionCommand {
    /// Transmits the bundle. It can precede [`SessionEvent::Established`]: the session queues the bundle until then.
    Send(Transfer),
    /// Cancels a transfer if possible; [`SessionEvent::Refused`] or [`SessionEvent::Acknowledged`] follows as usual.
    Cancel(u64),
    /// Confirms that the received bundle with this number is durable.
    ConfirmStored(u64),
    /// Refuses the received bundle with this number.
    Refuse(u64, RefusalReason),
    /// Signals that the link to the peer is up again.
    LinkUp,
    /// Updates the planned link state. Only sessions of CLAs that need it ([`crate::cla::ClaSpec::needs_link_state`])
    /// get this command, first when they start.
    LinkState(LinkState),
    /// Terminates after all transfers are answered. The peer can start no further transfer.
    Terminate,
    /// Terminates the session at once. Open transfers get no answer.
    Abort,
}

/// An event from a session to its node.
#[derive(Clone, Debug)]
pub enum SessionEvent {
    /// The session is established: the peer has identified itself as far as the CLA supports it.
    Established {
        /// The node ID of the peer as an EID, if the CLA transmits it.
        peer: Option<String>,
        /// The largest bundle that the peer accepts, if announced.
        max_bundle_bytes: Option<u64>,
    },
    /// The transport has accepted all bytes of the transfer.
    Transmitted(u64),
    /// The transfer was accepted. This is the last event of the transfer.
    Acknowledged {
        /// The transfer number of the node.
        id: u64,
        /// Whether the peer confirmed durability. Otherwise the transport acknowledged the bytes, or the CLA only
        /// requires that they are sent.
        durable: bool,
    },
    /// The transfer was refused or lost. This is the last event of the transfer.
    Refused {
        /// The transfer number of the node.
        id: u64,
        /// The reason.
        reason: RefusalReason,
    },
    /// A whole bundle was received.
    Received {
        /// The number of the bundle, for [`SessionCommand::ConfirmStored`] or [`SessionCommand::Refuse`].
        id: u64,
        /// The bundle as a sequence of chunks.
        data: Vec<Bytes>,
        /// The delivery mode.
        mode: DeliveryMode,
    },
    /// The session is closed, and its connection closes too. The outcome of unanswered transfers is unknown. This is
    /// the last event.
    Closed {
        /// The error, if any.
        error: Option<String>,
    },
}

/// One side of a CLA session on one connection. Calls have non-decreasing times. The session appends its events to
/// `out`.
pub trait Session: Send {
    /// Handles an event of the connection; [`AppEvent::Timer`] is due at [`Session::poll_at`].
    fn on_event(
        &mut self,
        now: Time,
        event: AppEvent,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    );
    /// Handles a command of the node.
    fn on_command(
        &mut self,
        now: Time,
        command: SessionCommand,
        streams: &mut dyn Streams,
        out: &mut Vec<SessionEvent>,
    );
    /// Returns the next deadline for [`AppEvent::Timer`]; [`Time::MAX`] means no deadline.
    fn poll_at(&self) -> Time;
    /// Returns whether the session has data to write at [`AppEvent::Writable`].
    fn has_data(&self) -> bool;
}
