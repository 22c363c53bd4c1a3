//! The tables: bounds, ids, matching, settings, counters.

use crate::world::{
    HASHER, ROOMY, START, TO_CLIENT, TO_SERVER, World, unreliable, write_request, write_response,
};
use sip_message::{Message, Method, TransactionKey};
use sip_transaction::{
    ClientOptions, Full, Kind, Limits, RequestMatch, ResponseMatch, TimerSettings, Transactions,
};
use sip_transport::{ConnectionId, Flow, Output};
use std::time::Duration;

fn transactions(limits: Limits) -> Transactions<u64> {
    Transactions::new(START, TimerSettings::default(), limits, HASHER, 1)
}

#[test]
fn full_table_is_refused() {
    let mut all = transactions(Limits {
        servers: 2,
        clients: 1,
        bytes: 1 << 30,
        amplification: 3,
    });
    let mut server = |key| {
        all.create_server(TransactionKey(key), Kind::Invite, TO_CLIENT, false)
            .map(|_| ())
    };
    assert_eq!(
        [server(1), server(2), server(3)],
        [Ok(()), Ok(()), Err(Full)]
    );
    let first = all.reserve_client(0);
    assert_eq!(all.reserve_client(0), Err(Full));
    all.abandon_client(first.expect("room"));
    assert!(all.reserve_client(0).is_ok(), "there is room again");
    assert_eq!(all.stats().full, 2);
    all.reconfigure(
        TimerSettings::default(),
        Limits {
            servers: 3,
            clients: 1,
            bytes: 1 << 30,
            amplification: 3,
        },
    );
    assert!(
        all.create_server(TransactionKey(3), Kind::Invite, TO_CLIENT, false)
            .is_ok()
    );
}

#[test]
fn requests_are_refused_while_what_is_kept_for_others_has_no_room() {
    let mut all = transactions(Limits {
        bytes: 100,
        ..ROOMY
    });
    let mut output = Output::<()>::default();
    let create = |all: &mut Transactions<u64>, key| {
        all.create_server(TransactionKey(key), Kind::NonInvite, TO_CLIENT, false)
    };
    let first = create(&mut all, 1).expect("room");
    all.respond(START, first, 200, &mut output, |into| {
        into.resize(into.len() + 100, b'x');
    })
    .expect("the first response");
    assert_eq!(create(&mut all, 2), Err(Full));
    let after = START + Duration::from_secs(33);
    all.expire(after, &mut output, &mut Vec::new());
    assert!(create(&mut all, 2).is_ok(), "there is room again");
}

#[test]
fn stale_id_is_ignored() {
    let mut all = transactions(ROOMY);
    let mut output = Output::<()>::default();
    let stale = all.reserve_client(1).expect("room");
    all.abandon_client(stale);
    let tenant = all.reserve_client(2).expect("room");
    assert_ne!(stale, tenant);
    all.abandon_client(stale);
    all.cancel_client(START, stale, b"", &mut output);
    let options = ClientOptions::new(Kind::NonInvite, TO_SERVER, false);
    all.start_client(START, stale, &options, &mut output, |_| unreachable!());
    assert_eq!(
        (all.client_flow(stale), all.client_request(stale)),
        (None, None)
    );
    assert!(output.is_empty());
    assert_eq!(all.stats().clients_live, 1);

    let key = TransactionKey(5);
    let stale = all
        .create_server(key, Kind::NonInvite, TO_CLIENT, true)
        .expect("room");
    assert!(
        all.respond(START, stale, 200, &mut output, |into| into.push(b'x'))
            .is_some()
    );
    let tenant = all
        .create_server(key, Kind::NonInvite, TO_CLIENT, true)
        .expect("room");
    all.set_server_owner(tenant, 2);
    all.set_server_owner(stale, 9);
    assert!(
        all.respond(START, stale, 200, &mut output, |_| unreachable!())
            .is_none()
    );
    assert_eq!(
        (all.server_owner(stale), all.server_flow(stale)),
        (None, None)
    );
    assert!(all.server_is_final(stale) && !all.server_is_final(tenant));
    assert_eq!(all.server_owner(tenant), Some(2));
}

