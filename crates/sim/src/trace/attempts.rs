//! The table of attempts: when each packet was on the air of a radio link, with whole nanoseconds
//! (docs/manual/results.md). It is made with the table of stages.

use path::{Attempt, Topology};

use super::packets::Packets;
use crate::tables::{Column, Data, Table};

#[derive(Clone, Copy, Debug)]
struct Row {
    packet: u32,
    line: u32,
    stage: u32,
    attempt: Attempt,
}

/// The rows so far.
#[derive(Debug, Default)]
pub struct Attempts {
    rows: Vec<Row>,
    /// Of each line and stage the packets by the numbers that its transmitter counts: a copy is attempted when the
    /// packet has left, and nobody else knows it any more.
    packets: Vec<((usize, usize), Vec<u32>)>,
}

impl Attempts {
    /// Attempts in `line`, each with its stage; of packets that `packets` is told of.
    pub fn made(
        &mut self,
        line: usize,
        attempts: impl Iterator<Item = (usize, Attempt)>,
        packets: &Packets,
    ) {
        for (stage, attempt) in attempts {
            let numbered = self.numbered(line, stage);
            if attempt.attempt == 1 {
                // A transmitter counts those that it begins to serve.
                debug_assert_eq!(numbered.len() as u64, attempt.number);
                numbered.push(packets.number(attempt.handle));
            }
            let packet = numbered[attempt.number as usize];
            self.rows.push(Row { packet, line: line as u32, stage: stage as u32, attempt });
        }
    }

    fn numbered(&mut self, line: usize, stage: usize) -> &mut Vec<u32> {
        let known = self.packets.iter().position(|(place, _)| *place == (line, stage));
        let place = known.unwrap_or(self.packets.len());
        if known.is_none() {
            self.packets.push(((line, stage), Vec::new()));
        }
        &mut self.packets[place].1
    }

    /// The table.
    pub fn finish(&self, topology: &Topology) -> Table {
        let rows = &self.rows;
        let int = |of: &dyn Fn(&Row) -> u64| Data::Int(rows.iter().map(|r| of(r) as i64).collect());
        let lines = (0..topology.lines.len()).map(|line| topology.line_name(line).to_owned());
        let columns = [
            ("packet", int(&|row| row.packet.into())),
            ("link", Data::Category(lines.collect(), rows.iter().map(|row| row.line).collect())),
            ("stage", int(&|row| row.stage.into())),
            ("user", int(&|row| row.attempt.user.into())),
            ("attempt", int(&|row| row.attempt.attempt.into())),
            ("copy", int(&|row| row.attempt.copy.into())),
            ("begin_ns", int(&|row| row.attempt.begin.nanos())),
            ("end_ns", int(&|row| row.attempt.end.nanos())),
        ];
        let columns = columns.into_iter().map(|(name, data)| Column { name, data }).collect();
        Table { name: "attempts", columns }
    }
}
