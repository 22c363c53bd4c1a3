//! Wrong or impossible routes: what `tandem check` says, what a reload does, and what becomes of calls.
mod common;

use common::{Place, call, metric, none, run, text};
use serde_json::json;
use sip_stack::{Agent, CallEnd};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use tandem::serve::Server;

/// Everyone may call.
const OPEN: &str = "[auth]\nchallenge = []\n";

fn check(place: &Place) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tandem"));
    let command = command.arg("check").arg("--config").arg(place.file());
    let output = command.output().expect("the program runs");
    match output.status.code() {
        Some(0) => Ok(text(&output.stdout)),
        _ => Err(text(&output.stderr)),
    }
}

/// A phone of `alice`.
fn phone(server: SocketAddr) -> Agent {
    let agent = Agent::builder("sip:alice@tandem.localhost");
    let agent = agent.proxy(&format!("sip:{server};transport=udp"));
    agent.bind("udp:127.0.0.1:0").start().expect("a phone")
}

fn address(server: &Server) -> SocketAddr {
    server.running().listeners[0].address
}

/// How a call that is refused ends: status and reason phrase.
fn refused(server: SocketAddr, number: &str) -> String {
    let phone = phone(server);
    let uri = format!("sip:{number}@tandem.localhost");
    let call = phone.invite(&uri).session("v=0\r\n").send().expect("sent");
    match call.ended_within(common::PATIENCE) {
        Some(CallEnd::Rejected(response)) => {
            let message = response.message();
            format!("{} {}", message.status(), text(message.reason()))
        }
        other => panic!("the call should be refused: {other:?}"),
    }
}

/// A group `out` of these gateways, and a rule that sends numbers there.
fn to_gateways(destinations: &[String], more: &str) -> String {
    let gateways = destinations.iter().enumerate().map(|(number, uri)| {
        format!("[[gateway]]\nname = \"g{number}\"\ndestination = \"{uri}\"\nprobe = false\n")
    });
    let gateways: String = gateways.collect();
    let members = destinations.iter().enumerate();
    let members =
        members.map(|(number, _)| format!("{{ gateway = \"g{number}\", priority = {number} }}"));
    let members: Vec<String> = members.collect();
    format!(
        "{OPEN}{gateways}[[group]]\nname = \"out\"\nmembers = [{}]\n\
         [[rule]]\nname = \"numbers\"\nuser = [\"+*\"]\naction = \"group\"\ngroup = \"out\"\n{more}",
        members.join(", ")
    )
}

/// A mistake in each section and rule, except the rules that make others unreachable.
const MISTAKEN: &str = r#"
[[gateway]]
name = "berlin"
destination = "sip:192.0.2.10"

[[group]]
name = "carriers"
members = ["berlyn"]

[[limit]]
name = "customer"
networks = ["costumer"]
max_calls = 0

[[rule]]
name = "group"
user = ["1*"]
action = "group"
group = "carrier"

[[rule]]
name = "limit"
user = ["2*"]
action = "local"
limit = "customers"

[[rule]]
name = "contradiction"
method = ["REGISTER"]
action = "group"
group = "carriers"
listener = ["tcp:127.0.0.1:5060"]

[[rule]]
name = "pattern"
user = ["sip:3*"]
action = "refuse"

[[rule]]
name = "prefixes"
user = ["4*"]
action = "prefixes"

[[rule]]
name = "broad"
user = ["5*"]
action = "refuse"

[[rule]]
name = "narrow"
user = ["55*"]
action = "local"

[[rule]]
name = "all"
action = "local"

[[rule]]
name = "last"
method = ["INVITE"]
action = "refuse"
"#;

