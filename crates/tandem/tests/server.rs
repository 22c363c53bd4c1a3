//! A complete server: phones register by digest with subscribers of the database, registrations survive, draining finishes calls, and an
//! unavailable database blocks no other request.
mod common;

use common::calls::{in_dialog, response, ringing_call};
use common::{Phone, Place, call, get, metric, none, run, until};
use serde_json::json;
use sqlx::Connection;
use std::time::{Duration, Instant};
use tandem::serve::Server;

const OPEN: &str = "[auth]\nchallenge = []\n";

#[test]
fn a_subscriber_registers_by_digest_whether_added_before_or_after_the_start() {
    run(async {
        let place = Place::new("");
        place.subscribe("alice", "one").await;
        let server = place.start().await;
        assert_eq!(
            metric(&server, "tandem_credentials_cached").await,
            1,
            "the cache is warm"
        );
        assert_eq!(Phone::new(&server, "alice").register_with("one", "a"), 200);
        assert_eq!(
            metric(&server, "tandem_questions_total").await,
            0,
            "the server did not wait for the database"
        );
        place.subscribe("bob", "two").await;
        assert_eq!(Phone::new(&server, "bob").register_with("two", "b"), 200);
        assert!(
            metric(
                &server,
                "tandem_lookups_total{kind=\"credentials\",result=\"found\"}"
            )
            .await
                >= 1
        );
        assert_ne!(Phone::new(&server, "bob").register_with("wrong", "c"), 200);
        assert_ne!(Phone::new(&server, "nobody").register_with("x", "d"), 200);
    });
}

#[test]
fn a_changed_password_is_followed_within_seconds() {
    run(async {
        let place = Place::new("");
        place.subscribe("alice", "one").await;
        let server = place.start().await;
        assert_eq!(Phone::new(&server, "alice").register_with("one", "a"), 200);
        place.change_password("alice", "two").await;
        let mut attempt = 0;
        until("the new password is good", async || {
            attempt += 1;
            Phone::new(&server, "alice").register_with("two", &format!("n{attempt}")) == 200
        })
        .await;
        assert_ne!(Phone::new(&server, "alice").register_with("one", "o"), 200);
    });
}

#[test]
fn registrations_survive_a_restart_and_are_there_before_the_server_is_ready() {
    run(async {
        let place = Place::new(OPEN);
        let server = place.start().await;
        let phone = Phone::new(&server, "alice");
        assert_eq!(phone.register("a", 1).0, 200);
        let before = call(
            &server,
            "location.get",
            json!({ "address": "alice@tandem.localhost" }),
        )
        .await
        .expect("found");
        assert!(server.stop(false).await, "everything is saved");
        let server = place.start().await;
        assert_eq!(server.running().restored, 1);
        let after = call(
            &server,
            "location.get",
            json!({ "address": "alice@tandem.localhost" }),
        )
        .await
        .expect("found");
        for field in ["contact", "call_id", "cseq", "source", "q"] {
            assert_eq!(
                before["bindings"][0][field], after["bindings"][0][field],
                "{field}"
            );
        }
    });
}

#[test]
fn what_was_removed_does_not_come_back() {
    run(async {
        let place = Place::new(OPEN);
        let server = place.start().await;
        assert_eq!(Phone::new(&server, "alice").register("a", 1).0, 200);
        until("it is saved", async || {
            metric(&server, "tandem_location_saves_total").await >= 1
        })
        .await;
        call(
            &server,
            "location.remove",
            json!({ "address": "alice@tandem.localhost" }),
        )
        .await
        .expect("removed");
        assert!(server.stop(false).await);
        assert_eq!(place.start().await.running().restored, 0);
    });
}

#[test]
fn draining_refuses_new_calls_and_waits_for_the_ones_there_are() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let (alice, bob, invite) = ringing_call(&server, "ringing");
        until("the call is in progress", async || {
            metric(&server, "tandem_response_contexts").await == 1
        })
        .await;
        let mut draining = Box::pin(server.drain());
        let early = tokio::time::timeout(Duration::from_millis(300), &mut draining).await;
        assert!(early.is_err(), "it does not wait for the ringing call");
        let (status, reason) = get(&server, "/health/ready").await;
        assert_eq!(status, 503);
        assert!(reason.contains("draining"), "{reason}");
        let carol = Phone::new(&server, "carol");
        carol.send(
            (1, "INVITE"),
            "sip:bob@tandem.localhost",
            "sip:bob@tandem.localhost",
            "late",
            "",
        );
        let (status, refused) = carol.final_response("INVITE");
        assert_eq!(status, 503);
        assert!(
            common::header(&refused, "Retry-After").is_some(),
            "{refused}"
        );
        let back = call(&server, "node.drain", json!({ "on": false })).await;
        assert_eq!(
            back,
            Err("node.drain: the server is shutting down".to_owned())
        );
        bob.send_raw(&response(&invite, "486 Busy Here"));
        assert_eq!(alice.final_response("INVITE").0, 486);
        assert!(
            tokio::time::timeout(common::PATIENCE, draining.as_mut())
                .await
                .expect("it ends"),
            "all calls are done"
        );
        drop(draining);
        assert!(server.stop(false).await);
    });
}

