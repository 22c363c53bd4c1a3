//! A table with a bad row is rejected as a whole, with all bad rows named.

use super::{GROUPS, problems};
use sip_routing::prefix::{BadRows, Builder};

#[test]
fn each_bad_row_is_named_with_its_value_and_what_is_allowed() {
    let many = ["berlin"; 17].join(";");
    let name = "x".repeat(65);
    let digits = "1".repeat(33);
    for (row, expected) in [
        (
            ("", "", "paris"),
            "the prefix is empty; for the route of all other numbers, write default",
        ),
        (("", " + ", "paris"), "the prefix is empty"),
        (
            ("", "4x9", "paris"),
            "the prefix \"4x9\" contains 'x'; allowed are 0-9, *, #, A-D, one leading +",
        ),
        (("", "++49", "paris"), "\"++49\" contains '+'"),
        (("", "49-30", "paris"), "\"49-30\" contains '-'"),
        (("", "4 9", "paris"), "\"4 9\" contains ' '"),
        (("", "٤٩", "paris"), "contains '٤'"),
        (("", "Default", "paris"), "\"Default\" contains 'e'"),
        (("", &digits, "paris"), "has 33 digits; the maximum is 32"),
        (
            ("", "49", ""),
            "there is no gateway group; write one or several, separated by semicolons",
        ),
        (("", "49", " "), "there is no gateway group"),
        (
            ("", "49", "paris;;berlin"),
            "the groups \"paris;;berlin\" contain an empty name",
        ),
        (("", "49", "paris;"), "contain an empty name"),
        (
            ("", "49", "paris;rome"),
            "the gateway group \"rome\" is not configured; configured: berlin, london, paris, tokyo",
        ),
        (
            ("", "49", "paris,berlin"),
            "the gateway group \"paris,berlin\" is not configured",
        ),
        (
            ("", "49", "paris;berlin;paris"),
            "the gateway group \"paris\" is listed twice",
        ),
        (
            ("re tail", "49", "paris"),
            "the table \"re tail\" has no valid name; allowed are 1 to 64 of a-z, A-Z, 0-9, - and _",
        ),
        ((&name, "49", "paris"), "has no valid name"),
        (("", "49\u{1b}[2J", "paris"), "\"49\\u{1b}[2J\" contains"),
    ] {
        let [(1, problem)] = &problems(&[row])[..] else {
            panic!("{row:?} is one bad row");
        };
        let text = problem.to_string();
        assert!(text.contains(expected), "{row:?}: {text}");
        assert!(text.len() < 250, "{text}");
    }
    let groups: Vec<String> = (0..17).map(|number| format!("gateway-{number}")).collect();
    let names = || groups.iter().map(String::as_str);
    let mut builder = Builder::new(names());
    builder.row(1, "", "49", &groups.join(";"));
    builder.row(2, "", "48", &many);
    let bad = builder.build().expect_err("17 groups, and an unknown one");
    assert_eq!(
        bad.to_string(),
        "2 bad rows\n\
         line 1: the list has more than 16 gateway groups\n\
         line 2: the gateway group \"berlin\" is not configured; configured: gateway-0, gateway-1, gateway-10, gateway-11, gateway-12, \
         gateway-13, gateway-14, gateway-15, gateway-16, gateway-2 and 7 more"
    );
}

#[test]
fn rows_that_contradict_name_each_other() {
    let long = "12345678901234567890";
    let found = problems(&[
        ("", "49", "paris;berlin"),
        ("retail", "49", "tokyo"),
        ("", "default", "paris"),
        ("", long, "paris"),
        ("default", "+49", "berlin;paris"),
        ("retail", "49", "london"),
        ("", "default", "tokyo"),
        ("", "49", "paris;berlin"),
        ("", long, "tokyo"),
        ("", "49", "tokyo"),
    ]);
    let texts: Vec<String> = found
        .iter()
        .map(|(line, problem)| format!("{line}: {problem}"))
        .collect();
    let expected = |line: u32, prefix: &str, table: &str, first: u32| {
        format!(
            "{line}: the prefix {prefix} of table {table} has other groups in line {first}; remove one of the rows"
        )
    };
    assert_eq!(
        texts,
        [
            expected(5, "49", "default", 1),
            expected(6, "49", "retail", 2),
            expected(7, "default", "default", 3),
            expected(9, long, "default", 4),
            expected(10, "49", "default", 1),
        ]
    );
}

#[test]
fn the_first_hundred_bad_rows_are_named_and_all_are_counted() {
    let mut builder = Builder::new(GROUPS);
    // In descending order, and the contradictions are found last.
    for line in (1..=1_000).rev() {
        let prefix = if line % 2 == 0 { "49" } else { "x" };
        let group = if line == 1_000 { "paris" } else { "tokyo" };
        builder.row(line, "", prefix, group);
    }
    let bad = builder.build().expect_err("999 bad rows");
    assert_eq!(bad.count(), 999);
    let lines: Vec<u32> = bad.first().iter().map(|row| row.line).collect();
    assert_eq!(lines, (1..=100).collect::<Vec<u32>>());
    assert_eq!(lines.len(), BadRows::MAX_KEPT);
    let text = bad.to_string();
    assert!(
        text.starts_with("999 bad rows\nline 1: the prefix \"x\""),
        "{text}"
    );
    assert!(text.ends_with("and 899 more"), "{text}");
}

#[test]
fn the_number_of_tables_is_bounded() {
    let mut builder = Builder::new(GROUPS);
    for line in 1..=1_025 {
        builder.row(line, &format!("table-{line}"), "49", "paris");
    }
    let bad = builder.build().expect_err("a table too many");
    assert_eq!(
        bad.to_string(),
        "1 bad row\nline 1025: the table \"table-1025\" is one too many; the maximum is 1024 tables"
    );
}

#[test]
fn the_number_of_lists_is_bounded() {
    let names: Vec<String> = (0..257).map(|number| format!("g{number}")).collect();
    let mut builder = Builder::new(names.iter().map(String::as_str));
    let mut line = 0;
    for one in &names {
        for other in names.iter().filter(|other| *other != one) {
            line += 1;
            builder.row(line, "", &line.to_string(), &format!("{one};{other}"));
        }
    }
    let bad = builder.build().expect_err("256 lists too many");
    assert_eq!(bad.count(), 257 * 256 - 65_536);
    let [first, ..] = bad.first() else {
        panic!("no row");
    };
    assert_eq!(
        first.to_string(),
        "line 65537: there are more than 65536 different lists of gateway groups"
    );
}

#[test]
fn the_number_of_rows_is_bounded() {
    let mut builder = Builder::new(GROUPS);
    for line in 1..=5_000_010 {
        builder.row(line, "", "49", "paris");
    }
    let bad = builder.build().expect_err("ten rows too many");
    assert_eq!(
        bad.to_string(),
        "1 bad row\nline 5000001: there are more than 5000000 rows; the rows from here on were not read"
    );
}
