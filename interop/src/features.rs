//! All features of the server at once, behind every test: `INTEROP_FEATURES=all`. Each call then passes rules, limits and prefixes and has a
//! record, and none of them changes what becomes of it.

use std::fmt::Write as _;
use std::path::Path;

/// Limits that no test reaches, rules that do not match, and a last one that matches everything.
const POLICY: &str = r#"
[call_limits]
max_calls = 1000000
calls_per_second = 100000
source_max_calls = 1000000
source_calls_per_second = 100000
subscriber_max_calls = 1000000
subscriber_calls_per_second = 100000

[[network]]
name = "everywhere"
addresses = ["0.0.0.0/0", "::/0"]

[[limit]]
name = "of-network"
networks = ["everywhere"]
max_calls = 1000000

[[limit]]
name = "of-rule"
max_calls = 1000000
calls_per_second = 100000

[[gateway]]
name = "first"
destination = "sip:192.0.2.1"
max_calls = 1000000
calls_per_second = 100000
probe = false

[[gateway]]
name = "second"
destination = "sip:192.0.2.2"
probe = false

[[group]]
name = "elsewhere"
members = ["first", "second"]

[[rule]]
name = "blocked"
user = ["+900*", "00900*"]
action = "refuse"

[[rule]]
name = "premium"
header = ["X-No-Test: *"]
action = "group"
group = "elsewhere"

[[rule]]
name = "numbers"
method = ["INVITE"]
user = ["+999*"]
action = "prefixes"

[[rule]]
name = "the-rest"
source = ["everywhere"]
action = "local"
limit = "of-rule"
"#;

/// The sections to append to a configuration: those that it lacks. A configuration with rules of its own, or of an open
/// relay, gets records only.
///
/// # Panics
///
/// If `INTEROP_FEATURES` has another value than `all`, or the prefixes cannot be written.
pub(crate) fn sections(configuration: &str, folder: &Path) -> String {
    let mut sections = String::new();
    match std::env::var("INTEROP_FEATURES").as_deref() {
        Err(_) => return sections,
        Ok("all") => {}
        Ok(other) => panic!("INTEROP_FEATURES={other}: must be all"),
    }
    // With limits, an INVITE with a To tag outside our dialogs gets 481. A message of RFC 4475 is one, and has to be relayed.
    let own = [
        "[call_limits]",
        "[[limit]]",
        "[[rule]]",
        "[[gateway]]",
        "foreign = \"relay\"",
    ];
    if !own.iter().any(|section| configuration.contains(section)) {
        let file = folder.join("prefixes.csv");
        let rows = (10_000..110_000).map(|prefix| format!("{prefix},elsewhere\n"));
        let prefixes = format!("prefix,groups\n{}", rows.collect::<String>());
        std::fs::write(&file, prefixes).expect("prefixes");
        let file = file.display();
        let _ = writeln!(
            sections,
            "{POLICY}\n[prefixes]\nsource = \"file\"\nfile = \"{file}\""
        );
    }
    if !configuration.contains("[records]") {
        let file = folder.join("records.jsonl");
        let _ = writeln!(sections, "\n[records]\nfile = \"{}\"", file.display());
    }
    sections
}
