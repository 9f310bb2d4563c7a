//! A contact plan in ION's format: the ionadmin commands for contacts and ranges (ionrc(5) of ION 4.1).
//!
//! Known ionadmin commands for other purposes are skipped with a note. All other lines are refused with their number.
//! The parser executes no command.

use crate::spec::{ContactSpec, PlanSpec, RangeSpec};
use crate::suggestion::suggest;

/// The result of parsing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedPlan {
    /// The plan from the valid lines.
    pub spec: PlanSpec,
    /// Skipped lines, with the reason.
    pub notes: Vec<(usize, String)>,
    /// Invalid lines, with the reason.
    pub problems: Vec<(usize, String)>,
}

const SECOND: u64 = 1_000_000_000;
/// The maximum seconds of a time after its reference: a century. A plan can last four of them.
const MAX_SECONDS: i64 = 3_155_760_000;
const COMMANDS: [&str; 7] = ["a contact", "a range", "c contact", "d contact", "d range", "@", "#"];
const SUBJECTS: [&str; 2] = ["contact", "range"];
const MANAGED: [&str; 11] = [
    "utcdelta",
    "clockerr",
    "clocksync",
    "production",
    "consumption",
    "inbound",
    "outbound",
    "search",
    "horizon",
    "alarm",
    "usage",
];

/// An instant: seconds since the plan's zero, or since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlanInstant {
    Relative(i64),
    Absolute(i64),
}

#[derive(Clone, Debug)]
struct IonEntry {
    line: usize,
    start: PlanInstant,
    stop: PlanInstant,
    from: u64,
    to: u64,
    kind: IonEntryKind,
}

#[derive(Clone, Debug)]
enum IonEntryKind {
    Contact { rate: u64, confidence: f64 },
    Range { owlt_s: u64, implies_reverse: bool },
}

#[derive(Default)]
struct IonParser {
    reference: Option<PlanInstant>,
    first_reference: Option<i64>,
    region: Option<String>,
    entries: Vec<IonEntry>,
    nodes: Vec<u64>,
    notes: Vec<(usize, String)>,
    problems: Vec<(usize, String)>,
}

/// Parses a plan. Every line of any text is either accepted or refused.
pub fn parse(text: &str) -> ParsedPlan {
    let mut reader = IonParser::default();
    let mut is_ionadmin = true;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix("## begin ") {
            is_ionadmin = section.split_whitespace().next() == Some("ionadmin");
        } else if line.starts_with("## end") {
            is_ionadmin = true;
        } else if is_ionadmin
            && !line.is_empty()
            && !line.starts_with('#')
            && let Err(problem) = reader.parse_line(number + 1, line)
        {
            reader.problems.push((number + 1, problem));
        }
    }
    reader.finish()
}

