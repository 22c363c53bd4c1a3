//! The load generator: its counts agree with the server's, and with those of sipp for the same traffic.

use interop::{
    Child, Scenario, Server, ServerOptions, eventually, lab_command, lab_run, lab_users, wait_until,
};
use serde_json::{Value, json};
use sip_transport::Protocol;
use std::time::{Duration, Instant};

fn server(phones: u32) -> Server {
    Server::start(&ServerOptions {
        users: lab_users(phones),
        ..ServerOptions::default()
    })
}

/// The messages of calls that the server received and sent.
fn traffic(server: &Server) -> Value {
    let requests = |method: &str| server.count("tandem_requests_total", &format!("\"{method}\""));
    let responses =
        |code: &str| server.count("tandem_responses_sent_total", &format!("\"{code}\""));
    json!({
        "INVITE": requests("INVITE"), "ACK": requests("ACK"), "BYE": requests("BYE"),
        "100": responses("100"), "180": responses("180"), "407": responses("407"),
        "retransmissions": server.count("tandem_retransmissions_total", ""),
    })
}

fn units(report: &Value, kind: &str, what: &str) -> u64 {
    report["units"][kind][what].as_u64().unwrap_or_default()
}

fn calls(report: &Value, what: &str) -> u64 {
    units(report, "calls", what)
}

#[test]
fn the_generator_and_sipp_make_the_same_traffic() {
    let by_lab = server(2);
    let arguments = ["call", "--phones", "2", "--nonces", "fresh", "--ports", "1"];
    let pace = ["--rate", "100", "--duration", "3s"];
    let (code, report, output) = lab_run(&by_lab, Protocol::Udp, &[&arguments[..], &pace].concat());
    println!("{output}");
    let made = calls(&report, "attempted");
    // This excludes a rate that is wrong by a factor.
    assert!((299..=301).contains(&made), "{made}");
    assert_eq!(calls(&report, "succeeded"), made);
    assert_eq!(report["calls_taken"], made);
    // The machine may be busy, which the report then says. But no call may fail.
    assert!(code == 0 || output.contains("DO NOT TRUST"), "{output}");

    let by_sipp = Server::start(&ServerOptions::default());
    let number = u32::try_from(made).expect("some hundreds");
    let scenario = |name| Scenario::new(name).calls(number).untraced();
    let callee = scenario("answer").start(&by_sipp);
    by_sipp.register("bob", callee.address, "");
    let caller = scenario("call").with(&["-r", "100", "-d", "0"]);
    let caller = caller.start(&by_sipp).finish();
    callee.finish();
    assert_eq!(caller.count("SuccessfulCall(C)"), made);

    let (lab, sipp) = (traffic(&by_lab), traffic(&by_sipp));
    println!("by the generator {lab}\nby sipp          {sipp}");
    assert_eq!(lab["INVITE"], made * 2, "without credentials, and with");
    assert_eq!(lab, sipp);
}

#[test]
fn calls_go_over_every_transport_from_connections_of_their_own() {
    for protocol in Protocol::ALL {
        let server = server(20);
        let arguments = [
            "call",
            "--phones",
            "20",
            "--ports",
            "5",
            "--talking",
            "100ms",
        ];
        let pace = ["--rate", "40", "--duration", "2s"];
        let (_, report, output) = lab_run(&server, protocol, &[&arguments[..], &pace].concat());
        println!("{protocol:?}\n{output}");
        let made = calls(&report, "attempted");
        assert!(made >= 79, "{output}");
        assert_eq!(calls(&report, "succeeded"), made, "{output}");
        assert_eq!(report["calls_taken"], made, "{output}");
        let accepted = server.count("tandem_connections_begun_total", "peer");
        let expected = if protocol == Protocol::Udp { 0 } else { 5 };
        assert_eq!(accepted, expected, "{protocol:?}");
    }
}

#[test]
fn populated_phones_are_all_there_and_a_sample_of_them_is_called() {
    let server = server(500);
    let arguments = [
        "populate",
        "--phones",
        "500",
        "--sample",
        "50",
        "--duration",
        "1s",
        "--stay-registered",
    ];
    let (_, report, output) = lab_run(&server, Protocol::Udp, &arguments);
    println!("{output}");
    assert_eq!(report["populated"]["phones"], 500, "{output}");
    assert_eq!(calls(&report, "succeeded"), calls(&report, "attempted"));
    assert!(calls(&report, "attempted") >= 50, "{output}");
    assert_eq!(server.count("tandem_registrations", ""), 500);
}

#[test]
fn failed_registrations_are_explained() {
    let server = server(2);
    let arguments = ["call", "--phones", "4", "--rate", "10", "--duration", "1s"];
    let (code, _, output) = lab_run(&server, Protocol::Udp, &arguments);
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("2 of 4 registrations failed"), "{output}");
    assert!(output.contains("do the subscribers exist"), "{output}");
}

