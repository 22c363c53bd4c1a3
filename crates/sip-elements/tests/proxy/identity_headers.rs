//! Header fields in responses that assert the identity of the callee (RFC 3325 section 5).

use crate::wire::{ALICE, BOB, CAROL, US, Wire, ack_of_refusal, invite, settings, target, udp};

const ASSERTED: &str = "P-Asserted-Identity: <sip:chief@example.org>\r\nP-Preferred-Identity: <sip:chief@example.org>\r\n\
                        Remote-Party-ID: <sip:chief@example.org>;party=called\r\nDiversion: <sip:chief@example.org>\r\n";

/// A call to Bob, and to Carol after him, with these trusted peers.
fn call(trusted: &[&str]) -> Wire {
    let mut settings = settings(vec![udp(US, 24)]);
    settings.proxy.trusted_peers = trusted
        .iter()
        .map(|peer| {
            let (address, _) = peer.split_once(':').expect("a port");
            format!("{address}/32").parse().expect("a network")
        })
        .collect();
    let mut wire = Wire::with(settings, vec![target(CAROL, 500), target(BOB, 1000)]);
    wire.receive(ALICE, &invite());
    wire.expect(ALICE, "SIP/2.0 100");
    wire
}

#[test]
fn only_a_trusted_peer_asserts_who_answers() {
    let private = format!("{ASSERTED}Privacy: id\r\n");
    for (trusted, headers, left) in [
        (&[][..], ASSERTED, 0),
        (&[ALICE], ASSERTED, 0),
        (&[BOB], ASSERTED, 4),
        (&[BOB], &private, 1),
        (&[BOB, ALICE], &private, 4),
    ] {
        let named = |sent: &crate::wire::Sent| {
            let names = ["P-Asserted-Identity", "P-Preferred-Identity"];
            let names = names.iter().chain(&["Remote-Party-ID", "Diversion"]);
            names.map(|name| sent.header(name).len()).sum::<usize>()
        };
        // While the response context exists, and after it has ended.
        let mut wire = call(trusted);
        let sent = wire.expect(BOB, "INVITE");
        wire.receive(BOB, &sent.reply_with("180 Ringing", headers));
        assert_eq!(named(&wire.expect(ALICE, "SIP/2.0 180")), left);
        for _ in 0..2 {
            wire.receive(BOB, &sent.reply_with("200 OK", headers));
            assert_eq!(named(&wire.expect(ALICE, "SIP/2.0 200")), left);
            wire.pass(std::time::Duration::from_secs(40));
            wire.ignore_sent();
        }
        // A response that is kept until all other targets have failed.
        let mut wire = call(trusted);
        let sent = wire.expect(BOB, "INVITE");
        wire.receive(BOB, &sent.reply_with("486 Busy Here", headers));
        wire.expect(BOB, "ACK");
        let second = wire.expect(CAROL, "INVITE");
        wire.receive(CAROL, &second.reply("480 Not Here"));
        wire.expect(CAROL, "ACK");
        let refused = wire.expect(ALICE, "SIP/2.0 486");
        assert_eq!(named(&refused), left);
        wire.receive(ALICE, &ack_of_refusal(&refused));
        wire.finish();
    }
}
