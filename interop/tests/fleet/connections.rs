//! Phones on connections lose them with their edge, and are reachable again as soon as they connect.

use crate::members::{Fleet, Member, Members as _};
use interop::{
    Account, Child, Linphone, Moment, PATIENCE, Phone as _, Scenario, Server, eventually,
    wait_until,
};
use sip_transport::Protocol;
use std::process::Command;
use std::time::{Duration, Instant};

/// Until a phone that returns to its edge has been called: connecting, registering, ringing, talking and hanging up.
const SOON: Duration = Duration::from_secs(5);
/// Linphone connects again 60 s after the end of its connection.
const RETRY: Duration = Duration::from_secs(90);

/// Connects bob's phone to the first edge and registers it there. It waits for one call.
fn connected(fleet: &Fleet, log: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_user-agent"));
    let proxy = format!("sip:{};transport=tcp", fleet.edges[0].address());
    let domain = fleet.nodes[0].domain();
    command.args(["bob", &Server::password("bob"), domain, &proxy]);
    let phone = Child::start(&mut command, &fleet.path(log));
    wait_until("bob is registered", || {
        phone.output().contains("registered")
    });
    phone
}

#[test]
fn a_phone_of_a_killed_edge_is_called_through_another_as_soon_as_it_connects_again() {
    let mut fleet = Fleet::start(2);
    let elsewhere = fleet.edges[1].address();
    let call = |name: &str| Scenario::new(name).at(elsewhere);
    let phone = connected(&fleet, "before.log");
    fleet.kill(Member::Edge(0));
    drop(phone);
    // A call to the phone is pending until the edge is back. The edge gets a retransmission and rejects it: it has no such connection.
    let refused = call("call_refused").start(&fleet.nodes[0]);
    refused.wait_for("SIP/2.0 100");
    fleet.restart(Member::Edge(0));
    refused.finish();

    let returned = Instant::now();
    // The binding of the connection that ended is still there.
    let mut phone = connected(&fleet, "after.log");
    call("call").run(&fleet.nodes[0]);
    let status = phone.wait_at_most(PATIENCE);
    let output = phone.output();
    assert!(status.is_some_and(|status| status.success()), "{output}");
    assert_eq!(output.lines().last(), Some("ended: ByPeer"), "{output}");
    assert!(returned.elapsed() < SOON, "{:?}", returned.elapsed());
}

#[test]
fn linphone_connects_to_its_edge_again_and_is_called_through_another() {
    let mut fleet = Fleet::start(2);
    let account = Account::new("bob").through(&fleet.edges[0], Protocol::Tls);
    let mut bob = Linphone::with_account(&fleet.nodes[0], &account);
    // The Path has the connection that its edge has.
    let connection = |fleet: &Fleet| {
        let bindings = fleet.nodes[1].bindings("bob");
        bindings.first().map(|binding| binding["path"].to_string())
    };
    wait_until("bob is registered", || connection(&fleet).is_some());
    let before = connection(&fleet);
    fleet.kill(Member::Edge(0));
    fleet.restart(Member::Edge(0));
    let is_back = eventually(RETRY, || {
        connection(&fleet).is_some_and(|it| Some(it) != before)
    });
    assert!(is_back, "{}", bob.log());

    let elsewhere = fleet.edges[1].address();
    let call = Scenario::new("call").at(elsewhere).start(&fleet.nodes[0]);
    bob.wait_until(Moment::Called);
    bob.accept();
    bob.wait_until(Moment::Established);
    bob.wait_until(Moment::Over);
    call.finish();
}
