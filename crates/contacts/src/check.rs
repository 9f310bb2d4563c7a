//! What is wrong with a plan, and what is hardly meant: with the lines of both sides.

use std::collections::BTreeMap;

use crate::spec::{ContactSpec, PlanSpec, RangeSpec};

/// Something said of a plan.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Remark {
    /// Where it is said: the entries concerned, in the plan's order.
    pub at: Vec<String>,
    /// What is said.
    pub text: String,
}

type Pair<'a> = (&'a str, &'a str);

/// What forbids the use of a plan, and what may be an oversight.
pub fn check(spec: &PlanSpec) -> (Vec<Remark>, Vec<Remark>) {
    let mut problems = Vec::new();
    for one in &spec.contacts {
        let text = alone(one.from == one.to, one.start_ns, one.stop_ns).or_else(|| {
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
        problems.extend(text.map(|text| Remark { at: vec![one.at.clone()], text }));
    }
    for one in &spec.ranges {
        let text = alone(one.from == one.to, one.start_ns, one.stop_ns);
        problems.extend(text.map(|text| Remark { at: vec![one.at.clone()], text }));
    }
    let contacts = by_pair(&spec.contacts, |one| (&one.from, &one.to), |one| one.start_ns);
    let ranges = by_pair(&spec.ranges, |one| (&one.from, &one.to), |one| one.start_ns);
    for ((from, to), of) in &contacts {
        overlaps(
            of,
            &mut problems,
            |a, b| {
                let (start, stop) = (b.start_ns, a.stop_ns.min(b.stop_ns));
                (b.start_ns < a.stop_ns).then(|| {
                    let same = (a.start_ns, a.stop_ns, a.rate_bit_s)
                        == (b.start_ns, b.stop_ns, b.rate_bit_s);
                    let how = if same {
                        "the same contact twice".into()
                    } else if a.rate_bit_s == b.rate_bit_s {
                        format!("contacts overlap from {} to {}", seconds(start), seconds(stop))
                    } else {
                        format!(
                            "contacts contradict each other from {} to {}: {} and {} bit/s",
                            seconds(start),
                            seconds(stop),
                            a.rate_bit_s,
                            b.rate_bit_s
                        )
                    };
                    (how, [a.at.clone(), b.at.clone()])
                })
            },
            from,
            to,
        );
    }
    for ((from, to), of) in &ranges {
        overlaps(
            of,
            &mut problems,
            |a, b| {
                (b.start_ns < a.stop_ns).then(|| {
                    let how = if a.owlt_ns == b.owlt_ns {
                        "ranges overlap"
                    } else {
                        "ranges contradict each other"
                    };
                    let (start, stop) = (seconds(b.start_ns), seconds(a.stop_ns.min(b.stop_ns)));
                    let owlt = if a.owlt_ns == b.owlt_ns {
                        String::new()
                    } else {
                        format!(": {} and {}", seconds(a.owlt_ns), seconds(b.owlt_ns))
                    };
                    (format!("{how} from {start} to {stop}{owlt}"), [a.at.clone(), b.at.clone()])
                })
            },
            from,
            to,
        );
    }
    let remarks = if problems.is_empty() { doubtful(spec, &contacts, &ranges) } else { Vec::new() };
    (problems, remarks)
}

fn alone(loops: bool, start: u64, stop: u64) -> Option<String> {
    if loops {
        return Some("found the same node at both ends".into());
    }
    (stop <= start).then(|| {
        format!(
            "found a stop of {}, expected one after the start, {}",
            seconds(stop),
            seconds(start)
        )
    })
}

fn by_pair<'a, T>(
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

/// Each entry against the ones before it that last longest: all overlaps begin there.
fn overlaps<T: Stops>(
    of: &[&T],
    problems: &mut Vec<Remark>,
    between: impl Fn(&T, &T) -> Option<(String, [String; 2])>,
    from: &str,
    to: &str,
) {
    let mut longest: Option<&T> = None;
    for one in of {
        if let Some(before) = longest
            && let Some((how, at)) = between(before, one)
        {
            problems.push(Remark { at: at.into(), text: format!("{from} to {to}: {how}") });
        }
        if longest.is_none_or(|before| one.stops() > before.stops()) {
            longest = Some(one);
        }
    }
}

trait Stops {
    fn stops(&self) -> u64;
}

impl Stops for ContactSpec {
    fn stops(&self) -> u64 {
        self.stop_ns
    }
}

impl Stops for RangeSpec {
    fn stops(&self) -> u64 {
        self.stop_ns
    }
}

/// Contacts without a range for all or some of their time, contacts without a way back, ranges without a contact.
fn doubtful(
    spec: &PlanSpec,
    contacts: &BTreeMap<Pair<'_>, Vec<&ContactSpec>>,
    ranges: &BTreeMap<Pair<'_>, Vec<&RangeSpec>>,
) -> Vec<Remark> {
    let mut found = Vec::new();
    for ((from, to), of) in contacts {
        let own = ranges.get(&(*from, *to)).map_or(&[][..], Vec::as_slice);
        let back = ranges.get(&(*to, *from)).map_or(&[][..], Vec::as_slice);
        let mut known: Vec<(u64, u64)> =
            own.iter().map(|one| (one.start_ns, one.stop_ns)).collect();
        known.extend(
            back.iter().filter(|one| one.implies_reverse).map(|one| (one.start_ns, one.stop_ns)),
        );
        known.sort_unstable();
        for one in of {
            let gaps = uncovered(one.start_ns, one.stop_ns, &known);
            if gaps == [(one.start_ns, one.stop_ns)] {
                let text =
                    format!("{from} to {to}: no range says how far apart they are: never used");
                found.push(Remark { at: vec![one.at.clone()], text });
            } else if !gaps.is_empty() {
                let spans: Vec<String> = gaps
                    .iter()
                    .take(3)
                    .map(|(a, b)| format!("{} to {}", seconds(*a), seconds(*b)))
                    .collect();
                let more = if gaps.len() > 3 { ", ..." } else { "" };
                let text = format!(
                    "{from} to {to}: no range from {}{more}: not used then",
                    spans.join(", ")
                );
                found.push(Remark { at: vec![one.at.clone()], text });
            }
        }
        if !contacts.contains_key(&(*to, *from)) {
            let text = format!("{from} to {to}: no contact leads back");
            found.push(Remark { at: vec![of[0].at.clone()], text });
        }
    }
    for one in &spec.ranges {
        let (from, to) = (one.from.as_str(), one.to.as_str());
        let used = contacts.contains_key(&(from, to))
            || (one.implies_reverse && contacts.contains_key(&(to, from)));
        if !used {
            let text = format!("{from} to {to}: a range, and no contact");
            found.push(Remark { at: vec![one.at.clone()], text });
        }
    }
    found
}

fn uncovered(start: u64, stop: u64, known: &[(u64, u64)]) -> Vec<(u64, u64)> {
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

/// A time in seconds, without zeros that say nothing.
pub(crate) fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}
