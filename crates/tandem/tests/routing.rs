//! Routing as operators run it: what `tandem check` finds, gateways and prefixes of a running server, and reloads that apply all or nothing.
mod common;

use common::{Place, call, metric, none, run, text};
use serde_json::{Value, json};
use sqlx::Connection as _;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use tandem::serve::Server;

const RECIPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/routing");

const GATEWAYS: &str = r#"
[[gateway]]
name = "berlin-1"
destination = "sip:192.0.2.10"
max_calls = 300
probe = false

[[gateway]]
name = "berlin-2"
destination = "sip:192.0.2.11"
probe = false

[[group]]
name = "berlin"
algorithm = "round_robin"
members = ["berlin-1", { gateway = "berlin-2", priority = 1 }]

[[group]]
name = "world"
members = ["berlin-2"]

[[limit]]
name = "customer-7"
networks = ["198.51.100.7"]
max_calls = 30
calls_per_second = 0.5

[call_limits]
source_max_calls = 4

[[rule]]
name = "blocked"
user = ["+88*"]
action = "refuse"
status = 603

[[rule]]
name = "numbers"
method = ["INVITE"]
user = ["00*"]
action = "prefixes"
strip = 2
prefix = "+"
"#;

/// The lines of a configuration with prefixes from a file in this directory.
fn with_prefixes(place: &Place, rows: &str) -> String {
    let file = place.file().with_file_name("prefixes.csv");
    std::fs::write(&file, rows).expect("the file is written");
    format!(
        "{GATEWAYS}\n[prefixes]\nsource = \"file\"\nfile = \"{}\"\n",
        file.display()
    )
}

/// A server with these prefixes.
async fn start(rows: &str) -> (Place, Server) {
    let place = Place::new("");
    let more = with_prefixes(&place, rows);
    place.configure(&more);
    place.start_alone().await
}

/// `tandem ctl <words>` for this server.
async fn ctl(server: &Server, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    let address = server.admin_address().to_string();
    command.arg("ctl").args(words).args(["--admin", &address]);
    command.env_remove("TANDEM_CONFIG");
    let output = tokio::task::spawn_blocking(move || command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.expect("no panic").expect("the program runs");
    match status.code() {
        Some(0) => Ok(text(&stdout)),
        _ => Err(text(&stderr)),
    }
}

/// `tandem check` of a file, run in its directory.
fn check(file: &Path) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    command.arg("check").arg("--config").arg(file);
    command.current_dir(file.parent().expect("a directory"));
    let output = command.output().expect("the program runs");
    match output.status.code() {
        Some(0) => Ok(text(&output.stdout)),
        _ => Err(text(&output.stderr)),
    }
}

const ROWS: &str = "prefix,groups\n4930,berlin;world\n49,world\n";

#[test]
fn every_recipe_is_a_valid_configuration() {
    let page =
        std::fs::read_to_string(format!("{RECIPES}/../../docs/routing.md")).expect("the page");
    let mut recipes = 0;
    for entry in std::fs::read_dir(RECIPES).expect("the directory") {
        let file = entry.expect("an entry").path();
        let name = file
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let checked = check(&file);
        let summary = checked.unwrap_or_else(|problem| panic!("{name}: {problem}"));
        assert!(
            summary.contains("\nrouting       gateways: "),
            "{name}: {summary}"
        );
        assert!(!summary.contains("WARNING"), "{name}: {summary}");
        let link = format!("(../deploy/routing/{name})");
        assert!(page.contains(&link), "docs/routing.md does not name {name}");
        recipes += 1;
    }
    assert_eq!(recipes, 10);
}

#[test]
fn wrong_rows_of_prefixes_keep_a_server_from_starting_and_check_names_them() {
    let place = Place::new("");
    let rows = "prefix,groups\n4930,berlin\n49x,berlin\n,world\n50,munich\n4930,world\n";
    let more = with_prefixes(&place, rows);
    place.configure(&more);
    let problem = check(&place.file()).expect_err("rows are wrong");
    for expected in [
        "line 3: the prefix \"49x\" contains 'x'; allowed are 0-9, *, #, A-D, one leading +, and the word default",
        "line 4: the prefix is empty; for the route of all other numbers, write default",
        "line 5: the gateway group \"munich\" is not configured; configured: berlin, world",
        "line 6: the prefix 4930 of table default has other groups in line 2; remove one of the rows",
    ] {
        assert!(
            problem.contains(expected),
            "{expected} is not in\n{problem}"
        );
    }
    assert!(
        problem.lines().all(|line| line.contains("tandem.toml:")),
        "{problem}"
    );
    run(async {
        let configuration = tandem::config::load(Some(&place.file())).expect("it is right");
        let started = Server::start(Some(place.file()), configuration, None).await;
        let problem = started.expect_err("rows are wrong").to_string();
        assert!(
            problem.contains("prefixes.csv, line 3: the prefix \"49x\""),
            "{problem}"
        );
    });
}

