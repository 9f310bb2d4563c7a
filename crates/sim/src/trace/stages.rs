//! The table of stages: every step of every packet over the stages of its links, with integer nanoseconds
//! (docs/reference/results.md). `bentpipe verify` reads it.

use link::{DropReason, StageStep};
use topology::Topology;

use super::packets::PacketRecorder;
use crate::recorder::tables::{Column, ColumnData, Table};

#[derive(Clone, Copy, Debug)]
struct StepRow {
    packet: u32,
    link: u32,
    step: StageStep,
}

/// The rows recorded so far.
#[derive(Debug, Default)]
pub struct StageRecorder {
    rows: Vec<StepRow>,
}

impl StageRecorder {
    /// Returns the bytes of all rows.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.rows[..])
    }

    /// Adds steps in `link`, or in a buffer (indices after the links), of packets in `packets` with an existing
    /// payload.
    pub fn add_steps(
        &mut self,
        link: usize,
        steps: impl Iterator<Item = StageStep>,
        packets: &PacketRecorder,
    ) {
        let row = |step: StageStep| StepRow {
            packet: packets.row_index(step.handle),
            link: link as u32,
            step,
        };
        self.rows.extend(steps.map(row));
    }

    /// Returns the table.
    pub fn finish(&self, topology: &Topology) -> Table {
        let rows = &self.rows;
        let int = |of: &dyn Fn(&StepRow) -> u64| {
            ColumnData::Int(rows.iter().map(|r| of(r) as i64).collect())
        };
        let links = (0..topology.simplex_links.len())
            .map(|link| topology.simplex_link_name(link).to_owned());
        let links = links.chain(
            topology.store_forward_buffers().map(|(node, _)| topology.node_name(node).to_owned()),
        );
        let causes = DropReason::ALL.iter().map(|cause| cause.name().to_owned());
        let causes: Vec<String> = std::iter::once(String::new()).chain(causes).collect();
        let cause = |row: &StepRow| row.step.drop_reason.map_or(0, |cause| 1 + cause as u32);
        let columns = [
            ("step", ColumnData::Int((0..rows.len() as i64).collect())),
            ("packet", int(&|row| row.packet.into())),
            (
                "link",
                ColumnData::Category(links.collect(), rows.iter().map(|row| row.link).collect()),
            ),
            ("stage", int(&|row| row.step.stage.into())),
            ("at_ns", int(&|row| row.step.at.nanos())),
            ("dropped", ColumnData::Category(causes, rows.iter().map(cause).collect())),
        ];
        let columns = columns.into_iter().map(|(name, data)| Column { name, data }).collect();
        Table { name: "packet_steps", columns }
    }
}
