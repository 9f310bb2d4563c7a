//! Errors and warnings of a plan, with the lines of both entries concerned.

use std::collections::BTreeMap;

use crate::spec::{ContactSpec, PlanSpec, RangeSpec};

/// An error or a warning of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct PlanDiagnostic {
    /// The locations of the entries concerned, in plan sequence.
    pub declared_at: Vec<String>,
    /// The text.
    pub text: String,
}

type Pair<'a> = (&'a str, &'a str);

/// Returns errors, which forbid the use of a plan, and warnings.
pub fn check_plan(spec: &PlanSpec) -> (Vec<PlanDiagnostic>, Vec<PlanDiagnostic>) {
    let mut problems = Vec::new();
    for one in &spec.contacts {
        let text = check_interval(one.from == one.to, one.start_ns, one.stop_ns).or_else(|| {
            if one.rate_bit_s == 0 {
                Some("found a rate of 0, expected more".into())
            } else if !(one.confidence > 0.0 && one.confidence <= 1.0) {
                Some(format!(
                    "found a confidence of {}, expected more than 0, at most 1",
                    one.confidence
                ))
            } else {
                None
            }
        });
        problems.extend(
            text.map(|text| PlanDiagnostic { declared_at: vec![one.declared_at.clone()], text }),
        );
    }
    for one in &spec.ranges {
        let text = check_interval(one.from == one.to, one.start_ns, one.stop_ns);
        problems.extend(
            text.map(|text| PlanDiagnostic { declared_at: vec![one.declared_at.clone()], text }),
        );
    }
    let contacts = group_by_pair(&spec.contacts, |one| (&one.from, &one.to), |one| one.start_ns);
    let ranges = group_by_pair(&spec.ranges, |one| (&one.from, &one.to), |one| one.start_ns);
    for ((from, to), of) in &contacts {
        find_overlaps(
            of,
            &mut problems,
            |a, b| {
                let (start, stop) = (b.start_ns, a.stop_ns.min(b.stop_ns));
                (b.start_ns < a.stop_ns).then(|| {
                    let same = (a.start_ns, a.stop_ns, a.rate_bit_s)
                        == (b.start_ns, b.stop_ns, b.rate_bit_s);
                    let how = if same {
                        "duplicate contact".into()
                    } else if a.rate_bit_s == b.rate_bit_s {
                        format!(
                            "contacts overlap from {} to {}",
                            format_seconds(start),
                            format_seconds(stop)
                        )
                    } else {
                        format!(
                            "contacts contradict each other from {} to {}: {} and {} bit/s",
                            format_seconds(start),
                            format_seconds(stop),
                            a.rate_bit_s,
                            b.rate_bit_s
                        )
                    };
                    (how, [a.declared_at.clone(), b.declared_at.clone()])
                })
            },
            from,
            to,
        );
    }
    for ((from, to), of) in &ranges {
        find_overlaps(
            of,
            &mut problems,
            |a, b| {
                (b.start_ns < a.stop_ns).then(|| {
                    let how = if a.owlt_ns == b.owlt_ns {
                        "ranges overlap"
                    } else {
                        "ranges contradict each other"
                    };
                    let (start, stop) =
                        (format_seconds(b.start_ns), format_seconds(a.stop_ns.min(b.stop_ns)));
                    let owlt = if a.owlt_ns == b.owlt_ns {
                        String::new()
                    } else {
                        format!(": {} and {}", format_seconds(a.owlt_ns), format_seconds(b.owlt_ns))
                    };
                    (
                        format!("{how} from {start} to {stop}{owlt}"),
                        [a.declared_at.clone(), b.declared_at.clone()],
                    )
                })
            },
            from,
            to,
        );
    }
    let warnings =
        if problems.is_empty() { find_warnings(spec, &contacts, &ranges) } else { Vec::new() };
    (problems, warnings)
}

fn check_interval(loops: bool, start: u64, stop: u64) -> Option<String> {
    if loops {
        return Some("found the same node at both ends".into());
    }
    (stop <= start).then(|| {
        format!(
            "found a stop of {}, expected one after the start, {}",
            format_seconds(stop),
            format_seconds(start)
        )
    })
}