#[test]
fn a_rule_for_a_prefix_table_that_the_file_does_not_have_is_found_by_check() {
    let place = Place::new("");
    let more = with_prefixes(&place, "table,prefix,groups\nretail,49,berlin\n");
    place.configure(&more.replace(
        "action = \"prefixes\"",
        "action = \"prefixes\"\nprefixes = \"retial\"",
    ));
    let problem = check(&place.file()).expect_err("there is no such table");
    let expected = "rule \"numbers\": prefixes: \"retial\" is unknown; known are: retail, default";
    assert!(problem.contains(expected), "{problem}");
}

#[test]
fn check_warns_of_gateways_without_an_address_and_refuses_the_server_itself() {
    let gateway = |port| {
        format!(
            "[[gateway]]\nname = \"a\"\ndestination = \"sip:localhost:{port};transport=udp\"\n[dns]\nservers = [\"127.0.0.1:9\"]\n\
             timeout = \"50ms\"\nattempts = 0\n"
        )
    };
    let listen = "[[listen]]\naddress = \"127.0.0.1:5098\"\n";
    let place = Place::new("");
    let database = format!("[database]\nurl = \"{}\"\n", place.database_url());
    let checked = |more: &str| {
        place.configure_exactly(&format!("{listen}{database}{more}"));
        check(&place.file())
    };
    let own = checked(&gateway(5098)).expect("a warning only");
    assert!(
        own.contains("is at 127.0.0.1:5098, a listener of this server"),
        "{own}"
    );
    let other = checked(&gateway(5099)).expect("it is right");
    assert!(!other.contains("gateway `a`"), "{other}");
    let unknown = checked(&gateway(5099).replace("localhost", "trunk.invalid")).expect("a warning");
    assert!(unknown.contains("gateway `a`: "), "{unknown}");
    let address = gateway(5098).replace("localhost", "127.0.0.1");
    let refused = checked(&address).expect_err("it is this server");
    assert!(
        refused.contains("127.0.0.1:5098 is a listener of this server"),
        "{refused}"
    );
}

#[test]
fn prefixes_are_replaced_as_a_whole_or_not_at_all() {
    run(async {
        let (place, server) = start(ROWS).await;
        let lookup = async |number| {
            let found = call(&server, "prefixes.lookup", json!({ "number": number })).await;
            found.expect("a number")["candidates"].clone()
        };
        let berlin = json!({ "prefix": "4930", "groups": ["berlin", "world"] });
        let germany = json!({ "prefix": "49", "groups": ["world"] });
        assert_eq!(
            lookup("+49 30 123".replace(' ', "-")).await,
            json!([berlin, germany])
        );
        let before = server.running().policy.load_full();
        with_prefixes(&place, "prefix,groups\n4930,world\n4x,world\n31,nowhere\n");
        let refused = call(&server, "prefixes.reload", none()).await;
        let problem = refused.expect_err("rows are wrong");
        let lines: Vec<&str> = problem.lines().collect();
        assert_eq!(
            lines[0],
            "prefixes.reload: nothing changed: the prefixes have errors"
        );
        assert!(
            lines[1].contains("prefixes.csv, line 3: the prefix \"4x\""),
            "{problem}"
        );
        assert!(
            lines[2].contains("prefixes.csv, line 4: the gateway group \"nowhere\""),
            "{problem}"
        );
        assert_eq!(lookup("4930123".to_owned()).await, json!([berlin, germany]));
        assert!(std::sync::Arc::ptr_eq(
            &before,
            &server.running().policy.load_full()
        ));
        with_prefixes(&place, "prefix,groups\n4930,world\n");
        let applied = call(&server, "prefixes.reload", none())
            .await
            .expect("right");
        assert_eq!(applied["prefixes"], 1);
        let world = json!({ "prefix": "4930", "groups": ["world"] });
        assert_eq!(lookup("4930123".to_owned()).await, json!([world]));
        assert_eq!(metric(&server, "tandem_prefixes").await, 1);
        let reloads = |result| format!("tandem_prefix_reloads_total{{result=\"{result}\"}}");
        assert_eq!(metric(&server, &reloads("applied")).await, 1);
        assert_eq!(metric(&server, &reloads("rejected")).await, 1);
        let no_number = call(&server, "prefixes.lookup", json!({ "number": "alice" })).await;
        assert!(no_number.is_err_and(|problem| problem.contains("must be a telephone number")));
    });
}

