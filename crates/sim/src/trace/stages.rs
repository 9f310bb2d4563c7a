//! The table of stages: every step of every packet over the stages of its links, with whole nanoseconds
//! (docs/manual/results.md). What `bentpipe verify` reads.

use path::{Cause, Step, Topology};

use super::packets::Packets;
use crate::tables::{Column, Data, Table};

#[derive(Clone, Copy, Debug)]
struct Row {
    packet: u32,
    line: u32,
    step: Step,
}

/// The rows so far.
#[derive(Debug, Default)]
pub struct Stages {
    rows: Vec<Row>,
}

impl Stages {
    /// Steps in `line`, which may be one of the nodes that hold packets, counted on from the lines; of packets whose payloads are still held and which are told of in `packets`.
    pub fn made(&mut self, line: usize, steps: impl Iterator<Item = Step>, packets: &Packets) {
        let row = |step: Step| Row { packet: packets.number(step.handle), line: line as u32, step };
        self.rows.extend(steps.map(row));
    }

    /// The table.
    pub fn finish(&self, topology: &Topology) -> Table {
        let rows = &self.rows;
        let int = |of: &dyn Fn(&Row) -> u64| Data::Int(rows.iter().map(|r| of(r) as i64).collect());
        let lines = (0..topology.lines.len()).map(|line| topology.line_name(line).to_owned());
        let lines =
            lines.chain(topology.holds().map(|(node, _)| topology.node_name(node).to_owned()));
        let causes = Cause::ALL.iter().map(|cause| cause.name().to_owned());
        let causes: Vec<String> = std::iter::once(String::new()).chain(causes).collect();
        let cause = |row: &Row| row.step.dropped.map_or(0, |cause| 1 + cause as u32);
        let columns = [
            ("step", Data::Int((0..rows.len() as i64).collect())),
            ("packet", int(&|row| row.packet.into())),
            ("link", Data::Category(lines.collect(), rows.iter().map(|row| row.line).collect())),
            ("stage", int(&|row| row.step.stage.into())),
            ("at_ns", int(&|row| row.step.at.nanos())),
            ("dropped", Data::Category(causes, rows.iter().map(cause).collect())),
        ];
        let columns = columns.into_iter().map(|(name, data)| Column { name, data }).collect();
        Table { name: "stages", columns }
    }
}
