//! Nonces in a fleet: those of one server are good at another one, and a request that one of them has accepted is a replay at all of them.
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
#[expect(dead_code, reason = "the Redis server needs less")]
mod process;

use common::redis::Redis;
use common::{Phone, Place, header, metric, run, until};
use process::free_port;
use std::path::PathBuf;
use tandem::serve::Server;

const USES: &str = "tandem_fleet_nonce_uses_total";

fn place(instance: &str, redis: u16) -> Place {
    Place::new(&format!(
        "[fleet]\ninstance = \"{instance}\"\n[location]\nstore = \"redis://127.0.0.1:{redis}\"\n"
    ))
}

/// A server with the same subscribers and the same secret.
async fn sibling(of: &Place, instance: &str, redis: u16) -> (Place, Server) {
    let other = place(instance, redis);
    for suffix in ["", "-wal"] {
        let path = |place: &Place| {
            let url = place.database_url() + suffix;
            PathBuf::from(url.trim_start_matches("sqlite:"))
        };
        // The log of a database need not exist.
        let _ = std::fs::copy(path(of), path(&other));
    }
    other.start_alone().await
}

/// Sends a REGISTER with credentials to a server. Returns the status, and whether the nonce was called stale.
fn register(
    phone: Phone,
    server: &Server,
    (nonce, count): (&str, u32),
    call_id: &str,
) -> (Phone, (u16, bool)) {
    let phone = phone.to(server.running().listeners[0].address);
    let domain = "sip:tandem.localhost";
    let credentials = phone.authorization("secret", nonce, count);
    phone.send(
        (count + 1, "REGISTER"),
        domain,
        "sip:alice@tandem.localhost",
        call_id,
        &credentials,
    );
    let (status, response) = phone.final_response("REGISTER");
    let challenge = header(&response, "WWW-Authenticate").unwrap_or_default();
    (phone, (status, challenge.contains("stale=true")))
}

#[test]
fn a_nonce_of_one_server_is_good_at_the_other_and_a_replay_is_refused_by_both() {
    run(async {
        let port = free_port();
        let redis = Redis::start(port).await;
        let one = place("one", port);
        let first = one.start().await;
        one.subscribe("alice", "secret").await;
        let (_two, second) = sibling(&one, "two", port).await;
        let alice = Phone::new(&first, "alice");
        let challenge = alice.register("a", 1).1;
        let nonce = challenge
            .split("nonce=\"")
            .nth(1)
            .and_then(|rest| rest.split('"').next());
        let nonce = nonce.expect("a challenge").to_owned();
        let mut phone = Some(alice);
        let mut register = |server: &Server, count: u32, call_id: &str| {
            let (used, answer) = register(
                phone.take().expect("a phone"),
                server,
                (&nonce, count),
                call_id,
            );
            phone = Some(used);
            answer
        };
        let hears = async |server: &Server, uses: u64| {
            until("the server hears of the use", async || {
                metric(server, USES).await >= uses
            })
            .await;
        };

        assert_eq!(register(&second, 1, "a").0, 200);
        assert_eq!(register(&second, 1, "stolen"), (401, true));
        hears(&first, 1).await;
        assert_eq!(register(&first, 1, "stolen"), (401, true));

        assert_eq!(register(&first, 2, "b").0, 200);
        hears(&second, 1).await;
        assert_eq!(register(&second, 2, "stolen"), (401, true));
        // What was accepted is accepted again: it may be a retransmission to another node.
        assert_eq!(register(&second, 2, "b").0, 200);

        // A use while the store is away is told when it is back.
        drop(redis);
        assert_eq!(register(&first, 3, "c").0, 200);
        let _redis = Redis::start(port).await;
        hears(&second, 2).await;
        assert_eq!(register(&second, 3, "stolen"), (401, true));

        // A new process learns what has been used since.
        let (_three, third) = sibling(&one, "three", port).await;
        assert_eq!(register(&third, 3, "stolen"), (401, true));
        assert_eq!(register(&third, 4, "d").0, 200);
        for server in [first, second, third] {
            assert!(server.stop(false).await);
        }
    });
}
