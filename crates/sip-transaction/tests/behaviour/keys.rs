//! The transactions of forwarded requests: their branch is the same at every node that computes their key.

use crate::world::{HASHER, ROOMY, START, TO_SERVER};
use sip_message::{HeaderName, Message, Method, RequestWriter, ResponseWriter};
use sip_transaction::{
    Account, Branch, ClientId, ClientKey, ClientOptions, Kind, ResponseMatch, TimerSettings,
    Transactions,
};
use sip_transport::Output;

const CALL_ID: &[u8] = b"call@192.0.2.1";

fn node(epoch: u32) -> Transactions<u64> {
    Transactions::new(START, TimerSettings::default(), ROOMY, HASHER, epoch)
}

/// Starts a transaction with this key, and returns its request.
fn forward(
    all: &mut Transactions<u64>,
    owner: u64,
    method: Method<'_>,
    key: ClientKey,
) -> (ClientId, Vec<u8>) {
    let mut output = Output::<()>::default();
    let id = all
        .reserve_client_for(Account::KNOWN, owner, key)
        .expect("room");
    let branch = all.branch(id, CALL_ID, 5);
    let mut request = Vec::new();
    RequestWriter::begin(&mut request, method, b"sip:bob@192.0.2.2")
        .header_with(HeaderName::Via, |value| {
            value.extend_from_slice(b"SIP/2.0/UDP 192.0.2.1:5060;branch=");
            branch.write(value);
        })
        .header(HeaderName::From, b"<sip:alice@example.org>;tag=a")
        .header(HeaderName::To, b"<sip:bob@example.org>")
        .header(HeaderName::CallId, CALL_ID)
        .header(HeaderName::CSeq, &[b"1 ", method.as_bytes()].concat())
        .finish();
    let kind = if method == Method::Invite {
        Kind::Invite
    } else {
        Kind::NonInvite
    };
    let options = ClientOptions::new(kind, TO_SERVER, false);
    all.start_client(START, id, &options, &mut output, |into| {
        into.extend_from_slice(&request);
    });
    (id, request)
}

fn answer(all: &mut Transactions<u64>, request: &[u8], status: u16) -> ResponseMatch<u64> {
    let request = Message::parse(request).expect("a request");
    let mut response = Vec::new();
    ResponseWriter::begin(
        &mut response,
        &request,
        TO_SERVER.remote,
        status,
        "Any",
        Some(b"b"),
    )
    .finish();
    let response = Message::parse(&response).expect("a response");
    all.receive_response(START, TO_SERVER, &response, &mut Output::<()>::default())
}

#[test]
fn two_nodes_write_the_same_branch_and_each_finds_its_own_transaction() {
    let (mut one, mut other) = (node(1), node(2));
    let key = ClientKey::new(77);
    other.reserve_client(0).expect("room");
    let (_, request) = forward(&mut one, 10, Method::Invite, key);
    let (at_other, again) = forward(&mut other, 20, Method::Invite, key);
    assert_eq!(request, again);
    let told = answer(&mut other, &request, 180).told().expect("its own");
    assert_eq!((told.id, told.owner), (at_other, 20));
}

#[test]
fn a_response_finds_the_transaction_of_its_method_among_those_of_one_key() {
    let mut all = node(1);
    let key = ClientKey::new(77);
    let (cancel, cancel_request) = forward(&mut all, 1, Method::Cancel, key);
    let (invite, invite_request) = forward(&mut all, 2, Method::Invite, key);
    let told = |matched: ResponseMatch<u64>| matched.told().map(|told| told.id);
    assert_eq!(told(answer(&mut all, &invite_request, 180)), Some(invite));
    assert_eq!(
        all.client_that_sent(&invite_request).map(|it| it.id),
        Some(invite)
    );
    assert_eq!(
        all.client_that_sent(&cancel_request).map(|it| it.id),
        Some(cancel)
    );
}

#[test]
fn a_transaction_that_has_ended_is_remembered_and_its_responses_are_stray() {
    let mut all = node(1);
    let key = ClientKey::new(77);
    let branch = Branch::keyed(&HASHER, key, CALL_ID, 5);
    let (id, request) = forward(&mut all, 1, Method::Invite, key);
    assert!(!all.client_has_ended(&branch));
    all.abandon_client(id);
    assert!(all.client_has_ended(&branch));
    assert_eq!(answer(&mut all, &request, 486), ResponseMatch::Stray);
    let other = Branch::keyed(&HASHER, ClientKey::new(78), CALL_ID, 5);
    assert!(!all.client_has_ended(&other));
}