impl IonParser {
    fn parse_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let tokens: Vec<&str> = line.split_whitespace().collect();
        let rest = &tokens[1..];
        match tokens[0] {
            "a" => self.add(number, rest),
            "c" => self.change(number, rest),
            "d" => self.delete(number, rest),
            "@" => self.set_reference(rest),
            "^" => self.select_region(rest),
            "m" => {
                let word = rest.first().copied().unwrap_or("");
                if !MANAGED.contains(&word) {
                    return Err(format!(
                        "found \"m {word}\", expected one of: {}{}",
                        MANAGED.join(", "),
                        suggest(word, MANAGED)
                    ));
                }
                self.notes
                    .push((number, format!("\"m {word}\" does not describe contacts: ignored")));
                Ok(())
            }
            "e" | "v" | "1" | "i" | "l" | "b" | "!" | "s" | "h" | "?" => {
                let text = format!("\"{}\" does not describe contacts: ignored", tokens[0]);
                self.notes.push((number, text));
                Ok(())
            }
            "r" | "x" | "q" => {
                Err(format!("found \"{}\", which a plan must not contain", tokens[0]))
            }
            word => Err(format!(
                "found {word:?}, expected a command of a plan: {}{}",
                COMMANDS.join(", "),
                suggest(word, COMMANDS.iter().copied().chain(SUBJECTS))
            )),
        }
    }

    fn add(&mut self, line: usize, rest: &[&str]) -> Result<(), String> {
        match parse_subject(rest, "a")? {
            "contact" => self.add_contact(line, &rest[1..]),
            _ => self.add_range(line, &rest[1..]),
        }
    }

    fn add_contact(&mut self, line: usize, words: &[&str]) -> Result<(), String> {
        let form = "a contact START STOP FROM TO BYTES_PER_SECOND [CONFIDENCE]";
        check_value_count(words, 5, 6, form)?;
        let (from, to) = (parse_node(words[2])?, parse_node(words[3])?);
        if words[0] == "-1" {
            if from != to || from == 0 {
                return Err(
                    "a registration (start -1) names the same node twice, and not node 0".into()
                );
            }
            self.nodes.push(from);
            self.notes.push((line, format!("registration of node {from}, not a contact: ignored")));
            return Ok(());
        }
        if words[1] == "0" {
            if from == to {
                return Err("a hypothetical contact (stop 0) is between two nodes".into());
            }
            self.nodes.extend([from, to]);
            self.notes
                .push((line, "no route uses a hypothetical contact (stop 0): ignored".into()));
            return Ok(());
        }
        let (start, stop) = (self.parse_time(words[0])?, self.parse_time(words[1])?);
        let rate = parse_whole_number(words[4], "bytes per second")?;
        if rate == 0 {
            return Err("found a rate of 0, expected bytes per second, at least 1".into());
        }
        if rate > u64::MAX / 8 {
            return Err(format!("found a rate of {rate} B/s, expected less"));
        }
        let confidence = words.get(5).map_or(Ok(1.0), |word| parse_confidence(word))?;
        self.check_order(start, stop)?;
        if self.is_loopback(line, "contact", from, to) {
            return Ok(());
        }
        let what = IonEntryKind::Contact { rate, confidence };
        self.entries.push(IonEntry { line, start, stop, from, to, kind: what });
        Ok(())
    }

    fn add_range(&mut self, line: usize, words: &[&str]) -> Result<(), String> {
        check_value_count(words, 5, 5, "a range START STOP FROM TO LIGHT_SECONDS")?;
        let (start, stop) = (self.parse_time(words[0])?, self.parse_time(words[1])?);
        let (from, to) = (parse_node(words[2])?, parse_node(words[3])?);
        let owlt_s = parse_whole_number(words[4], "light seconds").map_err(|text| {
            let finer = "; the TOML and JSON forms take \"125 ms\"";
            format!("{text}{}", if words[4].contains('.') { finer } else { "" })
        })?;
        if owlt_s > MAX_SECONDS as u64 {
            return Err(format!("found {owlt_s} light seconds, expected fewer"));
        }
        self.check_order(start, stop)?;
        if self.is_loopback(line, "range", from, to) {
            return Ok(());
        }
        // ionrc(5): the smaller node first implies the same range for the reverse direction, the larger one does not.
        let what = IonEntryKind::Range { owlt_s, implies_reverse: from < to };
        self.entries.push(IonEntry { line, start, stop, from, to, kind: what });
        Ok(())
    }

    fn change(&mut self, line: usize, rest: &[&str]) -> Result<(), String> {
        if parse_subject(rest, "c")? != "contact" {
            return Err(
                "found \"c range\", expected \"c contact\": ranges are deleted and added".into()
            );
        }
        let words = &rest[1..];
        check_value_count(words, 4, 5, "c contact START FROM TO BYTES_PER_SECOND [CONFIDENCE]")?;
        let (start, from, to) =
            (self.parse_time(words[0])?, parse_node(words[1])?, parse_node(words[2])?);
        let to_rate = parse_whole_number(words[3], "bytes per second")?;
        if to_rate == 0 || to_rate > u64::MAX / 8 {
            return Err(format!("found a rate of {to_rate} B/s, expected at least 1 and less"));
        }
        let to_confidence = words.get(4).map(|word| parse_confidence(word)).transpose()?;
        if self.is_loopback(line, "contact", from, to) {
            return Ok(());
        }
        let found = self.entries.iter_mut().find_map(|one| match &mut one.kind {
            IonEntryKind::Contact { rate, confidence }
                if (one.start, one.from, one.to) == (start, from, to) =>
            {
                Some((rate, confidence))
            }
            _ => None,
        });
        let Some((rate, confidence)) = found else {
            return Err(format!("found no contact from {from} to {to} with this start"));
        };
        *rate = to_rate;
        if let Some(value) = to_confidence {
            *confidence = value;
        }
        Ok(())
    }

    fn delete(&mut self, line: usize, rest: &[&str]) -> Result<(), String> {
        let of_contacts = parse_subject(rest, "d")? == "contact";
        let words = &rest[1..];
        check_value_count(words, 3, 3, &format!("d {} START FROM TO", rest[0]))?;
        let (from, to) = (parse_node(words[1])?, parse_node(words[2])?);
        // ionrc(5), "d contact": a registration has the start -1, a hypothetical contact 0.
        if of_contacts && ["-1", "0"].contains(&words[0]) {
            self.notes.push((line, "no scheduled contact deleted: ignored".into()));
            return Ok(());
        }
        let start = if words[0] == "*" { None } else { Some(self.parse_time(words[0])?) };
        if self.is_loopback(line, rest[0], from, to) {
            return Ok(());
        }
        let mut found = false;
        self.entries.retain_mut(|one| {
            let meant = start.is_none_or(|start| start == one.start);
            let forth = (one.from, one.to) == (from, to);
            let back = (one.to, one.from) == (from, to);
            match &mut one.kind {
                IonEntryKind::Contact { .. } => {
                    let deleted = of_contacts && meant && forth;
                    found |= deleted;
                    !deleted
                }
                // ionrc(5): with the smaller node first, the reverse range is deleted too; otherwise only this one.
                IonEntryKind::Range { implies_reverse, .. } => {
                    let deleted = !of_contacts && meant && (forth || (back && from < to));
                    let silenced = !of_contacts && meant && back && from > to && *implies_reverse;
                    found |= deleted || silenced;
                    if silenced {
                        *implies_reverse = false;
                    }
                    !deleted
                }
            }
        });
        if found {
            return Ok(());
        }
        Err(format!("found no {} from {from} to {to} to delete", rest[0]))
    }

    fn set_reference(&mut self, words: &[&str]) -> Result<(), String> {
        check_value_count(words, 1, 1, "@ TIME")?;
        let at = self.parse_time(words[0])?;
        if let (PlanInstant::Absolute(unix), None) = (at, self.first_reference) {
            self.first_reference = Some(unix);
        }
        self.reference = Some(at);
        Ok(())
    }

    fn select_region(&mut self, words: &[&str]) -> Result<(), String> {
        check_value_count(words, 1, 1, "^ REGION")?;
        let region = self.region.get_or_insert_with(|| words[0].to_owned());
        if region == words[0] {
            return Ok(());
        }
        Err(format!(
            "found region {:?} after {region:?}, expected a single region in a plan",
            words[0]
        ))
    }

    /// Skips a contact or range of a node with itself, as in ION's configurations: local delivery needs none. The node
    /// becomes known.
    fn is_loopback(&mut self, line: usize, kind: &str, from: u64, to: u64) -> bool {
        if from == to {
            self.nodes.push(from);
            let text = format!("a {kind} of node {from} with itself: ignored, the node is known");
            self.notes.push((line, text));
        }
        from == to
    }

    fn check_order(&self, start: PlanInstant, stop: PlanInstant) -> Result<(), String> {
        let later = match (start, stop) {
            (PlanInstant::Relative(a), PlanInstant::Relative(b))
            | (PlanInstant::Absolute(a), PlanInstant::Absolute(b)) => b > a,
            // The check follows when all times are known.
            _ => true,
        };
        if later { Ok(()) } else { Err("found a stop that is no later than the start".into()) }
    }

    /// Parses a time in either format of ionrc(5).
    fn parse_time(&self, word: &str) -> Result<PlanInstant, String> {
        let wrong = || format!("found the time {word:?}, expected +SECONDS or yyyy/mm/dd-hh:mm:ss");
        if let Some(seconds) = word.strip_prefix('+') {
            let after = parse_digits(seconds)
                .filter(|s| *s <= MAX_SECONDS as u64)
                .ok_or_else(wrong)? as i64;
            let found = match self.reference {
                None => PlanInstant::Relative(after),
                Some(PlanInstant::Relative(base)) => PlanInstant::Relative(base + after),
                Some(PlanInstant::Absolute(base)) => PlanInstant::Absolute(base + after),
            };
            let (PlanInstant::Relative(s) | PlanInstant::Absolute(s)) = found;
            return if s <= 4 * MAX_SECONDS { Ok(found) } else { Err(wrong()) };
        }
        parse_calendar(word).map(PlanInstant::Absolute).ok_or_else(wrong)
    }

    fn finish(mut self) -> ParsedPlan {
        // Without a reference and an absolute start, times count from the start of ionadmin (ionrc(5), "Relative
        // time"), which is unknown here.
        let is_date = |at| matches!(at, PlanInstant::Absolute(_));
        let undated = self.first_reference.is_none()
            && self.entries.iter().all(|one| !is_date(one.start))
            && self.entries.iter().any(|one| is_date(one.stop));
        let times = |one: &IonEntry| [one.start, one.stop];
        let unix = |at| if let PlanInstant::Absolute(s) = at { Some(s) } else { None };
        let earliest = self.entries.iter().flat_map(times).filter_map(unix).min();
        let zero = match (self.first_reference, earliest) {
            _ if undated => None,
            (Some(reference), Some(earliest)) => Some(reference.min(earliest)),
            (reference, earliest) => reference.or(earliest),
        };
        let mut spec = PlanSpec { epoch_unix_s: zero, ..PlanSpec::default() };
        spec.nodes = self.nodes.iter().map(u64::to_string).collect();
        for one in &self.entries {
            let since = |at| match (at, zero) {
                (PlanInstant::Relative(s), None) => Some(s),
                (PlanInstant::Absolute(s), Some(zero)) => Some(s - zero),
                _ => None,
            };
            let stop = match one.stop {
                PlanInstant::Absolute(_) if undated => {
                    let text = "ends at a date without a reference (@ yyyy/mm/dd-hh:mm:ss), which is the start of \
                                ionadmin: it lasts for a century";
                    self.notes.push((one.line, text.into()));
                    Some(MAX_SECONDS)
                }
                stop => since(stop),
            };
            let (Some(start), Some(stop)) = (since(one.start), stop) else {
                let text = "found a relative time and a date without a reference, expected the reference first: \
                            @ yyyy/mm/dd-hh:mm:ss";
                self.problems.push((one.line, text.into()));
                continue;
            };
            if start.max(stop) > 4 * MAX_SECONDS {
                let text = "found a time more than 400 years after the plan's first";
                self.problems.push((one.line, text.into()));
                continue;
            }
            let (from, to) = (one.from.to_string(), one.to.to_string());
            let (start_ns, stop_ns) = (start as u64 * SECOND, stop as u64 * SECOND);
            let at = format!("line {}", one.line);
            match one.kind {
                IonEntryKind::Contact { rate, confidence } => spec.contacts.push(ContactSpec {
                    from,
                    to,
                    start_ns,
                    stop_ns,
                    rate_bit_s: rate * 8,
                    confidence,
                    declared_at: at,
                }),
                IonEntryKind::Range { owlt_s, implies_reverse } => spec.ranges.push(RangeSpec {
                    from,
                    to,
                    start_ns,
                    stop_ns,
                    owlt_ns: owlt_s * SECOND,
                    implies_reverse,
                    declared_at: at,
                }),
            }
        }
        self.problems.sort();
        self.notes.sort();
        ParsedPlan { spec, notes: self.notes, problems: self.problems }
    }
}

