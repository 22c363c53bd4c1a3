//! The CANCEL of an INVITE that another node forwarded before it died, and the ACK of a refusal.

use crate::bench::{ALICE, BOB, Bench, only, request, settings, status};
use crate::live_calls::{invite, node_with, refuse};
use sip_elements::metrics::Takeover;
use std::time::Duration;

/// A call that rings at a node which dies: the copy for the callee, and another node that knows the callee.
fn ringing() -> (String, Bench) {
    let mut first = node_with(settings());
    let copy = crate::live_calls::call(&mut first);
    let mut settings = settings();
    settings.dialogs.adopts = true;
    (copy, node_with(settings))
}

/// A request of the caller that belongs to its INVITE.
fn follower(method: &str, to_tag: &str) -> String {
    let invite = invite("");
    let line = |name: &str| {
        let found = invite.lines().find(|line| line.starts_with(name));
        found.expect("a line").to_owned()
    };
    let uri = invite.split(' ').nth(1).expect("a URI");
    format!(
        "{method} {uri} SIP/2.0\n{}\nMax-Forwards: 70\n{}\n{}{to_tag}\n{}\nCSeq: 1 {method}\nContent-Length: 0\n\n",
        line("Via:"),
        line("From:"),
        line("To:"),
        line("Call-ID:"),
    )
}

fn branch_of(message: &str) -> &str {
    let (_, rest) = message.split_once("branch=").expect("a branch");
    rest.split([';', '\r', '\n']).next().expect("a branch")
}

fn count(bench: &Bench, takeover: Takeover) -> u64 {
    bench.metrics.takeovers[takeover as usize].value()
}

#[test]
fn a_cancel_reaches_the_callee_with_the_branch_of_the_invite_and_its_responses_return() {
    let (copy, mut second) = ringing();
    let (to, cancel) = {
        let mut sent = second.receive(ALICE, &follower("CANCEL", ""));
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    };
    assert_eq!(to.to_string(), BOB);
    assert!(cancel.starts_with("CANCEL "), "{cancel}");
    assert_eq!(branch_of(&cancel), branch_of(&copy));
    assert_eq!(
        cancel.split(' ').nth(1),
        copy.split(' ').nth(1),
        "the Request-URI"
    );
    let okay = only(second.receive(BOB, &refuse(&cancel, "200 OK")));
    assert_eq!(status(&okay), 200);
    let terminated = only(second.receive(BOB, &refuse(&copy, "487 Request Terminated")));
    assert_eq!(status(&terminated), 487);

    let ack = only(second.receive(ALICE, &follower("ACK", ";tag=b1")));
    assert!(ack.starts_with("ACK "), "{ack}");
    assert_eq!(branch_of(&ack), branch_of(&copy));
    let counts = [Takeover::Cancel, Takeover::Ack, Takeover::Response];
    assert_eq!(counts.map(|it| count(&second, it)), [1, 1, 2]);
}

#[test]
fn a_cancel_of_another_sender_has_a_branch_that_no_callee_knows() {
    let (copy, mut second) = ringing();
    let cancel = follower("CANCEL", "");
    let elsewhere = only(second.receive("192.0.2.66:5060", &cancel));
    assert_ne!(branch_of(&elsewhere), branch_of(&copy));
    let own = branch_of(&cancel).to_owned();
    let guessed = only(second.receive(ALICE, &cancel.replace(&own, "z9hG4bKguessed")));
    assert_ne!(branch_of(&guessed), branch_of(&copy));
    // The phone knows no such INVITE, and its answer is the answer.
    let unknown = only(second.receive(BOB, &refuse(&elsewhere, "481 Unknown")));
    assert_eq!(status(&unknown), 481);
}

#[test]
fn cancels_without_invite_are_bounded() {
    let (_, mut second) = ringing();
    let cancel = follower("CANCEL", "");
    let own = branch_of(&cancel).to_owned();
    let (mut sent, mut refused) = (0, 0);
    for number in 0..150 {
        let cancel = cancel.replace(&own, &format!("z9hG4bKflood{number}"));
        let answer = only(second.receive("192.0.2.66:5060", &cancel));
        if answer.starts_with("CANCEL") {
            sent += 1;
        } else {
            assert_eq!(status(&answer), 481);
            refused += 1;
        }
    }
    assert_eq!((sent, refused), (100, 50));
    assert_eq!(count(&second, Takeover::Limited), 50);
    second.wait(Duration::from_secs(1));
    let answer = only(second.receive(ALICE, &cancel));
    assert!(answer.starts_with("CANCEL"), "{answer}");
}

#[test]
fn a_cancel_for_nobody_and_one_at_a_node_that_can_have_lost_nothing_get_481() {
    let (_, mut second) = ringing();
    let nobody = request(
        "CANCEL",
        "sip:nobody@example.org",
        "sip:alice@example.org",
        "i1",
        "",
    );
    assert_eq!(status(&only(second.receive(ALICE, &nobody))), 481);
    let mut alone = node_with(settings());
    let refused = only(alone.receive(ALICE, &follower("CANCEL", "")));
    assert_eq!(status(&refused), 481);
}
