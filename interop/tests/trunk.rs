//! A Kamailio as the carrier: it challenges calls, and wants this server to register.

use interop::{Kamailio, Scenario, Server, ServerOptions, wait_until};
use serde_json::Value;

/// A server whose gateway is this carrier, with the account of alice.
fn server(carrier: &Kamailio) -> Server {
    let sections = format!(
        r#"
[[gateway]]
name = "carrier"
destination = "sip:{}"
username = "alice"
password = "{}"
realm = "carrier.example"
register = "sip:trunk@carrier.example"
register_contact = "bob"

[[group]]
name = "pstn"
members = ["carrier"]

[[rule]]
name = "from-carrier"
source = ["127.0.0.1"]
user = ["bob"]
authenticate = "trust"

[[rule]]
name = "numbers"
user = ["+*"]
action = "group"
group = "pstn"
"#,
        carrier.address(),
        Server::password("alice"),
    );
    Server::start(&ServerOptions::with(&sections))
}

fn gateway(server: &Server) -> Value {
    let (code, output) = server.tandem(&["ctl", "gateways", "get", "carrier", "--json"]);
    assert_eq!(code, 0, "{output}");
    serde_json::from_str(&output).expect("JSON")
}

fn wait_until_registered(server: &Server) {
    wait_until("Tandem is registered", || {
        gateway(server)["registration"]["state"] == "registered"
    });
}

#[test]
fn a_call_reaches_a_carrier_that_challenges_its_requests() {
    let carrier = Kamailio::carrier("carrier.example", &Server::password("alice"));
    let server = server(&carrier);
    wait_until_registered(&server);
    let phone = Scenario::new("answer").calls(2).start(&server);
    Scenario::new("register")
        .from("alice")
        .key("contact", &format!("<sip:phone@{}>", phone.address))
        .at(carrier.address())
        .run(&server);
    // REGISTER, INVITE and BYE of the first call; BYE of the second one.
    for challenges in [3, 4] {
        let call = Scenario::new("call").to("sip:+4930123@example.org");
        let outcome = call.run(&server);
        let challenged = outcome.messages.received("SIP/2.0 407 ");
        assert_eq!(challenged.len(), 1, "only by Tandem: {challenged:#?}");
        let shown = gateway(&server);
        assert_eq!(
            shown["challenges_answered"].as_u64(),
            Some(challenges),
            "{shown}"
        );
        assert_eq!(shown["challenges_refused"], 0, "{shown}");
    }
    let shown = gateway(&server);
    assert_eq!(
        (&shown["tried"], &shown["answered"]),
        (&2.into(), &2.into()),
        "{shown}"
    );
    phone.finish();
}

#[test]
fn calls_come_in_through_the_registration_until_the_server_stops() {
    let carrier = Kamailio::carrier("carrier.example", &Server::password("alice"));
    let mut server = server(&carrier);
    wait_until_registered(&server);
    let bob = Scenario::new("answer").start(&server);
    server.register("bob", bob.address, "");
    let to_trunk = Scenario::new("call")
        .to("sip:trunk@carrier.example")
        .at(carrier.address());
    to_trunk.run(&server);
    bob.finish();
    server.process().signal("TERM");
    assert!(server.process().wait().success(), "{}", server.log());
    assert!(
        server
            .log()
            .contains("removing the registration at a gateway"),
        "{}",
        server.log()
    );
    assert!(
        !to_trunk.start(&server).went_well(),
        "the carrier knows no binding"
    );
}