#[test]
fn draining_waits_for_the_ack_of_a_call_that_is_answered_meanwhile() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let (alice, bob, invite) = ringing_call(&server, "answered");
        until("the call is in progress", async || {
            metric(&server, "tandem_response_contexts").await == 1
        })
        .await;
        let mut draining = Box::pin(server.drain());
        let a_while = Duration::from_millis(300);
        let early = tokio::time::timeout(a_while, &mut draining).await;
        assert!(early.is_err(), "it does not wait for the ringing call");
        bob.send_raw(&response(&invite, "200 OK"));
        let (status, answer) = alice.final_response("INVITE");
        assert_eq!(status, 200);
        let early = tokio::time::timeout(a_while, &mut draining).await;
        assert!(early.is_err(), "it does not wait for the ACK");
        alice.send_raw(&in_dialog(&alice, &answer, (1, "ACK")));
        assert!(bob.receive().starts_with("ACK "));
        assert!(
            tokio::time::timeout(common::PATIENCE, draining.as_mut())
                .await
                .expect("it ends"),
            "all calls are done"
        );
    });
}

#[test]
fn draining_ends_when_its_time_is_over() {
    run(async {
        let (_place, server) = Place::new(&format!("{OPEN}[shutdown]\ndrain_timeout = \"1s\"\n"))
            .start_alone()
            .await;
        let _phones = ringing_call(&server, "ringing");
        until("the call is in progress", async || {
            metric(&server, "tandem_response_contexts").await == 1
        })
        .await;
        let begin = Instant::now();
        assert!(!server.drain().await, "the call still rings");
        assert!(begin.elapsed() >= Duration::from_secs(1));
    });
}

#[test]
fn draining_can_be_taken_back() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let phone = Phone::new(&server, "alice");
        assert_eq!(
            call(&server, "node.drain", none()).await,
            Ok(json!({ "phase": "draining" }))
        );
        until("registrations are refused", async || {
            phone.register("a", 1).0 == 503
        })
        .await;
        assert_eq!(
            call(&server, "node.drain", json!({ "on": false })).await,
            Ok(json!({ "phase": "ready" }))
        );
        let mut cseq = 1;
        until("registrations are taken", async || {
            cseq += 1;
            phone.register("a", cseq).0 == 200
        })
        .await;
        assert_eq!(get(&server, "/health/ready").await.0, 200);
    });
}

#[test]
fn a_database_that_is_away_delays_saving_and_holds_up_no_phone() {
    run(async {
        let place = Place::new(OPEN);
        let server = place.start().await;
        let mut other = sqlx::SqliteConnection::connect(&place.database_url())
            .await
            .expect("the database opens");
        sqlx::raw_sql("BEGIN EXCLUSIVE")
            .execute(&mut other)
            .await
            .expect("locked");
        let phone = Phone::new(&server, "alice");
        for cseq in 1..=20 {
            assert_eq!(phone.register("a", cseq).0, 200);
        }
        until("the lag is to be seen", async || {
            metric(&server, "tandem_location_unsaved").await == 1
        })
        .await;
        assert_eq!(get(&server, "/health/ready").await.0, 200);
        sqlx::raw_sql("ROLLBACK")
            .execute(&mut other)
            .await
            .expect("unlocked");
        until("it is saved", async || {
            metric(&server, "tandem_location_unsaved").await == 0
        })
        .await;
        assert!(server.stop(false).await);
        assert_eq!(place.start().await.running().restored, 1);
    });
}

