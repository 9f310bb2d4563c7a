//! The table of attempts: the airtime of each packet on a radio link, with integer nanoseconds
//! (docs/reference/results.md). It accompanies the table of stages.

use link::TransmissionAttempt;
use topology::Topology;

use super::packets::PacketRecorder;
use crate::recorder::tables::{Column, ColumnData, Table};

#[derive(Clone, Copy, Debug)]
struct AttemptRow {
    packet: u32,
    link: u32,
    stage: u32,
    attempt: TransmissionAttempt,
}

/// The rows recorded so far.
#[derive(Debug, Default)]
pub struct AttemptRecorder {
    rows: Vec<AttemptRow>,
    /// The packets of each link and stage, by transmission id. A duplicate can follow after the payload handle has been
    /// released.
    packets_by_stage: Vec<((usize, usize), Vec<u32>)>,
}

impl AttemptRecorder {
    /// Adds attempts in `link`, each with its stage. `packets` must contain their packets.
    pub fn add_attempts(
        &mut self,
        link: usize,
        attempts: impl Iterator<Item = (usize, TransmissionAttempt)>,
        packets: &PacketRecorder,
    ) {
        for (stage, attempt) in attempts {
            let numbered_packets = self.packets_of_stage(link, stage);
            if attempt.attempt_number == 1 {
                // A transmitter numbers packets at their first attempt.
                debug_assert_eq!(numbered_packets.len() as u64, attempt.transmission_id);
                numbered_packets.push(packets.row_index(attempt.handle));
            }
            let packet = numbered_packets[attempt.transmission_id as usize];
            self.rows.push(AttemptRow { packet, link: link as u32, stage: stage as u32, attempt });
        }
    }

    fn packets_of_stage(&mut self, link: usize, stage: usize) -> &mut Vec<u32> {
        let known = self.packets_by_stage.iter().position(|(index, _)| *index == (link, stage));
        let index = known.unwrap_or(self.packets_by_stage.len());
        if known.is_none() {
            self.packets_by_stage.push(((link, stage), Vec::new()));
        }
        &mut self.packets_by_stage[index].1
    }

    /// Returns the table.
    pub fn finish(&self, topology: &Topology) -> Table {
        let rows = &self.rows;
        let int = |of: &dyn Fn(&AttemptRow) -> u64| {
            ColumnData::Int(rows.iter().map(|r| of(r) as i64).collect())
        };
        let links = (0..topology.simplex_links.len())
            .map(|link| topology.simplex_link_name(link).to_owned());
        let columns = [
            ("packet", int(&|row| row.packet.into())),
            (
                "link",
                ColumnData::Category(links.collect(), rows.iter().map(|row| row.link).collect()),
            ),
            ("stage", int(&|row| row.stage.into())),
            ("user", int(&|row| row.attempt.user.into())),
            ("attempt", int(&|row| row.attempt.attempt_number.into())),
            ("copy", int(&|row| row.attempt.is_duplicate.into())),
            ("begin_ns", int(&|row| row.attempt.begin.nanos())),
            ("end_ns", int(&|row| row.attempt.end.nanos())),
        ];
        let columns = columns.into_iter().map(|(name, data)| Column { name, data }).collect();
        Table { name: "radio_attempts", columns }
    }
}
