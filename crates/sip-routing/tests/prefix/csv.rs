//! Tables from CSV files.

use super::{GROUPS, shown};
use sip_routing::prefix::{BadRows, Builder, CsvReader, PrefixTable};

/// The table of a file that is read in pieces of this size.
fn read(text: &[u8], piece: usize) -> Result<PrefixTable, BadRows> {
    let mut builder = Builder::new(GROUPS);
    let mut reader = CsvReader::new();
    for chunk in text.chunks(piece) {
        reader.read(chunk, &mut builder);
    }
    reader.finish(&mut builder);
    builder.build()
}

/// The error of a file, which does not depend on the size of the pieces.
fn error(text: &[u8]) -> String {
    let error = |piece| read(text, piece).expect_err("a bad row").to_string();
    let whole = error(usize::MAX);
    for piece in [1, 2, 7, 4096] {
        assert_eq!(error(piece), whole, "in pieces of {piece}");
    }
    whole
}

#[test]
fn columns_are_found_by_their_names() {
    for text in [
        "table,prefix,groups\nretail,49,paris;berlin\n,44,tokyo\n",
        "table,prefix,groups\r\nretail,49,paris;berlin\r\n,44,tokyo",
        "\u{feff}\n Prefix ,rate,\"Groups\",TABLE\n\n+49,\"0,01\",\"paris; berlin\",retail\r\n  \n\"44\",,tokyo,\"\"\r\n",
    ] {
        for piece in [1, 3, 1_000] {
            let table = read(text.as_bytes(), piece).expect("good rows");
            let found = shown(table.lookup("retail", b"4930"));
            assert_eq!(found, Some((2, "paris;berlin".to_owned())), "{text:?}");
            let found = shown(table.lookup("", b"4420"));
            assert_eq!(found, Some((2, "tokyo".to_owned())), "{text:?}");
        }
    }
}

#[test]
fn without_a_column_for_it_all_rows_are_of_the_default_table() {
    let table = read(b"prefix,groups\n#31#,paris\n", 5).expect("good rows");
    assert_eq!(table.tables().collect::<Vec<_>>(), [("default", 1)]);
    assert!(table.lookup("", b"#31#030").is_some());
}

#[test]
fn bad_lines_are_named_and_the_others_read() {
    let long = "9".repeat(10_000);
    let fields = ",".repeat(100);
    let text = [
        "table,prefix,groups",
        "retail,49",
        "retail,\"49,paris",
        "",
        &long,
        "retail,49x,paris",
        &fields,
        "retail,44,paris",
        "retail,44,tokyo",
        &long,
    ]
    .join("\n");
    assert_eq!(
        error(text.as_bytes()),
        "7 bad rows\n\
         line 2: the line has 2 fields, and the column groups is number 3\n\
         line 3: a quote is not closed; write a quote inside a quoted field twice\n\
         line 5: the line is longer than 4096 bytes\n\
         line 6: the prefix \"49x\" contains 'x'; allowed are 0-9, *, #, A-D, one leading +, and the word default\n\
         line 7: the line has more than 64 fields\n\
         line 9: the prefix 44 of table retail has other groups in line 8; remove one of the rows\n\
         line 10: the line is longer than 4096 bytes"
    );
    assert_eq!(
        error(b"prefix,groups\n49,par\xe9s\n"),
        "1 bad row\nline 2: the line is not UTF-8; save the file as UTF-8"
    );
}

#[test]
fn a_file_without_heading_is_one_error() {
    for (text, line) in [
        ("", 1),
        ("\n\n", 1),
        ("49,paris\n44,tokyo\n", 1),
        ("\nprefix,group\n49,paris\n", 2),
        ("prefix,groups,prefix\n49,paris,48\n", 1),
        ("prefix,groups\r49,paris\r44,tokyo\r", 1),
        ("prefix;groups\n49;paris\n", 1),
    ] {
        let error = error(text.as_bytes());
        let expected = format!(
            "1 bad row\nline {line}: the first line is not a heading with the columns prefix and groups, and table if you need it, once each: "
        );
        assert!(error.starts_with(&expected), "{text:?}: {error}");
    }
    let long = format!("prefix,groups,{}\n49,paris\n", "x".repeat(5_000));
    assert_eq!(
        error(long.as_bytes()),
        "1 bad row\nline 1: the line is longer than 4096 bytes"
    );
}