#[test]
fn a_reload_of_the_configuration_reads_prefixes_again_and_names_wrong_rows() {
    run(async {
        let (place, server) = start(ROWS).await;
        let more = with_prefixes(&place, "prefix,groups\n49,world\n5,\n");
        place.configure(&format!("{more}[timers]\nt1 = \"200ms\"\n"));
        let problem = call(&server, "config.reload", none())
            .await
            .expect_err("wrong");
        assert!(
            problem.starts_with("config.reload: nothing changed: the routing has errors\n"),
            "{problem}"
        );
        assert!(
            problem.contains("prefixes.csv, line 3: there is no gateway group"),
            "{problem}"
        );
        assert_eq!(server.running().policy.load().prefixes.len(), 2);
        with_prefixes(&place, "prefix,groups\n49,world\n5,world\n51,world\n");
        let changed = call(&server, "config.reload", none()).await;
        assert_eq!(changed, Ok(json!({ "changed": ["timers.t1"] })));
        assert_eq!(server.running().policy.load().prefixes.len(), 3);
        // The prefixes name the group `world`.
        place.configure(&more.replace("name = \"world\"", "name = \"earth\""));
        let problem = call(&server, "config.reload", none())
            .await
            .expect_err("wrong");
        assert!(
            problem.contains("line 2: the gateway group \"world\" is not configured"),
            "{problem}"
        );
    });
}

#[test]
fn gateways_are_listed_disabled_and_enabled_and_reloads_keep_their_state() {
    run(async {
        let (place, server) = start(ROWS).await;
        let list = ctl(&server, &["gateways", "list"]).await.expect("a list");
        let expected = "\
GATEWAY   DESTINATION     STATE     CALLS     TRIED  ANSWERED  REFUSED  FAILED  SKIPPED
berlin-1  sip:192.0.2.10  unprobed  0 of 300      0         0        0       0        0
berlin-2  sip:192.0.2.11  unprobed  0             0         0        0       0        0
";
        assert_eq!(list, expected);
        let disabled = ctl(&server, &["gateways", "disable", "berlin-1"]).await;
        assert_eq!(
            disabled.as_deref(),
            Ok("berlin-1: changed; it has 0 calls\n")
        );
        let again = ctl(&server, &["gateways", "disable", "berlin-1"]).await;
        assert_eq!(
            again.as_deref(),
            Ok("berlin-1: nothing changed; it has 0 calls\n")
        );
        place.configure(&with_prefixes(&place, ROWS).replace("max_calls = 300", "max_calls = 200"));
        let changed = call(&server, "config.reload", none()).await;
        assert_eq!(changed, Ok(json!({ "changed": ["gateway"] })));
        let get = ctl(&server, &["gateways", "get", "berlin-1"])
            .await
            .expect("a gateway");
        assert!(get.contains("\nstate             disabled for "), "{get}");
        assert!(get.contains("\ngroups            berlin\n"), "{get}");
        assert!(get.contains("\ncalls             0 of 200\n"), "{get}");
        let state =
            |state| format!("tandem_gateway_state{{gateway=\"berlin-1\",state=\"{state}\"}}");
        assert_eq!(metric(&server, &state("disabled")).await, 1);
        assert_eq!(metric(&server, &state("active")).await, 0);
        let out = ctl(
            &server,
            &["gateways", "list", "--state", "disabled", "--json"],
        )
        .await;
        let out: Value = serde_json::from_str(&out.expect("a list")).expect("JSON");
        assert_eq!(out["gateways"].as_array().map(Vec::len), Some(1));
        let groups = ctl(&server, &["groups", "list"]).await.expect("groups");
        assert!(
            groups.contains("berlin  round_robin         0       1  berlin-1  disabled      0\n"),
            "{groups}"
        );
        let enabled = ctl(&server, &["gateways", "enable", "berlin-1"]).await;
        assert_eq!(
            enabled.as_deref(),
            Ok("berlin-1: changed; it has 0 calls\n")
        );
        let unknown = ctl(&server, &["gateways", "get", "berlin1"])
            .await
            .expect_err("unknown");
        assert!(
            unknown.contains("there is no gateway \"berlin1\": did you mean \"berlin-1\"?"),
            "{unknown}"
        );
    });
}

