//! Packets injected by simulated users. They have no frame and never cross a TUN device.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use units::{Packet, Time};

/// The bit that marks the handles of injected packets. The number of frames in transit never reaches it.
const INJECTED: u32 = 1 << 31;

/// The outcome of an injected packet, with the handle from its injection.
#[derive(Clone, Copy, Debug)]
pub enum InjectionResult {
    /// The packet reached the far end of its direction at the given due time.
    Delivered(EmulatedDirection, Time, Packet),
    /// The packet was dropped on the path.
    Dropped(u32),
}

/// One direction of an emulated link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EmulatedDirection {
    /// The index of the link, from the client on.
    pub link: usize,
    /// Up or down.
    pub direction: units::Direction,
}

/// The sender of injected packets into one direction.
#[derive(Debug)]
pub struct PacketInjector {
    pending: Arc<Mutex<Vec<Packet>>>,
    wakeup_pipe: PipeWriter,
}

/// The receiver of injected packets in a forwarder, which also reports their outcomes.
#[derive(Debug)]
pub(crate) struct InjectionSink {
    emulated_direction: EmulatedDirection,
    pending: Arc<Mutex<Vec<Packet>>>,
    results: Sender<InjectionResult>,
}

/// Creates the injector, the sink and the wake-up pipe of a direction. Outcomes are sent to `results`.
///
/// # Errors
/// Returns the error of the kernel.
pub(crate) fn open(
    emulated_direction: EmulatedDirection,
    results: Sender<InjectionResult>,
) -> io::Result<(PacketInjector, InjectionSink, PipeReader)> {
    let (reader, wakeup_pipe) = io::pipe()?;
    let pending = Arc::<Mutex<Vec<Packet>>>::default();
    Ok((
        PacketInjector { pending: pending.clone(), wakeup_pipe },
        InjectionSink { emulated_direction, pending, results },
        reader,
    ))
}

impl PacketInjector {
    /// Injects `packets` now and empties the list.
    ///
    /// # Errors
    /// Returns an error if the direction has ended.
    pub fn inject(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = pending.is_empty();
        pending.append(packets);
        drop(pending);
        if was_empty { self.wakeup_pipe.write_all(&[1]) } else { Ok(()) }
    }
}

impl InjectionSink {
    /// Moves the injected packets into `packets`, with handles that no frame uses.
    pub fn take_pending(&self, packets: &mut Vec<Packet>) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        packets.extend(
            pending.drain(..).map(|packet| Packet { handle: packet.handle | INJECTED, ..packet }),
        );
    }

    /// Reports an injected packet as delivered at the far end.
    pub fn report_delivered(&self, due: Time, packet: &Packet) {
        let handle = packet.handle & !INJECTED;
        // An error means that the receiver has ended.
        let _ = self.results.send(InjectionResult::Delivered(
            self.emulated_direction,
            due,
            Packet { handle, ..*packet },
        ));
    }

    /// Reports an injected packet as dropped.
    pub fn report_dropped(&self, packet: &Packet) {
        let _ = self.results.send(InjectionResult::Dropped(packet.handle & !INJECTED));
    }
}

/// Returns whether `packet` was injected.
pub(crate) fn is_injected(packet: &Packet) -> bool {
    packet.handle & INJECTED != 0
}