#[test]
fn branch_of_an_earlier_life_is_stray() {
    let mut earlier = unreliable();
    earlier.request(Method::Options);
    earlier.run(5);
    let mut response = Vec::new();
    write_response(&mut response, &earlier.incoming[0].bytes, 200);

    let mut later = unreliable();
    later.client = Transactions::new(START, TimerSettings::default(), ROOMY, HASHER, 3_333_333);
    later.request(Method::Options);
    later.run(5);
    later.trace();
    later.inject_response(&response);
    assert_eq!(later.trace(), [] as [&str; 0]);
    assert_eq!(later.client.stats().responses_stray, 1);
    assert_eq!(later.client.stats().clients_live, 1);
}

#[test]
fn response_must_fit_its_request() {
    let answered = |status_line: &str, via_branch: Option<&str>, cseq: &str| {
        let mut world = unreliable();
        let id = world.request(Method::Options);
        world.trace();
        let mut request = Vec::new();
        write_request(&mut request, Method::Options, id);
        let branch = Message::parse(&request)
            .expect("a message")
            .top_via()
            .expect("Via")
            .branch()
            .expect("branch");
        let ours = String::from_utf8_lossy(branch).into_owned();
        let response = format!(
            "{status_line}\r\nVia: SIP/2.0/UDP 192.0.2.1;branch={}\r\nFrom: <sip:a@b>;tag=a\r\nTo: <sip:c@d>;tag=b\r\n\
             Call-ID: call@192.0.2.1\r\nCSeq: {cseq}\r\nContent-Length: 0\r\n\r\n",
            via_branch.unwrap_or(&ours),
        );
        world.inject_response(response.as_bytes());
        (world.trace().len(), world.client.stats().responses_stray)
    };
    assert_eq!(answered("SIP/2.0 200 OK", None, "1 OPTIONS"), (1, 0));
    let stray = (0, 1);
    assert_eq!(answered("SIP/2.0 200 OK", None, "1 INVITE"), stray);
    assert_eq!(answered("SIP/2.0 200 OK", None, "1 OPTION"), stray);
    assert_eq!(answered("SIP/2.0 200 OK", None, "1 OPTIONSX"), stray);
    assert_eq!(answered("SIP/2.0 200 OK", None, "1 CANCEL"), stray);
    assert_eq!(answered("SIP/2.0 200 OK", None, "nonsense"), stray);
    assert_eq!(
        answered("SIP/2.0 200 OK", Some("z9hG4bK1"), "1 OPTIONS"),
        stray
    );
    assert_eq!(answered("SIP/2.0 699 What", None, "1 OPTIONS"), (1, 0));
    assert_eq!(
        answered("OPTIONS sip:a@b SIP/2.0", None, "1 OPTIONS"),
        stray
    );
}

#[test]
fn a_cancel_is_not_answered_by_its_own_place() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    world.cancel(invite);
    world.trace();
    // Places and generations are both assigned in order, so they are easy to guess.
    let forged = format!(
        "SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK{:08x}{:08x}00000000000000000000000000000000\r\n\
         CSeq: 1 CANCEL\r\nCall-ID: x\r\nFrom: <sip:a@b>\r\nTo: <sip:a@b>\r\n\r\n",
        1,
        17 + 2
    );
    world.inject_response(forged.as_bytes());
    assert_eq!(world.trace(), [] as [&str; 0]);
    assert_eq!(world.client.stats().responses_forged, 1);
}

/// The server's response to a request of the world, with `change` applied to its text.
fn changed_response(request: &[u8], change: impl Fn(String) -> String) -> Vec<u8> {
    let mut response = Vec::new();
    write_response(&mut response, request, 486);
    change(String::from_utf8(response).expect("text")).into_bytes()
}