#[test]
fn limits_rules_and_prefixes_are_shown_to_people() {
    run(async {
        let (_place, server) = start(ROWS).await;
        let limits = ctl(&server, &["limits", "list"]).await.expect("limits");
        assert!(
            limits.contains("\ncustomer-7  network         30         0.5"),
            "{limits}"
        );
        assert!(
            limits.contains("\noverall     overall          -           -"),
            "{limits}"
        );
        assert!(limits.contains("\nsource                 4"), "{limits}");
        let rules = ctl(&server, &["rules", "list"]).await.expect("rules");
        let expected = "\
RULE     ACTION            AUTHENTICATE  LIMIT  MATCHES
blocked  refuse 603        -             -            0
numbers  prefixes default  -             -            0
";
        assert_eq!(rules, expected);
        let found = ctl(&server, &["prefixes", "lookup", "+4930123"]).await;
        assert_eq!(
            found.as_deref(),
            Ok(
                "4930123 in table default:\nPREFIX  GROUPS\n  4930  berlin, world  decides\n    49  world\n"
            )
        );
        let stats = ctl(&server, &["prefixes", "stats"]).await.expect("stats");
        assert!(stats.contains("\nprefixes         2\n"), "{stats}");
        let reloaded = ctl(&server, &["prefixes", "reload"])
            .await
            .expect("reloaded");
        assert!(
            reloaded.starts_with("reloaded 2 prefixes in "),
            "{reloaded}"
        );
    });
}

#[test]
fn explain_shows_the_rule_the_edited_number_the_prefix_and_the_gateways() {
    run(async {
        let (_place, server) = start(ROWS).await;
        call(&server, "gateways.disable", json!({ "name": "berlin-1" }))
            .await
            .expect("disabled");
        let words = [
            "routes",
            "explain",
            "sip:004930123@h",
            "--source",
            "198.51.100.7",
        ];
        let explained = ctl(&server, &words).await.expect("an explanation");
        let expected = "\
1  blocked: user is \"004930123\"
2  numbers: matches

action       prefixes default
Request-URI  sip:+4930123@h
limits       customer-7

4930123 in table default:
PREFIX  GROUPS
  4930  berlin, world  decides
    49  world

GROUP   GATEWAY   VERDICT
berlin  berlin-2  try
berlin  berlin-1  disabled
world   berlin-2  tried
";
        assert_eq!(explained, expected);
        let ordinary = ctl(&server, &["routes", "explain", "sip:alice@h"]).await;
        let ordinary = ordinary.expect("an explanation");
        assert!(
            ordinary.contains("no rule matches: the ordinary way"),
            "{ordinary}"
        );
        let rules = call(&server, "rules.list", none()).await.expect("rules");
        assert_eq!(rules["rules"][1]["matches"], 0, "explaining counts nothing");
    });
}

/// The command of each transcript on the page, and what the page says that it prints.
fn transcripts(page: &str) -> Vec<(Vec<String>, String)> {
    let commands = page.split("```sh\ntandem ctl routes explain ").skip(1);
    let transcripts = commands.map(|rest| {
        let (words, rest) = rest.split_once("\n```\n```\n").expect("an output");
        let (output, _) = rest.split_once("```").expect("its end");
        let words = words.split(' ').map(str::to_owned).collect();
        (words, output.to_owned())
    });
    transcripts.collect()
}

#[test]
fn the_transcripts_of_the_page_are_what_the_program_prints() {
    run(async {
        let page = std::fs::read_to_string(format!("{RECIPES}/../../docs/routing.md"));
        let transcripts = transcripts(&page.expect("the page"));
        assert!(!transcripts.is_empty());
        let (_place, server) = start(ROWS).await;
        call(&server, "gateways.disable", json!({ "name": "berlin-1" }))
            .await
            .expect("disabled");
        for (words, expected) in transcripts {
            let words = words.iter().map(String::as_str);
            let words: Vec<&str> = ["routes", "explain"].into_iter().chain(words).collect();
            assert_eq!(
                ctl(&server, &words).await.expect("an explanation"),
                expected
            );
        }
    });
}

