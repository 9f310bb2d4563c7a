//! The boundary between a forwarder and its devices, and its implementation with TUN devices.

use std::io::{self, PipeReader, Read as _};
use std::sync::Arc;
use std::time::Duration;

use tun_rs::SyncDevice;
use units::{Span, Time};

use crate::calibration::Calibration;
use crate::clock::{self, EmulatorClock};
use crate::tun_port::{PortRead, PortReader, ReceivedFrames, TunPort};

/// Longest sleep. It limits the delay until a stop is noticed.
const MAX_SLEEP: Span = Span(50_000_000);

/// The result of [`PacketIo::receive`].
pub(crate) enum ReceiveResult<'a> {
    /// Packets and their arrival time. Times never decrease.
    Packets(Time, ReceivedFrames<'a>),
    /// A frame that cannot be split, and its arrival time. It is lost.
    Unsplittable(Time),
    /// All packets that arrived by this time have been received.
    Empty(Time),
}

/// Packet input, packet output and a clock. The forwarder is generic over it and compiled for each implementation.
pub(crate) trait PacketIo {
    /// Returns the time.
    fn now(&self) -> Time;

    /// Returns the number of zero bytes before a packet to be sent.
    fn headroom(&self) -> usize;

    /// Returns the next packets.
    ///
    /// # Errors
    /// Returns an error if the device has been removed.
    fn receive(&mut self) -> io::Result<ReceiveResult<'_>>;

    /// Sends a packet, which is due at `due` and starts after its headroom.
    ///
    /// # Errors
    /// Returns an error if the device rejected the packet.
    fn send(&mut self, due: Time, packet: &[u8]) -> io::Result<()>;

    /// Waits for a packet, at most until `due`. The wait may end early.
    ///
    /// # Errors
    /// Returns an error if the device has been removed.
    fn wait(&mut self, due: Time) -> io::Result<()>;
}

/// The real clock and two TUN devices.
pub(crate) struct TunIo {
    input: Arc<SyncDevice>,
    reader: PortReader,
    output: TunPort,
    clock: EmulatorClock,
    calibration: Calibration,
    /// Start of the last sleep, if a packet ended it.
    asleep_since: Option<Time>,
    /// The due time of the last long sleep.
    long_sleep_target: Time,
    /// The pipe that becomes readable when packets are injected.
    wakeup_pipe: Option<PipeReader>,
}

impl TunIo {
    /// Opens the input device `from` and the output device `output` for the calling thread.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn open(
        from: &TunPort,
        output: TunPort,
        clock: EmulatorClock,
        calibration: Calibration,
        wakeup_pipe: Option<PipeReader>,
    ) -> io::Result<TunIo> {
        clock::minimise_timer_slack()?;
        from.device.set_nonblocking(true)?;
        let (reader, from) = (from.reader(), from.device.clone());
        Ok(TunIo {
            input: from,
            reader,
            output,
            clock,
            calibration,
            asleep_since: None,
            long_sleep_target: Time::MAX,
            wakeup_pipe,
        })
    }
}

impl PacketIo for TunIo {
    fn now(&self) -> Time {
        self.clock.now()
    }

    fn headroom(&self) -> usize {
        self.output.headroom()
    }

    /// A device reports no arrival times. A packet has its read time, less the wake-up latency.
    fn receive(&mut self) -> io::Result<ReceiveResult<'_>> {
        let read = self.reader.read()?;
        let now = self.clock.now();
        let arrived_at =
            self.asleep_since.map_or(now, |since| self.calibration.arrival_time(since, now));
        Ok(match read {
            PortRead::Packets(packets) => ReceiveResult::Packets(arrived_at, packets),
            PortRead::Unsplittable => ReceiveResult::Unsplittable(arrived_at),
            PortRead::Empty => ReceiveResult::Empty(now),
        })
    }

    fn send(&mut self, _due: Time, packet: &[u8]) -> io::Result<()> {
        self.output.device.send(packet).map(|_| ())
    }

    fn wait(&mut self, due: Time) -> io::Result<()> {
        let now = self.clock.now();
        let pause = if due > now + MAX_SLEEP {
            Duration::from_nanos(MAX_SLEEP.nanos())
        } else {
            self.calibration.sleep_duration(now, due, &mut self.long_sleep_target)
        };
        let has_packet = match &mut self.wakeup_pipe {
            None => clock::wait_readable(&*self.input, pause)?,
            Some(pipe) => {
                let [has_packet, is_woken] =
                    clock::wait_either_readable(&*self.input, pipe, pause)?;
                if is_woken {
                    let _ = pipe.read(&mut [0; 64])?;
                }
                has_packet
            }
        };
        self.asleep_since = has_packet.then_some(now);
        Ok(())
    }
}