#[test]
fn a_response_without_the_seal_of_its_request_is_forged() {
    // The attacker knows everything about a request except its seal: place, generation, Call-ID and destination.
    let mut world = unreliable();
    let id = world.request(Method::Invite);
    let mut request = Vec::new();
    write_request(&mut request, Method::Invite, id);
    world.trace();
    for place in 0..16 {
        let response = changed_response(&request, |text| {
            let seal = text.find("z9hG4bK").expect("a branch") + 7 + 16;
            let digit = text.as_bytes()[seal + place];
            let other = if digit == b'0' { "1" } else { "0" };
            [&text[..seal + place], other, &text[seal + place + 1..]].concat()
        });
        world.inject_response(&response);
    }
    assert_eq!(world.trace(), [] as [&str; 0]);
    assert_eq!(world.client.stats().responses_forged, 16);
    assert_eq!(world.client.stats().clients_live, 1);
    world.inject_response(&changed_response(&request, |text| text));
    assert_eq!(world.trace()[0], "0 up 486", "the genuine one");
}

#[test]
fn a_branch_seen_in_one_call_answers_no_other() {
    let mut world = unreliable();
    let id = world.request(Method::Invite);
    let mut request = Vec::new();
    write_request(&mut request, Method::Invite, id);
    world.trace();
    let another = |text: String| text.replace("Call-ID: call@", "Call-ID: another@");
    world.inject_response(&changed_response(&request, another));
    assert_eq!(world.trace(), [] as [&str; 0]);
    assert_eq!(world.client.stats().responses_forged, 1);
}

#[test]
fn a_response_comes_from_the_address_that_its_request_went_to() {
    let connection = |slot| Flow {
        connection: ConnectionId::new(0, slot),
        ..TO_SERVER
    };
    let elsewhere = |flow: Flow| Flow {
        remote: ([192, 0, 2, 66], 5060).into(),
        ..flow
    };
    let port = Flow {
        remote: ([192, 0, 2, 2], 49_152).into(),
        ..TO_SERVER
    };
    let mapped = Flow {
        remote: "[::ffff:192.0.2.2]:5060".parse().expect("an address"),
        ..TO_SERVER
    };
    for (sent, from, counts) in [
        (TO_SERVER, TO_SERVER, true),
        (TO_SERVER, port, true),
        (TO_SERVER, mapped, true),
        (TO_SERVER, elsewhere(TO_SERVER), false),
        // A connection opened for the request, and one that the peer opened for its response.
        (TO_SERVER, connection(1), true),
        (connection(1), connection(2), true),
        // Behind a balancer the peer's address may change, but the connection stays the same.
        (connection(1), elsewhere(connection(1)), true),
        (connection(1), elsewhere(connection(2)), false),
        (connection(1), elsewhere(TO_SERVER), false),
    ] {
        let mut all = transactions(ROOMY);
        let mut output = Output::<()>::default();
        let id = all.reserve_client(0).expect("room");
        let mut request = Vec::new();
        write_request(&mut request, Method::Invite, id);
        let options = ClientOptions::new(Kind::Invite, sent, false);
        all.start_client(START, id, &options, &mut output, |into| {
            into.extend_from_slice(&request);
        });
        let response = changed_response(&request, |text| text);
        let response = Message::parse(&response).expect("a message");
        let matched = all.receive_response(START, from, &response, &mut output);
        assert_eq!(matched.told().is_some(), counts, "{sent:?} {from:?}");
        assert_eq!(matched == ResponseMatch::Forged, !counts);
        assert_eq!(all.stats().responses_forged, u64::from(!counts));
    }
}

