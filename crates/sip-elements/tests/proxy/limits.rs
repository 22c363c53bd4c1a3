//! Limits: a request beyond a limit is rejected, and costs nothing afterwards.

use crate::wire::{
    ALICE, BOB, CAROL, DAVE, US, Wire, ack_of_refusal, invite, request, settings, target, udp,
};

#[test]
fn a_full_table_of_contexts_answers_503_with_retry_after() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.limits.response_contexts = 1;
    let mut wire = Wire::with(settings, vec![target(BOB, 1000)]);
    wire.receive(ALICE, &request("OPTIONS", "sip:bob@example.org", ""));
    let first = wire.expect(BOB, "OPTIONS");
    wire.receive(ALICE, &invite());
    let busy = wire.expect(ALICE, "SIP/2.0 503 ");
    assert_eq!(busy.header("Retry-After"), ["7"]);
    assert_eq!(wire.metrics.refused_full.value(), 1);
    wire.receive(ALICE, &ack_of_refusal(&busy));
    wire.receive(BOB, &first.reply("200 OK"));
    wire.expect(ALICE, "SIP/2.0 200 OK");
    wire.finish();
}

#[test]
fn a_full_table_of_client_transactions_answers_503_with_retry_after() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.limits.client_transactions = 0;
    let mut wire = Wire::with(settings, vec![target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    let busy = wire.expect(ALICE, "SIP/2.0 503 ");
    assert_eq!(busy.header("Retry-After"), ["7"]);
    wire.assert_counts(0);
    wire.receive(ALICE, &ack_of_refusal(&busy));
    wire.finish();
}

#[test]
fn no_more_targets_are_tried_than_allowed_the_best_first() {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.max_targets = 2;
    let mut wire = Wire::with(
        settings,
        vec![target(DAVE, 100), target(BOB, 300), target(CAROL, 200)],
    );
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    for (phone, status) in [(BOB, "480 Away"), (CAROL, "480 Away")] {
        let sent = wire.expect(phone, "INVITE");
        wire.receive(phone, &sent.reply(status));
        wire.expect(phone, "ACK");
    }
    let refused = wire.expect(ALICE, "SIP/2.0 480");
    wire.receive(ALICE, &ack_of_refusal(&refused));
    wire.finish();
}
