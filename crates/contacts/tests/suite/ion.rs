//! ION's commands: the documented examples, implied ranges, and errors of a line.

use contacts::{Plan, check_plan, ion};
use proptest::prelude::*;
use units::{Span, Time};

fn read(text: &str) -> contacts::PlanSpec {
    let found = ion::parse(text);
    assert_eq!(found.problems, [], "{text}");
    found.spec
}

fn problem(text: &str) -> (usize, String) {
    let found = ion::parse(text).problems;
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Returns the light time of a direction at a second, in seconds.
fn owlt(plan: &Plan, from: &str, to: &str, at: u64) -> Option<u64> {
    let (from, to) = (plan.node(from)?, plan.node(to)?);
    let at = Time(at * 1_000_000_000);
    let found = plan.ranges(from, to).into_iter().find(|one| one.start <= at && at < one.stop)?;
    Some(found.owlt.nanos() / 1_000_000_000)
}

#[test]
fn the_examples_of_ionrc() {
    let spec = read(
        "@ 2008/10/05-11:30:00\na range +1 2009/01/01-00:00:00 1 2 12\na contact +60 +7260 1 2 10000\n",
    );
    assert_eq!(spec.epoch_unix_s, Some(1_223_206_200));
    let range = &spec.ranges[0];
    assert_eq!(
        (range.start_ns, range.owlt_ns, range.declared_at.as_str()),
        (1_000_000_000, 12_000_000_000, "line 2")
    );
    // Until the end of 2008.
    assert_eq!(range.stop_ns, (1_230_768_000 - 1_223_206_200) * 1_000_000_000);
    let contact = &spec.contacts[0];
    assert_eq!((contact.stop_ns - contact.start_ns) / 1_000_000_000, 7200);
    assert_eq!((contact.rate_bit_s, contact.confidence), (80_000, 1.0));
}

#[test]
fn a_reference_may_follow_another_one() {
    let spec = read("@ 2026/11/22-12:00:00\n@ +100\na contact +5 +6 1 2 1\n");
    assert_eq!(
        (spec.epoch_unix_s, spec.contacts[0].start_ns),
        (Some(1_795_348_800), 105_000_000_000)
    );
    let spec = read("@ +100\na contact +5 +6 1 2 1\n");
    assert_eq!((spec.epoch_unix_s, spec.contacts[0].start_ns), (None, 105_000_000_000));
}

#[test]
fn the_smaller_node_first_implies_the_reverse_range_unless_declared() {
    // ionrc(5), "a range"
    let plan = Plan::new(&read("a contact +0 +100 1 2 1\na range +0 +100 1 2 3\n")).unwrap();
    assert_eq!((owlt(&plan, "1", "2", 5), owlt(&plan, "2", "1", 5)), (Some(3), Some(3)));
    let plan = Plan::new(&read("a contact +0 +100 1 2 1\na range +0 +100 2 1 3\n")).unwrap();
    assert_eq!((owlt(&plan, "1", "2", 5), owlt(&plan, "2", "1", 5)), (None, Some(3)));
    for text in [
        "a range +0 +100 1 2 3\na range +20 +60 2 1 7\n",
        "a range +20 +60 2 1 7\na range +0 +100 1 2 3\n",
    ] {
        let plan = Plan::new(&read(text)).unwrap();
        let back: Vec<_> = [5, 20, 59, 60].iter().map(|at| owlt(&plan, "2", "1", *at)).collect();
        assert_eq!(back, [Some(3), Some(7), Some(7), Some(3)], "{text}");
        assert_eq!(owlt(&plan, "1", "2", 30), Some(3));
    }
    // Numeric comparison: 9 is less than 10.
    let plan = Plan::new(&read("a range +0 +100 9 10 3\n")).unwrap();
    assert_eq!(owlt(&plan, "10", "9", 5), Some(3));
}

#[test]
fn deletions_and_changes_count_from_their_line_on() {
    let three = "a contact +0 +10 1 2 5\na contact +20 +30 1 2 5\na contact +0 +10 2 1 5\n";
    assert_eq!(read(&format!("{three}d contact +20 1 2\n")).contacts.len(), 2);
    assert_eq!(read(&format!("{three}d contact * 1 2\n")).contacts.len(), 1);
    let changed = read(&format!("{three}c contact +20 1 2 9 0.5\n"));
    assert_eq!((changed.contacts[1].rate_bit_s, changed.contacts[1].confidence), (72, 0.5));
    // A range: with the smaller node first, the reverse range is deleted too.
    let both = "a range +0 +10 1 2 5\na range +0 +10 2 1 6\n";
    assert_eq!(read(&format!("{both}d range +0 1 2\n")).ranges.len(), 0);
    assert_eq!(read(&format!("{both}d range +0 2 1\n")).ranges.len(), 1);
    let plan = Plan::new(&read("a range +0 +10 1 2 5\nd range +0 2 1\n")).unwrap();
    assert_eq!((owlt(&plan, "1", "2", 5), owlt(&plan, "2", "1", 5)), (Some(5), None));
}

#[test]
fn a_contact_of_a_node_with_itself_is_skipped() {
    // 150 of the 193 plans of nasa-jpl/ION-DTN contain such lines.
    let found = ion::parse(
        "a contact +1 +3600 1 1 100000\na contact +1 +3600 1 2 100000\na range +1 +3600 3 3 1\na range +1 +3600 1 2 1\n\
         c contact +1 1 1 5\nd contact +1 1 1\nd range * 3 3\n",
    );
    assert_eq!(found.problems, []);
    assert_eq!(found.notes.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 3, 5, 6, 7]);
    assert_eq!(found.notes[0].1, "a contact of node 1 with itself: ignored, the node is known");
    assert_eq!(found.notes[1].1, "a range of node 3 with itself: ignored, the node is known");
    assert_eq!((found.spec.contacts.len(), found.spec.ranges.len()), (1, 1));
    assert_eq!(check_plan(&found.spec).0, []);
    let plan = Plan::new(&found.spec).unwrap();
    assert!(plan.node("3").is_some(), "no contact names it");
}