#[test]
fn check_names_every_unknown_name_contradiction_and_dead_rule() {
    let place = Place::new("");
    place.configure(MISTAKEN);
    let complaint = check(&place).expect_err("much is wrong");
    for expected in [
        "(did you mean `berlin`?)",
        "\"costumer\" is unknown: it must be a network or an address",
        "rule \"group\": group: \"carrier\" is unknown; known are: carriers",
        "rule \"limit\": limit: \"customers\" is unknown; the configuration has none",
        "rule \"contradiction\": ",
        "rule \"pattern\": user: the pattern \"sip:3*\" begins with a scheme, which no user does",
        "rule \"prefixes\": prefixes: \"default\" is unknown; the configuration has none",
        "rule \"narrow\": the rule never matches, because \"broad\" above it matches everything that it matches",
        "rule \"last\": the rule never matches, because \"all\" above it matches every request",
    ] {
        assert!(complaint.contains(expected), "{expected}\n\n{complaint}");
    }
    let is_placed = |line: &str| line.contains("tandem.toml:");
    assert!(complaint.lines().all(is_placed), "{complaint}");
}

#[test]
fn overlapping_prefixes_are_right_and_the_longest_one_decides() {
    run(async {
        let place = Place::new("");
        let file = place.file().with_file_name("prefixes.csv");
        let rows = "prefix,groups\n49,out\n4930,out\n49301,out\n+49301,out\n";
        std::fs::write(&file, rows).expect("written");
        let prefixes = format!(
            "[prefixes]\nsource = \"file\"\nfile = \"{}\"\n",
            file.display()
        );
        place.configure(&to_gateways(&["sip:192.0.2.10".to_owned()], &prefixes));
        check(&place).expect("the last row repeats one");
        let server = place.start().await;
        let number = json!({ "number": "+49301" });
        let found = call(&server, "prefixes.lookup", number).await;
        let found = found.expect("a number");
        let prefixes: Vec<&str> = found["candidates"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|it| it["prefix"].as_str())
            .collect();
        assert_eq!(prefixes, ["49301", "4930", "49"]);
    });
}

#[test]
fn a_reload_with_one_bad_rule_changes_nothing_and_names_it() {
    run(async {
        let place = Place::new("");
        let limit = "[[limit]]\nname = \"none-left\"\nmax_calls = 0\n";
        let limited = format!("limit = \"none-left\"\n{limit}");
        let right = to_gateways(&["sip:192.0.2.10".to_owned()], &limited);
        place.configure(&right);
        let server = place.start().await;
        assert_eq!(refused(address(&server), "+49301"), "503 Too many calls");
        let before = server.running().policy.load_full();
        let bad = "[[rule]]\nname = \"bad\"\nuser = [\"[\"]\naction = \"refuse\"\n";
        place.configure(&format!("{right}{bad}"));
        let problem = call(&server, "config.reload", none()).await;
        let problem = problem.expect_err("a bad rule");
        assert!(
            problem.contains("nothing changed: the file has errors")
                && problem.contains("rule \"bad\": user: the pattern \"[\" has a [ without ]"),
            "{problem}"
        );
        assert!(std::sync::Arc::ptr_eq(
            &before,
            &server.running().policy.load_full()
        ));
        let matches = async || {
            let rules = call(&server, "rules.list", none()).await.expect("rules");
            rules["rules"][0]["matches"].clone()
        };
        assert_eq!(matches().await, 1);
        // A reload that is right keeps the counters, too.
        let good = bad.replace("\"[\"", "\"0900*\"");
        place.configure(&format!("{right}{good}"));
        call(&server, "config.reload", none()).await.expect("right");
        assert_eq!(matches().await, 1);
        let limits = call(&server, "limits.list", none()).await.expect("limits");
        let limits = limits["limits"].as_array().cloned().unwrap_or_default();
        let mut limits = limits.iter();
        let limit = limits.find(|limit| limit["name"] == "none-left");
        assert_eq!(
            limit.map(|it| it["refused"]["calls"].clone()),
            Some(json!(1))
        );
        let rejected = "tandem_reloads_total{result=\"rejected\"}";
        assert_eq!(metric(&server, rejected).await, 1);
    });
}