#[test]
fn unknown_key_is_new() {
    let mut all = transactions(ROOMY);
    let mut output = Output::<()>::default();
    let request = |all: &mut Transactions<u64>, key, output: &mut Output<()>| {
        all.receive_request(START, TransactionKey(key), Method::Options, 100, output)
    };
    assert_eq!(request(&mut all, 1, &mut output), RequestMatch::New);
    all.create_server(TransactionKey(1), Kind::NonInvite, TO_CLIENT, false)
        .expect("room");
    assert_eq!(request(&mut all, 1, &mut output), RequestMatch::Absorbed);
    // The lower half alone does not identify a transaction.
    assert_eq!(
        request(&mut all, 1 << 64 | 1, &mut output),
        RequestMatch::New
    );
    assert_eq!(all.find_server(TransactionKey(1 << 64 | 1)), None);
}

#[test]
fn ten_thousand_come_and_go() {
    let mut all = transactions(Limits {
        servers: 10_000,
        clients: 10_000,
        bytes: 1 << 30,
        amplification: 3,
    });
    let mut output = Output::<()>::default();
    let key = |n: u32| {
        TransactionKey(u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    };
    for n in 0..10_000 {
        let id = all
            .create_server(key(n), Kind::NonInvite, TO_CLIENT, false)
            .expect("room");
        all.set_server_owner(id, n.into());
        assert_eq!(all.find_server(key(n)), Some(id));
        if n % 2 == 0 {
            all.respond(START, id, 200, &mut output, |into| into.push(b'x'))
                .expect("the first");
        }
    }
    let mut events = Vec::new();
    all.expire(START + Duration::from_secs(33), &mut output, &mut events);
    assert_eq!(all.stats().servers_live, 5_000);
    for n in 0..10_000 {
        let owner = all.find_server(key(n)).and_then(|id| all.server_owner(id));
        assert_eq!(owner, (n % 2 == 1).then_some(n.into()));
        if let Some(id) = all.find_server(key(n)) {
            all.respond(START, id, 500, &mut output, |into| into.push(b'x'))
                .expect("the first");
        }
    }
    all.expire(START + Duration::from_secs(99), &mut output, &mut events);
    assert_eq!(
        (
            all.stats().servers_live,
            all.stats().servers_ended,
            all.next_deadline()
        ),
        (0, 10_000, None)
    );
    assert_eq!(events, []);
}

#[test]
fn request_is_kept_until_the_final_response() {
    let mut world = World::new(false, ROOMY);
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 180);
    world.run(5);
    assert_eq!(
        world.client.client_request(invite),
        Some(&world.incoming[0].bytes[..])
    );
    assert_eq!(world.client.client_flow(invite), Some(TO_SERVER));
    world.respond("INVITE", 486);
    world.run(5);
    assert_eq!(
        world.client.client_request(invite),
        None,
        "it is the ACK that is kept"
    );
}

#[test]
fn new_timers_hold_for_what_starts_after_them() {
    let mut world = unreliable();
    world.lose = Box::new(|_| true);
    world.request(Method::Options);
    let slow = TimerSettings {
        t1: Duration::from_secs(2),
        ..TimerSettings::default()
    };
    world.client.reconfigure(slow, ROOMY);
    world.request(Method::Message);
    world.run(3_000);
    assert_eq!(
        world.trace(),
        [
            "0 -> OPTIONS lost",
            "0 -> MESSAGE lost",
            "500 -> OPTIONS lost",
            "2000 -> MESSAGE lost"
        ]
    );
    world.run(200_000);
    let timeouts: Vec<String> = world
        .trace()
        .into_iter()
        .filter(|line| line.contains("timeout"))
        .collect();
    assert_eq!(timeouts, ["32000 timeout", "128000 timeout"]);
}