#[test]
fn a_registration_or_hypothetical_contact_is_deleted_by_its_start() {
    // ionrc(5), "d contact": -1 and 0
    let found = ion::parse(
        "a contact -1 -1 4 4 0\na contact +0 +9 1 2 5\nd contact -1 4 4\nd contact 0 1 2\n",
    );
    assert_eq!((found.problems, found.spec.contacts.len()), (vec![], 1));
    assert_eq!(found.notes.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 3, 4]);
}

#[test]
fn both_formats_of_time_in_a_line() {
    // ionrc(5): +ss counts from the reference, which is the start of ionadmin until a line sets it.
    let text = "a range +0 2009/01/01-00:00:00 5 7 600\na contact +10 2009/01/01-00:00:00 5 7 10000\na contact +5 +9 7 5 1\n";
    let found = ion::parse(text);
    assert_eq!((found.problems, found.spec.epoch_unix_s), (vec![], None));
    let century_ns = 3_155_760_000 * 1_000_000_000;
    let contacts = &found.spec.contacts;
    assert_eq!((contacts[0].start_ns, contacts[0].stop_ns), (10_000_000_000, century_ns));
    assert_eq!((contacts[1].start_ns, contacts[1].stop_ns), (5_000_000_000, 9_000_000_000));
    assert_eq!(found.spec.ranges[0].stop_ns, century_ns);
    assert_eq!(found.notes.iter().map(|one| one.0).collect::<Vec<_>>(), [1, 2]);
    let dated = read(&format!("@ 2008/12/31-23:59:00\n{text}"));
    assert_eq!(
        (dated.epoch_unix_s, dated.contacts[0].stop_ns),
        (Some(1_230_767_940), 60_000_000_000)
    );
}