fn parse_subject<'a>(rest: &[&'a str], command: &str) -> Result<&'a str, String> {
    let word = rest.first().copied().unwrap_or("");
    if SUBJECTS.contains(&word) {
        return Ok(word);
    }
    let near = suggest(word, SUBJECTS);
    Err(format!(
        "found \"{command} {word}\", expected \"{command} contact\" or \"{command} range\"{near}"
    ))
}

fn check_value_count(words: &[&str], min: usize, max: usize, form: &str) -> Result<(), String> {
    if (min..=max).contains(&words.len()) {
        return Ok(());
    }
    Err(format!("found {} values, expected: {form}", words.len()))
}

/// Parses a word that contains only digits.
fn parse_digits(word: &str) -> Option<u64> {
    (!word.is_empty() && word.bytes().all(|one| one.is_ascii_digit())).then(|| word.parse().ok())?
}

fn parse_whole_number(word: &str, what: &str) -> Result<u64, String> {
    parse_digits(word).ok_or_else(|| format!("found {word:?}, expected {what}, a whole number"))
}

fn parse_node(word: &str) -> Result<u64, String> {
    parse_digits(word).ok_or_else(|| format!("found the node {word:?}, expected its number"))
}

fn parse_confidence(word: &str) -> Result<f64, String> {
    let wrong = || format!("found a confidence of {word:?}, expected more than 0, at most 1");
    let found: f64 = word.parse().map_err(|_| wrong())?;
    if found > 0.0 && found <= 1.0 { Ok(found) } else { Err(wrong()) }
}

/// Returns the seconds since 1970 of `yyyy/mm/dd-hh:mm:ss`, in days of 86,400 s.
fn parse_calendar(word: &str) -> Option<i64> {
    let (date, time) = word.split_once('-')?;
    let three = |text: &str, between: char, widths: [usize; 3]| {
        let mut parts = text.split(between);
        let mut found = [0; 3];
        for (number, width) in found.iter_mut().zip(widths) {
            *number = parts.next().filter(|one| one.len() == width).and_then(parse_digits)? as i64;
        }
        parts.next().is_none().then_some(found)
    };
    let [year, month, day] = three(date, '/', [4, 2, 2])?;
    let [hour, minute, second] = three(time, ':', [2, 2, 2])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || day < 1 || day > last || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // Days before each month. Years before 1970 are refused earlier.
    let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334][month as usize - 1];
    let leaps = |year: i64| year / 4 - year / 100 + year / 400;
    let days = (year - 1970) * 365 + leaps(year - 1) - leaps(1969) + before + day - 1
        + i64::from(leap && month > 2);
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
#[path = "ion_tests.rs"]
mod tests;