#[test]
fn timers_of_nothing_neither_spin_nor_give_up_at_once() {
    let timers = |t1, t2| TimerSettings {
        t1: Duration::from_millis(t1),
        t2: Duration::from_millis(t2),
        t4: Duration::ZERO,
    };
    let traced = |timers| {
        let mut world = unreliable();
        world.client = Transactions::new(START, timers, ROOMY, HASHER, 1);
        world.lose = Box::new(|_| true);
        world.request(Method::Options);
        world.run(100_000);
        assert!(world.is_at_rest());
        world.trace()
    };
    assert_eq!(
        traced(timers(0, 0)).last().map(String::as_str),
        Some("65 timeout"),
        "T1 is a millisecond"
    );
    let steady = traced(timers(500, 0));
    assert_eq!(
        steady.len(),
        65,
        "T2 is T1, and nothing is sent in the moment of the end"
    );
    assert_eq!(steady[63..], ["31500 -> OPTIONS lost", "32000 timeout"]);
}

#[test]
fn late_expiry_sends_one_retransmission_not_all_that_were_missed() {
    let mut world = unreliable();
    world.lose = Box::new(|_| true);
    world.request(Method::Options);
    world.now = world.now + Duration::from_secs(20);
    world.run(1);
    assert_eq!(
        world.trace(),
        ["0 -> OPTIONS lost", "20000 -> OPTIONS lost"]
    );
    world.run(11_999);
    assert!(world.is_at_rest(), "the end does not move");
}

#[test]
fn a_client_is_started_once() {
    let mut all = transactions(ROOMY);
    let mut output = Output::<()>::default();
    let id = all.reserve_client(0).expect("room");
    let mut start = |all: &mut Transactions<u64>, kind| {
        let options = ClientOptions::new(kind, TO_SERVER, false);
        all.start_client(START, id, &options, &mut output, |into| {
            into.extend_from_slice(b"BYE x");
        });
        output.outgoing().len()
    };
    assert_eq!(start(&mut all, Kind::NonInvite), 1);
    assert_eq!(start(&mut all, Kind::Invite), 1);
    assert_eq!(all.client_request(id), Some(&b"BYE x"[..]));
}

#[test]
fn a_server_knows_its_owner_and_whether_it_is_final() {
    let mut all = transactions(ROOMY);
    let mut output = Output::<()>::default();
    for (key, kind) in [(1, Kind::Invite), (2, Kind::NonInvite)] {
        let id = all
            .create_server(TransactionKey(key), kind, TO_CLIENT, false)
            .expect("room");
        assert_eq!(all.server_flow(id), Some(TO_CLIENT));
        assert_eq!(all.server_owner(id), None);
        assert!(!all.server_has_responded(id));
        all.set_server_owner(id, 2);
        assert_eq!(all.server_owner(id), Some(2));
        for (status, is_final) in [(100, false), (486, true)] {
            all.respond(START, id, status, &mut output, |into| into.push(b'x'))
                .expect("the first");
            assert_eq!(all.server_is_final(id), is_final);
            assert!(all.server_has_responded(id));
        }
        assert!(
            all.respond(START, id, 99, &mut output, |_| unreachable!())
                .is_none()
        );
    }
}

#[test]
fn a_silenced_server_absorbs_retransmissions_and_ends() {
    let mut world = unreliable();
    world.request(Method::Options);
    world.run(5);
    let id = world.incoming[0].id.expect("a transaction");
    world.server.silence_server(START, id);
    assert!(!world.respond("OPTIONS", 200));
    world.run(20_000);
    assert_eq!(
        world.incoming.len(),
        1,
        "no retransmission is a new request"
    );
    world.run(60_000);
    assert_eq!(world.server.stats().servers_live, 0);
    world.server.silence_server(START, id);
    assert_eq!(world.server.stats().servers_ended, 1);
}

#[test]
fn accepted_invite_keeps_no_request() {
    let mut world = unreliable();
    let invite = world.request(Method::Invite);
    world.run(5);
    world.respond("INVITE", 200);
    world.run(5);
    assert_eq!(world.client.client_request(invite), None);
    assert_eq!(world.client.client_flow(invite), Some(TO_SERVER));
    let options = world.request(Method::Options);
    world.run(5);
    world.respond("OPTIONS", 200);
    world.run(5);
    assert_eq!(world.client.client_request(options), None);
}
