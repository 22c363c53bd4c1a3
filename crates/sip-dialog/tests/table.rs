//! The table of dialogs: deadlines.

use sip_dialog::{Answer, DialogId, Dialogs, Ended, Invitation, Leg};
use sip_transaction::Account;
use sip_transport::{Flow, ListenerId, Protocol, Time};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// A dialog that lives for an hour and whose ACK may take half a minute.
fn confirmed(dialogs: &mut Dialogs, now: Time) -> DialogId {
    let leg = Leg {
        flow: Flow::to(ListenerId(0), ([192, 0, 2, 1], 5060).into()),
        protocol: Protocol::Udp,
        is_by_flow: false,
    };
    let id = dialogs.begin(&Invitation {
        id: 1,
        account: Account::KNOWN,
        source: leg,
        cseq: 1,
        received: now,
        texts: &[],
    });
    let answer = Answer {
        key: 7,
        destination: leg,
        status: 200,
        now,
        lifetime: HOUR,
        patience: Duration::from_secs(32),
        texts: &[],
    };
    assert!(dialogs.confirm(id, &answer, true));
    id
}

#[test]
fn a_life_that_becomes_shorter_ends_earlier() {
    let now = Time::from_unix_seconds(1_000_000);
    let mut dialogs = Dialogs::new(now);
    let id = confirmed(&mut dialogs, now);
    dialogs.get_mut(id).expect("live").acknowledge();
    // The timer of the ACK is moved to the end of the life.
    assert_eq!(dialogs.pop_due(now + Duration::from_secs(60)), None);
    let expires = now + Duration::from_secs(90);
    dialogs.refresh(id, expires);
    assert!(dialogs.next_deadline() <= Some(expires));
    let due = dialogs.pop_due(expires + Duration::from_secs(1));
    assert_eq!(due, Some((id, Ended::Expired)));
}

#[test]
fn a_life_that_becomes_longer_ends_later() {
    let now = Time::from_unix_seconds(1_000_000);
    let mut dialogs = Dialogs::new(now);
    let id = confirmed(&mut dialogs, now);
    dialogs.get_mut(id).expect("live").acknowledge();
    dialogs.refresh(id, now + HOUR * 2);
    assert_eq!(dialogs.pop_due(now + HOUR), None);
    let due = dialogs.pop_due(now + HOUR * 2 + Duration::from_secs(1));
    assert_eq!(due, Some((id, Ended::Expired)));
}

#[test]
fn a_shorter_life_does_not_extend_the_wait_for_the_ack() {
    let now = Time::from_unix_seconds(1_000_000);
    let mut dialogs = Dialogs::new(now);
    let id = confirmed(&mut dialogs, now);
    dialogs.refresh(id, now + HOUR / 2);
    let due = dialogs.pop_due(now + Duration::from_secs(33));
    assert_eq!(due, Some((id, Ended::NoAck)));
}