#[test]
fn unrelated_lines_are_skipped_with_their_numbers() {
    let found = ion::parse(
        "## begin ionadmin\n1 1 ''\ns\n# a comment\nm horizon +0\na contact +0 +9 1 2 5\n## end ionadmin\n\
         ## begin bpadmin\na scheme ipn 'ipnfw' 'ipnadminep'\n## end bpadmin\na contact -1 -1 4 4 0\na contact +0 0 4 5 0\n",
    );
    assert_eq!(found.problems, []);
    assert_eq!(found.notes.iter().map(|one| one.0).collect::<Vec<_>>(), [2, 3, 5, 11, 12]);
    assert_eq!((found.spec.contacts.len(), found.spec.nodes.join(" ")), (1, "4 4 5".into()));
}

#[test]
fn a_wrong_line_is_refused_with_its_number_and_the_nearest_word() {
    for (text, line, word) in [
        ("a contcat +0 +1 1 2 3", 1, "did you mean \"contact\"?"),
        ("# one\nad contact +0 +1 1 2 3", 2, "expected a command"),
        ("a contact +0 +1 1 2", 1, "found 4 values"),
        ("a contact +0 +1 1 2 3 0.5 7", 1, "found 7 values"),
        ("a contact +0 +1 1 2 0", 1, "a rate of 0"),
        ("a contact +0 +1 1 2 1e6", 1, "a whole number"),
        ("a contact +0 +1 1 2 3 1.5", 1, "confidence"),
        ("a contact +0 +1 1 2 3 NaN", 1, "confidence"),
        ("a contact +5 +5 1 2 3", 1, "no later than the start"),
        ("a contact 12:00 +5 1 2 3", 1, "yyyy/mm/dd-hh:mm:ss"),
        ("a contact +0 +5 1 one 3", 1, "expected its number"),
        ("a contact +5 +5 3 3 3", 1, "no later than the start"),
        ("a range +0 +5 3 3 x", 1, "a whole number"),
        ("a range +0 +5 1 2 0.125", 1, "\"125 ms\""),
        ("m horizn 0", 1, "did you mean \"horizon\"?"),
        ("d contact +0 1 2", 1, "found no contact from 1 to 2"),
        ("x", 1, "which a plan must not contain"),
        (
            "a contact +0 +5 1 2 3\na contact 2026/11/22-12:00:00 2026/11/22-13:00:00 1 2 3",
            1,
            "expected the reference first: @",
        ),
        (
            "a contact +0 2026/11/22-12:00:00 1 2 3\na range 2026/11/22-12:00:00 2026/11/23-12:00:00 1 2 3",
            1,
            "a date without a reference",
        ),
        ("a contact +99999999999 +999999999999 1 2 3", 1, "expected +SECONDS"),
        ("^ 1\n^ 2", 2, "expected a single region in a plan"),
    ] {
        let (at, message) = problem(text);
        assert!(at == line && message.contains(word), "{text}: {at} {message}");
    }
}

#[test]
fn overlaps_and_contradictions_name_both_lines_and_gaps_theirs() {
    let check = |text: &str| check_plan(&read(text));
    let (problems, _) =
        check("a contact +0 +10 1 2 5\na range +0 +99 1 2 1\na contact +9 +12 1 2 6\n");
    assert_eq!(problems[0].declared_at, ["line 1", "line 3"]);
    assert_eq!(
        problems[0].text,
        "1 to 2: contacts contradict each other from 9 s to 10 s: 40 and 48 bit/s"
    );
    let (problems, _) = check("a contact +0 +10 1 2 5\na contact +0 +10 1 2 5\n");
    assert_eq!(problems[0].text, "1 to 2: duplicate contact");
    // A short contact inside a long one does not hide the next one.
    let (problems, _) =
        check("a contact +0 +90 1 2 5\na contact +5 +9 1 2 5\na contact +50 +95 1 2 5\n");
    assert_eq!(
        problems.iter().map(|one| one.declared_at.join(" ")).collect::<Vec<_>>(),
        ["line 1 line 2", "line 1 line 3"]
    );
    let (problems, _) = check("a range +0 +10 1 2 5\na range +4 +12 1 2 6\n");
    assert_eq!(
        problems[0].text,
        "1 to 2: ranges contradict each other from 4 s to 10 s: 5 s and 6 s"
    );
    // Adjacent contacts do not overlap; the reverse direction is another contact.
    let fine = "a contact +0 +10 1 2 5\na contact +10 +20 1 2 9\na contact +0 +20 2 1 5\na range +0 +20 1 2 1\n";
    assert_eq!(check(fine), (vec![], vec![]));
    let (_, warnings) = check(
        "a contact +0 +50 1 2 5\na range +10 +20 1 2 1\na range +30 +40 1 2 1\na contact +0 +9 1 3 5\n",
    );
    let warnings: Vec<String> =
        warnings.iter().map(|one| format!("{}: {}", one.declared_at.join(" "), one.text)).collect();
    assert_eq!(
        warnings,
        [
            "line 1: 1 to 2: no range from 0 s to 10 s, 20 s to 30 s, 40 s to 50 s, not used then",
            "line 1: 1 to 2: no return contact",
            "line 4: 1 to 3: contact without a range, never used",
            "line 4: 1 to 3: no return contact",
        ]
    );
    let (_, warnings) = check(
        "a contact +0 +9 1 2 5\na contact +0 +9 2 1 5\na range +0 +9 1 2 1\na range +0 +9 7 8 1\n",
    );
    assert_eq!(warnings[0].text, "7 to 8: range without a contact");
}

