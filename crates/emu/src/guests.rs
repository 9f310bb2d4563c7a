//! Packets of whoever shares the path from inside: they have no frames and pass no device.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use units::{Packet, Time};

/// Handles of guests' packets have this bit; frames in transit are never so many.
const GUEST: u32 = 1 << 31;

/// What became of a guest's packet, by the handle that it came with.
#[derive(Clone, Copy, Debug)]
pub enum Left {
    /// It has come to the far end of what it entered, at the instant that the path gave it.
    Arrived(Part, Time, Packet),
    /// It was dropped on the way.
    Dropped(u32),
}

/// A part of a path: one direction of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The segment, from the client on.
    pub segment: usize,
    /// Upwards or downwards.
    pub direction: units::Direction,
}

/// Where guests' packets enter a direction.
#[derive(Debug)]
pub struct Inlet {
    waiting: Arc<Mutex<Vec<Packet>>>,
    bell: PipeWriter,
}

/// What a direction has of its guests.
#[derive(Debug)]
pub(crate) struct Guests {
    part: Part,
    waiting: Arc<Mutex<Vec<Packet>>>,
    left: Sender<Left>,
}

/// The guests of `part`, where their packets enter, and what rings when some do. What becomes of them is sent to `left`.
///
/// # Errors
/// The kernel's.
pub(crate) fn open(part: Part, left: Sender<Left>) -> io::Result<(Inlet, Guests, PipeReader)> {
    let (reader, bell) = io::pipe()?;
    let waiting = Arc::<Mutex<Vec<Packet>>>::default();
    Ok((Inlet { waiting: waiting.clone(), bell }, Guests { part, waiting, left }, reader))
}

impl Inlet {
    /// Has `packets` enter now; it is left empty.
    ///
    /// # Errors
    /// The direction is gone.
    pub fn enter(&mut self, packets: &mut Vec<Packet>) -> io::Result<()> {
        if packets.is_empty() {
            return Ok(());
        }
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let first = waiting.is_empty();
        waiting.append(packets);
        drop(waiting);
        if first { self.bell.write_all(&[1]) } else { Ok(()) }
    }
}

impl Guests {
    /// The packets that came, with handles that no frame has.
    pub fn take(&self, came: &mut Vec<Packet>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        came.extend(
            waiting.drain(..).map(|packet| Packet { handle: packet.handle | GUEST, ..packet }),
        );
    }

    /// A guest's packet has come to the far end.
    pub fn arrived(&self, due: Time, packet: &Packet) {
        let handle = packet.handle & !GUEST;
        // Who does not listen any more has ended.
        let _ = self.left.send(Left::Arrived(self.part, due, Packet { handle, ..*packet }));
    }

    /// A guest's packet was dropped.
    pub fn dropped(&self, packet: &Packet) {
        let _ = self.left.send(Left::Dropped(packet.handle & !GUEST));
    }
}

/// Whether `packet` is a guest's.
pub(crate) fn is_guest(packet: &Packet) -> bool {
    packet.handle & GUEST != 0
}
