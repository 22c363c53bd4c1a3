//! Two servers that share their bindings through a Redis server (`location.store`).
mod common;
#[path = "../../tandem-store/tests/servers/process.rs"]
#[expect(dead_code, reason = "the Redis server needs less")]
mod process;

use common::calls::{response, ringing_call};
use common::redis::Redis;
use common::{Phone, Place, call, get, metric, run, until};
use process::free_port;
use serde_json::json;
use tandem::serve::Server;

const DROPPED: &str = "tandem_dropped_total{reason=\"banned\"}";

fn place(name: &str, redis: u16) -> Place {
    Place::new(&format!(
        "[auth]\nchallenge = []\n[fleet]\ninstance = \"{name}\"\n[location]\nstore = \"redis://127.0.0.1:{redis}\"\n"
    ))
}

async fn registered(server: &Server, bindings: u64) {
    until("the server has these bindings", async || {
        metric(server, "tandem_registrations").await == bindings
    })
    .await;
}

#[test]
fn a_phone_that_registers_at_one_server_is_called_through_the_other_and_outlives_both() {
    run(async {
        let port = free_port();
        let redis = Redis::start(port).await;
        let [one, two] = ["one", "two"].map(|name| place(name, port));
        let (first, second) = (one.start().await, two.start().await);
        let bob = Phone::new(&first, "bob");
        assert_eq!(bob.register("bob", 1).0, 200);
        registered(&second, 1).await;

        let alice = Phone::new(&second, "alice");
        let uri = "sip:bob@tandem.localhost";
        alice.send((1, "INVITE"), uri, uri, "call", "");
        let invite = bob.receive();
        assert!(invite.starts_with("INVITE sip:bob@127.0.0.1"), "{invite}");
        bob.send_raw(&response(&invite, "486 Busy Here"));

        // The database has no bindings: a new process has them from the fleet.
        assert!(first.stop(false).await);
        assert_eq!(
            second
                .running()
                .store
                .locations()
                .count()
                .await
                .expect("counts"),
            0
        );
        let first = one.start().await;
        assert_eq!(first.running().restored, 1);

        // The phone refreshes at the other server, with the next CSeq.
        let bob = bob.to(second.running().listeners[0].address);
        assert_eq!(bob.register("bob", 2).0, 200);
        until("the change is taken over", async || {
            metric(&first, "tandem_fleet_received_total").await > 1
        })
        .await;
        drop(redis);
        until("the servers notice", async || {
            metric(&first, "tandem_fleet_connected").await == 0
                && metric(&second, "tandem_fleet_connected").await == 0
        })
        .await;
        assert_eq!(
            get(&first, "/health/ready").await.0,
            200,
            "it goes on from memory"
        );
        assert_eq!(bob.register("bob", 3).0, 200);
        let _redis = Redis::start(port).await;
        let (_three, third) = place("three", port).start_alone().await;
        registered(&third, 1).await;
        for server in [first, second, third] {
            registered(&server, 1).await;
            assert!(server.stop(false).await);
        }
    });
}

#[test]
fn each_server_has_bans_and_limits_of_its_own() {
    run(async {
        let port = free_port();
        let _redis = Redis::start(port).await;
        let limited = |name: &str| {
            let place = place(name, port);
            let text = std::fs::read_to_string(place.file()).expect("a configuration");
            place.configure_exactly(&(text + "\n[call_limits]\nmax_calls = 1\n"));
            place
        };
        let (_one, first) = limited("one").start_alone().await;
        let (_two, second) = limited("two").start_alone().await;

        let carol = Phone::from(&first, "127.0.0.9", "carol");
        let ban = json!({ "source": "127.0.0.9", "seconds": 60 });
        call(&first, "bans.add", ban).await.expect("a ban");
        let options = |call_id| {
            let uri = "sip:tandem.localhost";
            carol.send((1, "OPTIONS"), uri, uri, call_id, "");
        };
        options("banned");
        until("the request is dropped", async || {
            metric(&first, DROPPED).await == 1
        })
        .await;
        assert_eq!(metric(&second, "tandem_banned_sources").await, 0);
        let carol = carol.to(second.running().listeners[0].address);
        assert_eq!(carol.register("welcome", 1).0, 200);

        let uri = "sip:bob@tandem.localhost";
        for (server, call_ids) in [(&first, ["a", "b"]), (&second, ["c", "d"])] {
            let [rings, refused] = call_ids;
            let _ringing = ringing_call(server, rings);
            let other = Phone::new(server, "dave");
            other.send((1, "INVITE"), uri, uri, refused, "");
            assert_eq!(other.final_response("INVITE").0, 503);
        }
        for server in [first, second] {
            assert!(server.stop(true).await);
        }
    });
}