#[test]
fn light_times_include_the_margin_of_the_standard() {
    let plan = Plan::new(&read("a contact +0 +100000 1 2 1000000\na range +0 +100000 1 2 1200\n"))
        .unwrap();
    let load = contacts::RouteDemand::best_case(&[], 0.0);
    let (from, to) = (plan.node("1").unwrap(), plan.node("2").unwrap());
    let route = contacts::ContactGraphSearch::default()
        .find_route(&plan, &load, from, to, Time::ZERO)
        .unwrap();
    // 2.4.2: 125 / 186,282 of 1,200 s are 0.805 s
    assert_eq!(route.arrival, Time::ZERO + Span::from_secs(1200) + Span(805_230_780));
}

fn text_of(
    characters: &str,
    length: std::ops::RangeInclusive<usize>,
) -> impl Strategy<Value = String> + use<> {
    let one = proptest::sample::select(characters.chars().collect::<Vec<_>>());
    proptest::collection::vec(one, length).prop_map(String::from_iter)
}

fn parse_digits(max_digits: usize) -> impl Strategy<Value = String> {
    text_of("0123456789", 1..=max_digits)
}

fn nearly_right_line() -> impl Strategy<Value = String> {
    let what = proptest::sample::select(vec![
        "a contact",
        "a range",
        "d contact",
        "d range",
        "c contact",
        "@",
        "m horizon",
    ]);
    let from = prop_oneof![
        (text_of("+", 0..=1), parse_digits(20)).prop_map(|(sign, number)| sign + &number),
        Just("*".to_owned()),
        (0..10, 0..10).prop_map(|(hour, second)| format!("2026/11/22-1{hour}:00:0{second}")),
    ];
    let until = proptest::option::of(parse_digits(12));
    let confidence = proptest::option::of(text_of("0123456789.", 1..=4));
    (what, from, until, parse_digits(3), parse_digits(3), parse_digits(20), confidence).prop_map(
        |(what, from, until, one, other, rate, confidence)| {
            let until = until.map_or_else(String::new, |number| format!("+{number} "));
            let confidence = confidence.map_or_else(String::new, |share| format!(" {share}"));
            format!("{what} {from} {until}{one} {other} {rate}{confidence}")
        },
    )
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in text_of("acdm@^ 0123456789+*/:.-x\n#", 0..=200)) {
        check_parse(&text);
    }

    #[test]
    fn nearly_right_lines_are_read_or_refused(
        lines in proptest::collection::vec(nearly_right_line(), 0..12),
    ) {
        check_parse(&lines.join("\n"));
    }
}

fn check_parse(text: &str) {
    let found = ion::parse(text);
    let lines = text.lines().count();
    assert!(found.problems.iter().chain(&found.notes).all(|one| (1..=lines).contains(&one.0)));
    if check_plan(&found.spec).0.is_empty() {
        Plan::new(&found.spec).expect("a plan without problems");
    }
}