#[test]
fn a_limit_of_zero_admits_no_call() {
    run(async {
        for (limit, answer) in [
            ("[call_limits]\nmax_calls = 0\n", "503 Too many calls"),
            (
                "[call_limits]\ncalls_per_second = 0\n",
                "503 Too many new calls",
            ),
            (
                "[call_limits]\nsource_max_calls = 0\n",
                "503 Too many calls",
            ),
            (
                "[call_limits]\nsubscriber_max_calls = 0\n",
                "486 Too many calls",
            ),
            (
                "[call_limits]\nsubscriber_calls_per_second = 0\n",
                "480 Too many new calls",
            ),
            (
                "[[limit]]\nname = \"lo\"\nnetworks = [\"127.0.0.0/8\"]\nmax_calls = 0\n",
                "503 Too many calls",
            ),
        ] {
            let place = Place::new("");
            place.configure(&to_gateways(&["sip:192.0.2.10".to_owned()], limit));
            check(&place).expect("allowed");
            let server = place.start().await;
            assert_eq!(refused(address(&server), "+49301"), answer, "{limit}");
        }
    });
}

/// No name has an address.
const NO_NAMES: &str = "[dns]\nservers = [\"127.0.0.1:9\"]\ntimeout = \"50ms\"\nattempts = 0\n";

#[test]
fn a_call_skips_a_gateway_whose_name_does_not_resolve() {
    run(async {
        let gateway = Agent::builder("sip:gateway@gateway.example").bind("udp:127.0.0.1:0");
        let gateway = gateway.start().expect("a gateway");
        let at = format!("sip:{}", gateway.listeners()[0].address);
        let place = Place::new("");
        let unknown = "sip:trunk.invalid".to_owned();
        place.configure(&to_gateways(&[unknown.clone(), at], NO_NAMES));
        let server = place.start().await;
        let phone = phone(address(&server));
        let uri = "sip:+49301@tandem.localhost";
        let _call = phone.invite(uri).session("v=0\r\n").send().expect("sent");
        assert!(gateway.incoming(common::PATIENCE).is_some());

        place.configure(&to_gateways(&[unknown], NO_NAMES));
        call(&server, "config.reload", none()).await.expect("right");
        let answer = refused(address(&server), "+49301");
        assert_eq!(answer, "500 Next hop has no address");
    });
}

#[test]
fn calls_to_a_gateway_that_is_the_server_itself_end_as_a_loop() {
    run(async {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let port = socket.local_addr().expect("bound").port();
        drop(socket);
        let place = Place::new("");
        let database = format!("[database]\nurl = \"{}\"\n", place.database_url());
        let own = format!("sip:localhost:{port};transport=udp");
        let base = format!(
            "domains = [\"tandem.localhost\"]\n[[listen]]\naddress = \"127.0.0.1:{port}\"\n\
             [workers]\ncount = 2\n[admin]\nlisten = \"127.0.0.1:0\"\n{database}"
        );
        let routes = to_gateways(std::slice::from_ref(&own), "authenticate = \"trust\"\n");
        place.configure_exactly(&format!("{base}{routes}"));
        let checked = check(&place).expect("a warning");
        let warning =
            format!("gateway `g0`: {own} is at 127.0.0.1:{port}, a listener of this server");
        assert!(checked.contains(&warning), "{checked}");
        let server = place.start().await;
        assert_eq!(refused(address(&server), "+49301"), "482 Loop Detected");
        assert_eq!(server.running().in_progress(), 0);

        let literal = routes.replace("localhost", "127.0.0.1");
        place.configure_exactly(&format!("{base}{literal}"));
        let expected = format!("gateway `g0`: 127.0.0.1:{port} is a listener of this server");
        let complaint = check(&place).expect_err("refused");
        assert!(complaint.contains(&expected), "{complaint}");
        let complaint = call(&server, "config.reload", none()).await;
        let complaint = complaint.expect_err("refused");
        assert!(complaint.contains(&expected), "{complaint}");
    });
}
