//! Tests of ion.

use super::*;

#[test]
fn days_of_the_calendar() {
    assert_eq!(parse_calendar("1970/01/01-00:00:00"), Some(0));
    assert_eq!(parse_calendar("2000/02/29-00:00:00"), Some(951_782_400));
    assert_eq!(parse_calendar("2008/10/05-11:30:00"), Some(1_223_206_200));
    assert_eq!(parse_calendar("2026/11/22-12:00:00"), Some(1_795_348_800));
    for wrong in
        ["2026/02/29-00:00:00", "2026/13/01-00:00:00", "2026/1/01-00:00:00", "1969/12/31-23:59:59"]
    {
        assert_eq!(parse_calendar(wrong), None, "{wrong}");
    }
}
