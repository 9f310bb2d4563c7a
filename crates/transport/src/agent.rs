//! The boundary between a driver of connections and whoever has many of them, of several transports: it dials, it accepts,
//! and an application of its making runs on each. It knows no packets and no sockets.

use units::Time;

use crate::quic::End;
use crate::{App, Notice, Order};

/// A connection of an agent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    /// At which of its ends: one has one transport, one set of options, and an address if it answers.
    pub end: usize,
    /// Which of that end's connections, from 0; those it has dialled and those it has accepted are counted as one.
    pub connection: u32,
}

/// Has connections at its ends. Calls come in the order of time, and never from within another.
pub trait Agent: Send {
    /// A peer has opened a connection: its application.
    fn accept(&mut self, now: Time, handle: Handle) -> Box<dyn App>;
    /// An application of its own has said something ([`crate::Streams::say`]).
    fn hear(&mut self, now: Time, handle: Handle, notice: Notice);
    /// A connection is over. Its application was told before ([`crate::AppEvent::Closed`]), but over QUIC not where this side
    /// has ended it.
    fn ended(&mut self, now: Time, handle: Handle, end: &End);
    /// Does what is due at `now`.
    fn wake(&mut self, now: Time, lines: &mut dyn Lines);
    /// When [`Agent::wake`] is due; [`Time::MAX`]: never. It is asked after every other call.
    fn wake_at(&mut self) -> Time;
}

/// What an agent may do with connections.
pub trait Lines {
    /// Opens a connection to `peer`, written as its end has addresses.
    ///
    /// # Errors
    /// Why none can be opened, in words.
    fn dial(&mut self, end: usize, peer: &str, app: Box<dyn App>) -> Result<Handle, String>;
    /// Says something to the application of a connection ([`App::hear`]), which has its turn then, if it has not ended.
    fn say(&mut self, handle: Handle, order: Order);
    /// Ends a connection at once, whatever is unacknowledged, if it has not ended.
    fn abort(&mut self, handle: Handle);
}
