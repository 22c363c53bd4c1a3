//! Any events in any order: every request ends, with one final response or, where that is allowed, with none; and no
//! state is left.

use crate::wire::{ALICE, Sent, Wire, cancel, invite, request, target_uri};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sip_elements::BranchId;
use std::time::Duration;

const STATUSES: [&str; 12] = [
    "100 Trying",
    "180 Ringing",
    "183 Progress",
    "200 OK",
    "302 Moved",
    "401 Unauthorized",
    "408 Request Timeout",
    "486 Busy Here",
    "487 Request Terminated",
    "503 Service Unavailable",
    "500 Oops",
    "603 Decline",
];
const URIS: [&str; 7] = [
    "sip:bob@192.0.2.20:5060",
    "sip:bob@192.0.2.30:5060",
    "sip:bob@192.0.2.40:5060",
    "sip:bob@192.0.2.50:5060",
    "sip:bob@pc.example.com",
    "tel:+15551234",
    "sip:bob@192.0.2.255",
];

struct Script {
    wire: Wire,
    random: ChaCha8Rng,
    /// Requests that were sent and can be answered.
    requests: Vec<Sent>,
    tickets: Vec<BranchId>,
    finals: Vec<String>,
}

impl Script {
    fn below(&mut self, bound: usize) -> usize {
        self.random.next_u32() as usize % bound
    }

    fn collect(&mut self) {
        for sent in self.wire.take_sent() {
            if !sent.first_line().starts_with("SIP/2.0") {
                self.requests.push(sent);
            } else if !sent.first_line().starts_with("SIP/2.0 1") {
                self.finals.push(sent.first_line().to_owned());
            }
        }
        self.tickets.extend(self.wire.take_tickets());
    }

    fn step(&mut self, is_invite: bool) {
        match self.below(8) {
            0 => {
                let millis = [1, 600, 5_100, 33_000, 181_100][self.below(5)];
                self.wire.pass(Duration::from_millis(millis));
            }
            1 if is_invite && self.finals.is_empty() => self.wire.receive(ALICE, &cancel()),
            2 if !self.tickets.is_empty() => {
                let place = self.below(self.tickets.len());
                let ticket = self.tickets[place];
                let addresses: &[&str] = [
                    &[][..],
                    &["192.0.2.60:5060"],
                    &["192.0.2.60:5060", "192.0.2.61:5060"],
                ][self.below(3)];
                self.wire.resolved(ticket, addresses);
            }
            _ if !self.requests.is_empty() => {
                let place = self.below(self.requests.len());
                let request = self.requests[place].clone();
                if !request.first_line().starts_with("ACK") {
                    let status = if request.first_line().starts_with("CANCEL") {
                        3
                    } else {
                        self.below(STATUSES.len())
                    };
                    self.wire
                        .receive(&request.to.to_string(), &request.reply(STATUSES[status]));
                }
            }
            _ => {}
        }
        self.collect();
    }
}

#[test]
fn every_request_ends_once_and_leaves_nothing() {
    for seed in 0..2_000_u64 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let targets = (0..random.next_u32() % 5)
            .map(|_| {
                let uri = URIS[random.next_u32() as usize % URIS.len()];
                target_uri(uri, [1000, 1000, 500][random.next_u32() as usize % 3])
            })
            .collect();
        let mut wire = Wire::new(targets);
        if random.next_u32().is_multiple_of(3) {
            wire.settings.proxy.no_answer = Some(Duration::from_secs(3));
        }
        // A node that has just started does not know which requests have ended.
        wire.pass(Duration::from_secs(3_600));
        let is_invite = !random.next_u32().is_multiple_of(4);
        wire.receive(
            ALICE,
            &if is_invite {
                invite()
            } else {
                request("MESSAGE", "sip:bob@example.org", "")
            },
        );
        let mut script = Script {
            wire,
            random,
            requests: Vec::new(),
            tickets: Vec::new(),
            finals: Vec::new(),
        };
        script.collect();
        for _ in 0..script.below(40) {
            script.step(is_invite);
        }
        // Every target may ring until Timer C fires and then be cancelled for 32 seconds.
        script.wire.pass(Duration::from_secs(20 * 250));
        script.collect();
        let (finals, wire) = (script.finals, script.wire);
        wire.assert_counts(0);
        assert_eq!(
            wire.proxy.next_deadline(),
            None,
            "seed {seed}: a timer is left"
        );
        let stats = wire.transactions.stats();
        assert_eq!(
            (stats.servers_live, stats.clients_live),
            (0, 0),
            "seed {seed}: {stats:?}"
        );
        if is_invite {
            assert!(
                !finals.is_empty(),
                "seed {seed}: an INVITE without final response"
            );
        } else {
            assert!(finals.len() <= 1, "seed {seed}: {finals:?}");
        }
        // The test sends no ACK for an error response, so it is retransmitted, but it stays the same. After a call was
        // answered, no error response follows.
        let is_success = |line: &String| line.starts_with("SIP/2.0 2");
        let mut refusals: Vec<_> = finals
            .iter()
            .skip_while(|line| is_success(line))
            .filter(|line| !is_success(line))
            .collect();
        assert!(
            refusals.is_empty() || !is_success(&finals[0]),
            "seed {seed}: {finals:?}"
        );
        refusals.dedup();
        assert!(refusals.len() <= 1, "seed {seed}: {finals:?}");
    }
}