#[test]
fn a_port_that_is_taken_is_refused_with_its_address() {
    run(async {
        let place = Place::new("");
        let server = place.start().await;
        let address = server.running().listeners[0].address;
        let second = Place::new("");
        let text = std::fs::read_to_string(second.file()).expect("the file");
        second.configure_exactly(&text.replacen("127.0.0.1:0", &address.to_string(), 1));
        let configuration = tandem::config::load(Some(&second.file())).expect("right");
        let refused = Server::start(None, configuration, None)
            .await
            .expect_err("it is taken")
            .to_string();
        assert!(
            refused.contains(&address.to_string()) && refused.contains("in use"),
            "{refused}"
        );
    });
}

#[test]
fn an_admin_port_that_is_taken_is_refused_with_its_key() {
    run(async {
        let (_place, server) = Place::new("").start_alone().await;
        let second = Place::new("");
        let text = std::fs::read_to_string(second.file()).expect("the file");
        let taken = format!("[admin]\nlisten = \"{}\"", server.admin_address());
        second.configure_exactly(&text.replace("[admin]\nlisten = \"127.0.0.1:0\"", &taken));
        let configuration = tandem::config::load(Some(&second.file())).expect("right");
        let refused = Server::start(None, configuration, None)
            .await
            .expect_err("it is taken")
            .to_string();
        assert!(
            refused.contains("admin.listen")
                && refused.contains(&server.admin_address().to_string()),
            "{refused}"
        );
    });
}

/// Requests for foreign names are forwarded, and the answer to a question does not take long.
const RELAY: &str =
    "[auth]\nchallenge = []\n[proxy]\nforeign = \"relay\"\n[limits]\nquestion_deadline = \"2s\"\n";

#[test]
fn a_name_is_resolved_while_the_request_waits() {
    run(async {
        let (_place, server) = Place::new(RELAY).start_alone().await;
        let (alice, bob) = (Phone::new(&server, "alice"), Phone::new(&server, "bob"));
        let uri = format!("sip:bob@localhost:{}", bob.address().port());
        alice.send((1, "MESSAGE"), &uri, &uri, "m", "");
        let message = bob.receive();
        assert!(
            message.starts_with(&format!("MESSAGE {uri} SIP/2.0")),
            "{message}"
        );
        bob.send_raw(&response(&message, "200 OK"));
        assert_eq!(alice.final_response("MESSAGE").0, 200);
        assert_eq!(
            metric(
                &server,
                "tandem_lookups_total{kind=\"name\",result=\"found\"}"
            )
            .await,
            1
        );
    });
}

#[test]
fn a_name_that_does_not_resolve_is_answered_in_time() {
    run(async {
        let (_place, server) = Place::new(RELAY).start_alone().await;
        let alice = Phone::new(&server, "alice");
        let begin = Instant::now();
        alice.send(
            (1, "MESSAGE"),
            "sip:bob@nowhere.invalid",
            "sip:bob@nowhere.invalid",
            "m",
            "",
        );
        let (status, _) = alice.final_response("MESSAGE");
        assert!(status >= 400, "{status}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        let mut ended = 0;
        for result in ["not_found", "failed", "timed_out"] {
            ended += metric(
                &server,
                &format!("tandem_lookups_total{{kind=\"name\",result=\"{result}\"}}"),
            )
            .await;
        }
        assert_eq!(ended, 1);
        assert_eq!(metric(&server, "tandem_parked_requests").await, 0);
    });
}

#[test]
fn more_changes_than_are_listed_are_saved_by_a_full_save() {
    const NAMES: usize = 300;
    run(async {
        let few =
            format!("{OPEN}[limits]\npending_changes = 100\n[location]\nsave_interval = \"60s\"\n");
        let place = Place::new(&few);
        let server = place.start().await;
        for number in 0..NAMES {
            let name: &'static str = format!("user{number}").leak();
            assert_eq!(Phone::new(&server, name).register("r", 1).0, 200);
        }
        assert!(server.stop(false).await);
        let restored = place.start().await.running().restored;
        assert_eq!(usize::try_from(restored), Ok(NAMES));
    });
}

#[test]
fn a_quick_end_does_not_wait_for_a_database_that_is_away() {
    run(async {
        let place = Place::new(OPEN);
        let server = place.start().await;
        let mut other = sqlx::SqliteConnection::connect(&place.database_url())
            .await
            .expect("the database opens");
        sqlx::raw_sql("BEGIN EXCLUSIVE")
            .execute(&mut other)
            .await
            .expect("locked");
        assert_eq!(Phone::new(&server, "alice").register("a", 1).0, 200);
        let begin = Instant::now();
        assert!(!server.stop(true).await, "nothing can be saved");
        assert!(
            begin.elapsed() < Duration::from_secs(5),
            "it waited {:?}",
            begin.elapsed()
        );
    });
}