fn group_by_pair<'a, T>(
    all: &'a [T],
    pair: impl Fn(&'a T) -> (&'a String, &'a String),
    start: impl Fn(&T) -> u64,
) -> BTreeMap<Pair<'a>, Vec<&'a T>> {
    let mut found: BTreeMap<Pair<'a>, Vec<&T>> = BTreeMap::new();
    for one in all {
        let (from, to) = pair(one);
        found.entry((from, to)).or_default().push(one);
    }
    for of in found.values_mut() {
        of.sort_by_key(|one| start(one));
    }
    found
}

/// Compares each entry with the earlier one that ends last, because every overlap starts there.
fn find_overlaps<T: StopTime>(
    of: &[&T],
    problems: &mut Vec<PlanDiagnostic>,
    between: impl Fn(&T, &T) -> Option<(String, [String; 2])>,
    from: &str,
    to: &str,
) {
    let mut longest: Option<&T> = None;
    for one in of {
        if let Some(before) = longest
            && let Some((how, at)) = between(before, one)
        {
            problems.push(PlanDiagnostic {
                declared_at: at.into(),
                text: format!("{from} to {to}: {how}"),
            });
        }
        if longest.is_none_or(|before| one.stop_ns() > before.stop_ns()) {
            longest = Some(one);
        }
    }
}

trait StopTime {
    fn stop_ns(&self) -> u64;
}

impl StopTime for ContactSpec {
    fn stop_ns(&self) -> u64 {
        self.stop_ns
    }
}

impl StopTime for RangeSpec {
    fn stop_ns(&self) -> u64 {
        self.stop_ns
    }
}

/// Finds contacts without a complete range, contacts without a reverse contact, and ranges without a contact.
fn find_warnings(
    spec: &PlanSpec,
    contacts: &BTreeMap<Pair<'_>, Vec<&ContactSpec>>,
    ranges: &BTreeMap<Pair<'_>, Vec<&RangeSpec>>,
) -> Vec<PlanDiagnostic> {
    let mut found = Vec::new();
    for ((from, to), of) in contacts {
        let explicit = ranges.get(&(*from, *to)).map_or(&[][..], Vec::as_slice);
        let back = ranges.get(&(*to, *from)).map_or(&[][..], Vec::as_slice);
        let mut known: Vec<(u64, u64)> =
            explicit.iter().map(|one| (one.start_ns, one.stop_ns)).collect();
        known.extend(
            back.iter().filter(|one| one.implies_reverse).map(|one| (one.start_ns, one.stop_ns)),
        );
        known.sort_unstable();
        for one in of {
            let gaps = find_gaps(one.start_ns, one.stop_ns, &known);
            if gaps == [(one.start_ns, one.stop_ns)] {
                let text = format!("{from} to {to}: contact without a range, never used");
                found.push(PlanDiagnostic { declared_at: vec![one.declared_at.clone()], text });
            } else if !gaps.is_empty() {
                let spans: Vec<String> = gaps
                    .iter()
                    .take(3)
                    .map(|(a, b)| format!("{} to {}", format_seconds(*a), format_seconds(*b)))
                    .collect();
                let more = if gaps.len() > 3 { ", ..." } else { "" };
                let text = format!(
                    "{from} to {to}: no range from {}{more}, not used then",
                    spans.join(", ")
                );
                found.push(PlanDiagnostic { declared_at: vec![one.declared_at.clone()], text });
            }
        }
        if !contacts.contains_key(&(*to, *from)) {
            let text = format!("{from} to {to}: no return contact");
            found.push(PlanDiagnostic { declared_at: vec![of[0].declared_at.clone()], text });
        }
    }
    for one in &spec.ranges {
        let (from, to) = (one.from.as_str(), one.to.as_str());
        let used = contacts.contains_key(&(from, to))
            || (one.implies_reverse && contacts.contains_key(&(to, from)));
        if !used {
            let text = format!("{from} to {to}: range without a contact");
            found.push(PlanDiagnostic { declared_at: vec![one.declared_at.clone()], text });
        }
    }
    found
}

fn find_gaps(start: u64, stop: u64, known: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut at = start;
    for (from, to) in known {
        if *from >= stop {
            break;
        }
        if *from > at {
            gaps.push((at, *from));
        }
        at = at.max(*to);
    }
    if at < stop {
        gaps.push((at, stop));
    }
    gaps
}

/// Formats a time in seconds without trailing zeros.
pub(crate) fn format_seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Formats a number of bytes with separators of thousands.
pub(crate) fn format_bytes(bytes: u64) -> String {
    let digits = bytes.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{text} B")
}
