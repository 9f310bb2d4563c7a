//! The boundary between a bundle node and a convergence layer: a session carries whole bundles over the streams of one
//! connection and does not look into them.

use bytes::Bytes;
use transport::{AppEvent, Streams};
use units::{Rate, Span, Time};

/// Which side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It opened the connection.
    Active,
    /// It accepted it.
    Passive,
}

/// What a bundle may ask of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// It arrives, or the session ends.
    #[default]
    Reliable,
    /// It may be lost, and the sender learns whether it was.
    Notified,
    /// It may be lost.
    Unreliable,
}

/// A bundle to carry.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The node's number of it, of which a session uses each once.
    pub id: u64,
    /// Its bytes in order, in parts that are shared with whoever stores them.
    pub data: Vec<Bytes>,
    /// What it asks for.
    pub service: Service,
    /// 0 bulk, 1 normal, 2 expedited.
    pub priority: u8,
}

impl Transfer {
    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.data.iter().map(|part| part.len() as u64).sum()
    }
}

/// Why a bundle is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No reason is given.
    Unknown,
    /// The receiver has it.
    Completed,
    /// The receiver's store is full, for now.
    NoResources,
    /// It is larger than the peer takes: what is larger than that need not be tried again.
    TooLarge,
    /// It is no bundle, or none that the receiver wants.
    NotAcceptable,
    /// It was cut short by an error and may be sent again.
    Retransmit,
    /// The session ends.
    Terminating,
    /// The layer or the connection has not the service that it asks for.
    NoService,
}

/// What the plan says of the way to the peer from now on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// Whether this side may send.
    pub sends: bool,
    /// At which rate, where that is planned.
    pub rate: Option<Rate>,
    /// Whether the peer may send now, by its own clock: what it sends is here a light time later.
    pub hears: bool,
    /// Light to the peer.
    pub there: Span,
    /// Light from it.
    pub back: Span,
}

/// From the node to a session.
#[derive(Clone, Debug)]
pub enum Told {
    /// Carry this. Before [`Said::Started`] too: what a layer may not send yet it keeps.
    Send(Transfer),
    /// Do not carry it on if that is still possible; [`Said::Refused`] or [`Said::Accepted`] comes as it would.
    Cancel(u64),
    /// The bundle received under this number is durable.
    Stored(u64),
    /// The bundle received under this number is not taken.
    Refuse(u64, Refusal),
    /// The way to the peer is there again after a time without one.
    Cue,
    /// What the plan says of the way has changed: to sessions of layers that ask for it
    /// ([`crate::layers::LayerSpec::goes_by_plan`]), first when they begin.
    Way(Way),
    /// End when what was given has its answer, and take no more from the peer than it has begun.
    End,
    /// End now: what has no answer has none.
    Abort,
}

/// From a session to its node.
#[derive(Clone, Debug)]
pub enum Said {
    /// The peer has said who it is, or all that the layer lets it say.
    Started {
        /// The peer's node id as an EID; none where the layer has no word for it.
        peer: Option<String>,
        /// The largest bundle that the peer takes, where it says so.
        most_bytes: Option<u64>,
    },
    /// All bytes of a transfer were given to the transport.
    Sent(u64),
    /// The transfer of this number has been taken; the last that is said of it.
    Accepted {
        /// The node's number of it.
        id: u64,
        /// The peer says that it is durable; else the stack has an acknowledgement of its bytes, or the layer asks for
        /// no more than that they have left.
        durable: bool,
    },
    /// The transfer of this number was not taken, or was lost; the last that is said of it.
    Refused {
        /// The node's number of it.
        id: u64,
        /// Why.
        why: Refusal,
    },
    /// A whole bundle has come.
    Received {
        /// The session's number of it, for [`Told::Stored`] or [`Told::Refuse`], one of which the node answers.
        id: u64,
        /// Its bytes in order, in parts.
        data: Vec<Bytes>,
        /// By which service.
        service: Service,
    },
    /// The session is over, as is its connection or soon will be. Of transfers without an answer it is not known what became
    /// of them. Nothing is said after it.
    Ended {
        /// What went wrong, if anything did.
        error: Option<String>,
    },
}

/// One side of a convergence layer on one connection. Calls come in the order of time; what it has to say it pushes to
/// `said`, in order.
pub trait Session: Send {
    /// Something happened on the connection at `now`; [`AppEvent::Timer`] at [`Session::wake_at`].
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams, said: &mut Vec<Said>);
    /// The node says something.
    fn hear(&mut self, now: Time, told: Told, streams: &mut dyn Streams, said: &mut Vec<Said>);
    /// When it wants [`AppEvent::Timer`]; [`Time::MAX`]: never.
    fn wake_at(&self) -> Time;
    /// Whether it has data that it would write at [`AppEvent::WantData`].
    fn has_data(&self) -> bool;
}