#[test]
fn connections_come_and_go_each_with_its_handshake() {
    for protocol in [Protocol::Tcp, Protocol::Tls, Protocol::Wss] {
        let server = server(100);
        let arguments = ["tls-churn", "--phones", "100", "--ports", "100"];
        let pace = ["--rate", "100", "--duration", "2s"];
        let (_, report, output) = lab_run(&server, protocol, &[&arguments[..], &pace].concat());
        println!("{protocol:?}\n{output}");
        let made = units(&report, "connections", "attempted");
        assert!(made >= 199, "{output}");
        assert_eq!(units(&report, "connections", "succeeded"), made, "{output}");
        assert_eq!(report["delays"]["connection_to_response"]["count"], made);
        assert_eq!(server.count("tandem_connections_begun_total", "peer"), made);
        let closed = || server.count("tandem_connections_closed_total", "by_peer") == made;
        assert!(eventually(Duration::from_secs(5), closed), "{output}");
    }
}

#[test]
fn attacks_fail_and_a_successful_one_is_reported() {
    let attacked = server(10);
    let arguments = [
        "scan",
        "--phones",
        "10",
        "--rate",
        "400",
        "--duration",
        "2s",
    ];
    let (_, report, output) = lab_run(&attacked, Protocol::Udp, &arguments);
    println!("{output}");
    let made = units(&report, "attacks", "attempted");
    assert!(made >= 799, "{output}");
    assert_eq!(units(&report, "attacks", "succeeded"), made, "{output}");
    assert_eq!(attacked.count("tandem_registrations", ""), 0);
    // All attacks get a refusal, except the quarter that is noise.
    let refusals = report["refusals"].as_object().expect("refusals");
    let refused: u64 = refusals.values().filter_map(Value::as_u64).sum();
    assert!(refused.abs_diff(made * 3 / 4) <= 3, "{output}");

    let open = Server::start(&ServerOptions {
        users: lab_users(10),
        ..ServerOptions::with("[auth]\nchallenge = []\n")
    });
    let (code, report, output) = lab_run(&open, Protocol::Udp, &arguments);
    println!("{output}");
    assert_eq!(code, 1, "{output}");
    let made = units(&report, "attacks", "attempted");
    assert!(
        units(&report, "attacks", "failed").abs_diff(made / 4) <= 2,
        "{output}"
    );
    assert!(output.contains("attacks: let in with 200"), "{output}");
}

#[test]
fn phones_deregister_when_a_run_is_over_or_interrupted() {
    let server = server(20);
    let registered = || server.count("tandem_registrations", "");
    let over = ["call", "--phones", "20", "--rate", "20", "--duration", "1s"];
    let (_, report, output) = lab_run(&server, Protocol::Udp, &over);
    assert_eq!(registered(), 0, "{output}");
    assert_eq!(
        report["deregistered"],
        json!({"succeeded": 20, "failed": 0})
    );

    let long = ["call", "--phones", "20", "--rate", "20", "--duration", "1h"];
    let mut command = lab_command(&server, Protocol::Udp, &long);
    let mut run = Child::start(&mut command, &server.path("interrupted.log"));
    wait_until("phones register", || registered() == 20);
    wait_until("calls begin", || run.output().contains("in progress"));
    run.signal("INT");
    let ended = run.wait_at_most(Duration::from_secs(15));
    assert!(
        ended.is_some_and(|status| !status.success()),
        "{}",
        run.output()
    );
    assert_eq!(registered(), 0, "{}", run.output());
    assert!(
        run.output().contains("interrupted after"),
        "{}",
        run.output()
    );
}

#[test]
fn contacts_left_by_an_earlier_run_are_reported() {
    let server = server(20);
    let stay = [
        "populate",
        "--phones",
        "20",
        "--sample",
        "0",
        "--stay-registered",
    ];
    let (code, report, output) = lab_run(&server, Protocol::Udp, &stay);
    assert_eq!((code, &report["warnings"]), (0, &json!([])), "{output}");
    assert_eq!(server.count("tandem_registrations", ""), 20);
    let (_, report, output) = lab_run(&server, Protocol::Udp, &stay);
    let warning = report["warnings"][0].as_str().unwrap_or_default();
    assert!(
        warning.contains("other contacts for 20 of the phones"),
        "{output}"
    );
}

#[test]
fn names_of_phones_are_padded_as_the_pattern_says() {
    let users = (0..10).map(|number| format!("phone{number:04}"));
    let server = Server::start(&ServerOptions {
        users: users.collect(),
        ..ServerOptions::default()
    });
    let names = ["call", "--phones", "10", "--user", "phone{:04}"];
    let pace = [
        "--rate",
        "10",
        "--duration",
        "1s",
        "--password",
        "phone{:04}-secret",
    ];
    let (_, report, output) = lab_run(&server, Protocol::Udp, &[&names[..], &pace].concat());
    assert_eq!(report["populated"]["phones"], 10, "{output}");
    assert_eq!(
        calls(&report, "succeeded"),
        calls(&report, "attempted"),
        "{output}"
    );
}

#[test]
fn phones_of_a_server_whose_port_is_closed_fail_at_once() {
    let mut server = server(5);
    server.kill();
    let begun = Instant::now();
    let arguments = [
        "register",
        "--phones",
        "5",
        "--rate",
        "5",
        "--duration",
        "2s",
    ];
    let (code, report, output) = lab_run(&server, Protocol::Udp, &arguments);
    let took = begun.elapsed();
    assert_ne!(code, 0, "{output}");
    assert!(output.contains("unreachable"), "{output}\n{report}");
    // A transaction would time out only after 32 seconds.
    assert!(took < Duration::from_secs(20), "{took:?}: {output}");
}
