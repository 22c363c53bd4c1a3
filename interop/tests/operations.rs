//! Operations on a server during calls.

use interop::{Scenario, Server, ServerOptions, Sipp, free_port, header, run, wait_until};
use serde_json::json;
use std::process::Command;

fn server() -> Server {
    Server::start(&ServerOptions::default())
}

fn phone(server: &Server, user: &str, scenario: &str) -> Sipp {
    let phone = Scenario::new(scenario).start(server);
    server.register(user, phone.address, "");
    phone
}

/// Whether a subscriber can register.
fn registers(server: &Server, user: &str) -> bool {
    let contact = format!("<sip:{user}@127.0.0.1:5999>");
    let scenario = Scenario::new("register")
        .from(user)
        .key("contact", &contact);
    scenario.start(server).went_well()
}

#[test]
fn a_draining_server_takes_no_new_calls_and_lets_those_it_has_end() {
    let mut server = server();
    let bob = phone(&server, "bob", "answer");
    let talking = Scenario::new("call_held").start(&server);
    bob.wait_for("ACK");
    let carol = phone(&server, "carol", "ring");
    let ringing = Scenario::new("call_cancelled").to("carol").start(&server);
    ringing.wait_for("SIP/2.0 180");

    server.process().signal("TERM");
    wait_until("it is not ready any more", || {
        server.http("/health/ready").0 == 503
    });
    assert_eq!(server.http("/health/live").0, 200);
    let refused = Scenario::new("call_refused_at_once").run(&server);
    let refusal = refused.messages.received("SIP/2.0 503")[0].to_owned();
    assert_eq!(header(&refusal, "Retry-After"), ["10"], "{refusal}");
    talking.cue();
    talking.finish();
    bob.finish();
    assert!(server.process().ended().is_none(), "a call still rings");
    ringing.cue();
    ringing.finish();
    carol.finish();
    assert!(server.process().wait().success(), "{}", server.log());
}

#[test]
fn a_second_sigterm_ends_the_server_though_a_call_rings() {
    let mut server = server();
    let _bob = phone(&server, "bob", "ring");
    let alice = Scenario::new("call_cancelled").start(&server);
    alice.wait_for("SIP/2.0 180");
    server.process().signal("TERM");
    wait_until("it drains", || server.http("/health/ready").0 == 503);
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    // Even the most recent registration has been saved.
    server.restart();
    assert_eq!(server.bindings("bob").len(), 1);
}

#[test]
fn a_reload_with_a_broken_file_changes_nothing_and_says_why() {
    let mut server = server();
    let shown = |server: &Server| server.rpc("config.show", &json!({}));
    let before = shown(&server);
    let broken = "[proxy]\nforeign = \"perhaps\"\n\n[registrar]\nmax_contact = 3\n";
    server.configure(&ServerOptions::with(broken));
    server.process().signal("HUP");
    // The lines of one message may be written to the log separately.
    let parts = ["foreign", "perhaps", "relay", "max_contact", "max_contacts"];
    wait_until("it names both mistakes", || {
        let log = server.log();
        log.contains("reload: ") && parts.iter().all(|part| log.contains(part))
    });
    assert_eq!(shown(&server), before);
    assert!(server.is_ready());
    assert!(registers(&server, "alice"));

    server.configure(&ServerOptions::with("[registrar]\nmax_contacts = 3\n"));
    server.process().signal("HUP");
    wait_until("it takes the file over", || shown(&server) != before);
    wait_until("it names what has changed", || {
        server.log().contains("registrar.max_contacts")
    });
}

#[test]
fn subscribers_come_and_go_while_the_server_runs() {
    let server = server();
    assert!(!registers(&server, "dave"));
    let password = Server::password("dave");
    let (code, output) =
        server.tandem(&["user", "add", "dave@example.org", "--password", &password]);
    assert_eq!(code, 0, "{output}");
    wait_until("dave can register", || registers(&server, "dave"));
    let (code, output) = server.tandem(&["user", "remove", "dave@example.org"]);
    assert_eq!(code, 0, "{output}");
    wait_until("dave cannot register", || !registers(&server, "dave"));
}

#[test]
fn a_second_server_on_the_same_port_does_not_start() {
    let server = server();
    let file = server.path("tandem.toml");
    let text = std::fs::read_to_string(&file).expect("configuration");
    let admin = format!("127.0.0.1:{}", free_port());
    let text = text.replace(&server.admin_address().to_string(), &admin);
    let second = server.path("second.toml");
    std::fs::write(&second, text.replace("tandem.db", "second.db")).expect("configuration");
    let mut command = Command::new(Server::binary());
    let (code, output) = run(command.args(["serve", "--config"]).arg(&second));
    assert_eq!(code, 1, "{output}");
    let address = server.address().to_string();
    let complaint = output.lines().last().unwrap_or_default();
    assert!(
        complaint.contains(&address) && complaint.contains("in use"),
        "{output}"
    );
    assert!(server.is_ready());
    assert!(registers(&server, "alice"));
}

#[test]
fn ctl_says_where_it_looked_when_no_server_runs() {
    let mut server = server();
    let (code, output) = server.tandem(&["ctl", "status"]);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains(&server.address().to_string()), "{output}");
    server.kill();
    let (code, output) = server.tandem(&["ctl", "status"]);
    assert_eq!(code, 1, "{output}");
    let admin = format!(
        "cannot reach the server at http://{}",
        server.admin_address()
    );
    assert!(output.contains(&admin), "{output}");
}
