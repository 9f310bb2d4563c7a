//! The boundary between a driver and a connection manager. The manager opens and accepts connections of several
//! transports and creates an application for each. It has no access to packets or sockets.

use units::Time;

use crate::quic::CloseReason;
use crate::{App, AppCommand, AppNotification};

/// Key of a connection of a connection manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionKey {
    /// Index of the interface: it has one transport, one set of options, and an address if it accepts connections.
    pub interface: usize,
    /// Number of the connection on that interface, from 0. Opened and accepted connections share one count.
    pub connection: u32,
}

/// Manages connections on its interfaces. Calls come in the order of time, and never from within another call.
pub trait ConnectionManager: Send {
    /// Returns the application for a connection that a peer has opened.
    fn on_accept(&mut self, now: Time, key: ConnectionKey) -> Box<dyn App>;
    /// Handles a notification from one of its applications ([`crate::Streams::notify`]).
    fn on_app_notification(&mut self, now: Time, key: ConnectionKey, notification: AppNotification);
    /// Handles the end of a connection. Its application got [`crate::AppEvent::Closed`] before, except over QUIC when
    /// this side ended the connection.
    fn on_close(&mut self, now: Time, key: ConnectionKey, reason: &CloseReason);
    /// Does the work that is due at `now`.
    fn poll(&mut self, now: Time, control: &mut dyn ConnectionControl);
    /// Returns the time of the next [`ConnectionManager::poll`], or [`Time::MAX`]. Called after every other call.
    fn poll_at(&mut self) -> Time;
}

/// Control of connections by a connection manager.
pub trait ConnectionControl {
    /// Opens a connection to `peer`, in the address format of the interface.
    ///
    /// # Errors
    /// The reason why none can be opened, in words.
    fn connect(
        &mut self,
        interface: usize,
        peer: &str,
        app: Box<dyn App>,
    ) -> Result<ConnectionKey, String>;
    /// Sends a command to the application of a live connection ([`App::on_command`]), which then runs.
    fn send_command(&mut self, key: ConnectionKey, command: AppCommand);
    /// Ends a live connection at once. Data may still be unacknowledged.
    fn abort(&mut self, key: ConnectionKey);
}