#[test]
fn explain_sees_the_request_as_rules_do() {
    run(async {
        let (_place, server) = start(ROWS).await;
        let listener = server.running().listeners[0].address;
        // `maddr` and a Route name this server: the called number is behind them.
        let uri = format!("sip:004930123@example.net;maddr={}", listener.ip());
        let params = json!({ "uri": uri, "header": format!("Route: <sip:{listener};lr>") });
        let explained = call(&server, "routes.explain", params).await;
        let explained = explained.expect("an explanation");
        assert_eq!(explained["way"], "gateways", "{explained}");
        assert_eq!(explained["rule"]["name"], "numbers");
        let acks = json!({ "uri": "sip:1@h", "method": "ACK" });
        let refused = call(&server, "routes.explain", acks).await;
        assert!(refused.expect_err("an ACK").contains("follows its INVITE"));
    });
}

#[test]
fn prefixes_come_from_a_view_of_the_database() {
    run(async {
        let place = Place::new("");
        place.start().await.stop(true).await;
        let mut database = sqlx::SqliteConnection::connect(&place.database_url())
            .await
            .expect("open");
        let schema = "CREATE TABLE rates (number INTEGER, plan TEXT, carriers TEXT);
            INSERT INTO rates VALUES (4930, 'gold', 'berlin;world'), (49, 'gold', 'world'), (49, '', 'world');
            CREATE VIEW routes AS SELECT number, plan, carriers FROM rates WHERE carriers IS NOT NULL;";
        sqlx::raw_sql(schema)
            .execute(&mut database)
            .await
            .expect("created");
        let more = format!(
            "{GATEWAYS}\n[prefixes]\nsource = \"database\"\ntable = \"routes\"\nprefix_column = \"number\"\ngroups_column = \"carriers\"\n\
             callers_column = \"plan\"\n"
        );
        place.configure(&more.replace(
            "action = \"prefixes\"",
            "action = \"prefixes\"\nprefixes = \"gold\"",
        ));
        assert!(check(&place.file()).is_ok());
        let server = place.start().await;
        let gold = json!({ "number": "4930123", "table": "gold" });
        let found = call(&server, "prefixes.lookup", gold)
            .await
            .expect("a number");
        assert_eq!(
            found["candidates"][0],
            json!({ "prefix": "4930", "groups": ["berlin", "world"] })
        );
        let bad = "INSERT INTO rates VALUES (50, 'gold', 'munich')";
        sqlx::raw_sql(bad)
            .execute(&mut database)
            .await
            .expect("inserted");
        let problem = call(&server, "prefixes.reload", none())
            .await
            .expect_err("a wrong row");
        let expected = "table routes, row 4: the gateway group \"munich\" is not configured";
        assert!(problem.contains(expected), "{problem}");
        let complaint = check(&place.file()).expect_err("a wrong row");
        assert!(complaint.contains(expected), "{complaint}");
        assert!(complaint.contains("tandem.toml:"), "{complaint}");
        sqlx::raw_sql("DROP VIEW routes")
            .execute(&mut database)
            .await
            .expect("dropped");
        let problem = call(&server, "prefixes.reload", none())
            .await
            .expect_err("no view");
        assert!(problem.contains("routes"), "{problem}");
        assert_eq!(server.running().policy.load().prefixes.len(), 3);
    });
}

#[test]
fn a_hundred_thousand_prefixes_are_replaced_while_the_server_answers() {
    run(async {
        let rows = |group: &str| {
            let mut rows = "prefix,groups\n".to_owned();
            for number in 0..100_000 {
                let _ = writeln!(rows, "49{number:06},{group}");
            }
            rows
        };
        let (place, server) = start(&rows("berlin")).await;
        with_prefixes(&place, &rows("world"));
        let reloaded = call(&server, "prefixes.reload", none())
            .await
            .expect("right");
        assert_eq!(reloaded["prefixes"], 100_000);
        let found = call(
            &server,
            "prefixes.lookup",
            json!({ "number": "49000007123" }),
        )
        .await;
        assert_eq!(
            found.expect("a number")["candidates"][0]["groups"],
            json!(["world"])
        );
        assert!(metric(&server, "tandem_prefix_table_bytes").await < 10_000_000);
    });
}
