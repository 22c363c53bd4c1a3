//! Calls for tests.
use sip_dialog::{CallEvent, CallRecord, Change, Ended};
use sip_transport::{Protocol, Time};
use std::sync::Arc;

/// 2026-11-22T20:00:00Z.
const STARTED: u64 = 1_795_377_600_000_000;

/// A call that was answered and has ended.
pub(crate) fn call(number: u128) -> CallRecord {
    let text = |text: &str| text.as_bytes().into();
    let after = |millis: u64| Time::from_micros(STARTED + millis * 1_000);
    CallRecord {
        id: number,
        call_id: format!("call-{number}@192.0.2.7").into_bytes().into(),
        from: text("sip:alice@example.org"),
        from_tag: text("a1"),
        to: text("sip:bob@example.org"),
        to_tag: text("b1"),
        request_uri: text("sip:bob@example.org"),
        identity: text("alice@example.org"),
        source: ([192, 0, 2, 7], 5060).into(),
        source_transport: Protocol::Udp,
        destination: Some((
            "[2001:db8::9]:5061".parse().expect("an address"),
            Protocol::Tls,
        )),
        attempts: 2,
        started: after(0),
        ringing: Some(after(1_250)),
        answered: Some(after(4_000)),
        ended: Some(after(64_007)),
        status: 200,
        reason: text("Q.850;cause=16"),
    }
}

/// The end of a call, by the callee.
pub(crate) fn ended(number: u128) -> CallEvent {
    CallEvent {
        change: Change::Ended(Ended::ByCallee),
        call: Box::new(call(number)),
    }
}

/// The end of a call that failed.
pub(crate) fn refused(number: u128) -> CallEvent {
    let mut event = ended(number);
    event.change = Change::Ended(Ended::Refused);
    event.call.answered = None;
    event.call.status = 486;
    event
}

/// An event that queues share.
pub(crate) fn event(change: Change, number: u128) -> Arc<CallEvent> {
    Arc::new(CallEvent {
        change,
        call: Box::new(call(number)),
    })
}
