//! What a direction asks of the world around it, and the world of TUN devices.

use std::io::{self, PipeReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use tun_rs::SyncDevice;
use units::{Span, Time};

use crate::calibration::Calibration;
use crate::clock::{self, Clock};
use crate::port::{Pieces, Port, Read, Reader};

/// Longest sleep, so that a stop is noticed.
const NAP: Span = Span(50_000_000);

/// What [`Io::receive`] found.
pub(crate) enum Received<'a> {
    /// Packets, and when they came. Instants never run backwards.
    Packets(Time, Pieces<'a>),
    /// A frame that cannot be cut, and when it came: it is gone.
    Refused(Time),
    /// Everything that came by this instant has been received.
    Nothing(Time),
}

/// Packets in, packets out, and a clock to wait by. A parameter of the loop, so that it is compiled for each.
pub(crate) trait Io {
    /// The time.
    fn now(&self) -> Time;

    /// Bytes, all 0, that stand before a packet to be sent.
    fn headroom(&self) -> usize;

    /// What came next.
    ///
    /// # Errors
    /// The device is gone.
    fn receive(&mut self) -> io::Result<Received<'_>>;

    /// Sends a packet, which is due at `due`, behind its headroom.
    ///
    /// # Errors
    /// The packet was not taken.
    fn send(&mut self, due: Time, packet: &[u8]) -> io::Result<()>;

    /// Waits for a packet, but not beyond `due`; it may end early.
    ///
    /// # Errors
    /// The device is gone.
    fn wait(&mut self, due: Time) -> io::Result<()>;
}

/// The real clock between two TUN devices.
pub(crate) struct Tuns {
    from: Arc<SyncDevice>,
    reader: Reader,
    to: Port,
    clock: Clock,
    calibration: Calibration,
    /// Since when the thread slept, if a packet woke it.
    asleep: Option<Time>,
    /// What the last long sleep was for.
    aimed: Time,
    /// Rings when somebody's packets come by no device.
    bell: Option<PipeReader>,
}

impl Tuns {
    /// Packets come by `from` and leave by `to`, on the calling thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(
        from: &Port,
        to: Port,
        clock: Clock,
        calibration: Calibration,
        bell: Option<PipeReader>,
    ) -> io::Result<Tuns> {
        clock::sharpen()?;
        from.device.set_nonblocking(true)?;
        let (reader, from) = (from.reader(), from.device.clone());
        Ok(Tuns { from, reader, to, clock, calibration, asleep: None, aimed: Time::MAX, bell })
    }
}

impl Io for Tuns {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn headroom(&self) -> usize {
        self.to.headroom()
    }

    /// A device does not say when a packet came: it is stamped as it is read, earlier by what waking takes.
    fn receive(&mut self) -> io::Result<Received<'_>> {
        let read = self.reader.read()?;
        let now = self.clock.now();
        let came = self.asleep.map_or(now, |asleep| self.calibration.arrived(asleep, now));
        Ok(match read {
            Read::Packets(packets) => Received::Packets(came, packets),
            Read::Refused => Received::Refused(came),
            Read::Nothing => Received::Nothing(now),
        })
    }

    fn send(&mut self, _due: Time, packet: &[u8]) -> io::Result<()> {
        self.to.device.send(packet).map(|_| ())
    }

    fn wait(&mut self, due: Time) -> io::Result<()> {
        let now = self.clock.now();
        let pause = if due > now + NAP {
            Duration::from_nanos(NAP.nanos())
        } else {
            self.calibration.pause(now, due, &mut self.aimed)
        };
        let came = match &mut self.bell {
            None => clock::readable(&*self.from, pause)?,
            Some(bell) => {
                let [came, rung] = clock::rung(&*self.from, bell, pause)?;
                if rung {
                    let _ = bell.read(&mut [0; 64])?;
                }
                came
            }
        };
        self.asleep = came.then_some(now);
        Ok(())
    }
}
