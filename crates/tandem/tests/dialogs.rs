//! Calls in progress as operators see them: pages, filters, and what is refused.
mod common;

use common::{Phone, Place, call, header, metric, run, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tandem::serve::Server;

const OPEN: &str = "[auth]\nchallenge = []\n";
/// Calls that ring at once.
const CALLS: usize = 2_500;

/// Bob's phone, which rings for each INVITE and answers each CANCEL, until it is dropped.
struct Ringing {
    is_over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Ringing {
    fn start(server: &Server) -> Self {
        let bob = Phone::new(server, "bob");
        assert_eq!(bob.register("bob", 1).0, 200);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let ring = move || {
            while !over.load(Ordering::Relaxed) {
                let request = bob.receive();
                let status = match request.split(' ').next() {
                    Some("INVITE") => "180 Ringing",
                    Some("CANCEL") => "200 OK",
                    _ => continue,
                };
                bob.send_raw(&response(&request, status));
                if status == "200 OK" {
                    let invite = request.replace(" CANCEL\r\n", " INVITE\r\n");
                    bob.send_raw(&response(&invite, "487 Request Terminated"));
                }
            }
        };
        Self {
            is_over,
            thread: Some(thread::spawn(ring)),
        }
    }

    /// Ends the phone with a last message.
    fn stop(mut self, alice: &Phone) {
        self.is_over.store(true, Ordering::Relaxed);
        invite(alice, "last");
        let thread = self.thread.take().expect("not ended yet");
        thread.join().expect("it did not panic");
    }
}

/// Bob's response to a request.
fn response(request: &str, status: &str) -> String {
    let kept = request.lines().filter(|line| {
        ["Via:", "Record-Route:", "From:", "Call-ID:", "CSeq:"]
            .iter()
            .any(|name| line.starts_with(name))
    });
    let kept: Vec<&str> = kept.collect();
    let to = header(request, "To").expect("To");
    format!(
        "SIP/2.0 {status}\r\n{}\r\nTo: {to};tag=b1\r\nContent-Length: 0\r\n\r\n",
        kept.join("\r\n")
    )
}

fn invite(alice: &Phone, call_id: &str) {
    let to = "sip:bob@tandem.localhost";
    alice.send((1, "INVITE"), to, to, call_id, "");
}

/// Alice makes calls that ring.
fn ring(alice: &Phone) {
    for number in 0..CALLS {
        invite(alice, &format!("call-{number}"));
        while !alice.receive().starts_with("SIP/2.0 180 ") {}
    }
}

/// All pages of a list.
async fn pages(server: &Server, limit: usize) -> Vec<Vec<Value>> {
    let mut pages = Vec::new();
    let mut after = Value::Null;
    loop {
        let params = json!({ "limit": limit, "after": after });
        let mut page = call(server, "dialogs.list", params).await.expect("a page");
        pages.push(page["dialogs"].as_array().cloned().expect("a list"));
        after = page["next"].take();
        if after.is_null() {
            return pages;
        }
    }
}

async fn count(server: &Server, params: Value) -> usize {
    let page = call(server, "dialogs.list", params).await.expect("a page");
    page["dialogs"].as_array().map_or(0, Vec::len)
}

#[test]
fn thousands_of_calls_are_listed_page_by_page_and_each_is_found_and_ended() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let bob = Ringing::start(&server);
        let alice = Phone::new(&server, "alice");
        ring(&alice);

        let pages = pages(&server, 700).await;
        let sizes: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(sizes, [700, 700, 700, 400]);
        let ids = pages.iter().flatten().map(|dialog| &dialog["id"]);
        let ids: BTreeSet<&str> = ids.filter_map(Value::as_str).collect();
        assert_eq!(ids.len(), CALLS);

        let everyone = json!({ "limit": 10_000, "user": "alice@tandem.localhost" });
        assert_eq!(count(&server, everyone).await, CALLS);
        let limited = json!({ "limit": 10_000, "state": "early", "user": "bob" });
        assert_eq!(count(&server, limited).await, CALLS);
        for nothing in [
            json!({ "state": "confirmed" }),
            json!({ "user": "carol" }),
            json!({ "call_id": "call-" }),
        ] {
            assert_eq!(count(&server, nothing).await, 0);
        }

        let one = call(&server, "dialogs.get", json!({ "id": "call-1234" })).await;
        let one = &one.expect("found")["dialogs"][0];
        let by_id = call(&server, "dialogs.get", json!({ "id": one["id"] })).await;
        let by_id = &by_id.expect("found")["dialogs"][0];
        assert_eq!(by_id["call_id"], "call-1234");
        assert_eq!(by_id["caller"]["address"], alice.address().to_string());
        assert_eq!(by_id["caller"]["last_cseq"], 1);

        let ended = call(&server, "dialogs.end", json!({ "id": "call-1234" })).await;
        let ended = &ended.expect("ended")["dialogs"][0];
        assert_eq!(
            (&ended["id"], &ended["to_callee"]),
            (&one["id"], &json!("CANCEL"))
        );
        assert_eq!(alice.final_response("INVITE").0, 487);
        let name = "tandem_dialogs_ended_total{cause=\"operator\"}";
        until("it is counted", async || metric(&server, name).await == 1).await;
        let stats = call(&server, "dialogs.stats", json!({}))
            .await
            .expect("counts");
        assert_eq!(stats["total"]["created"], CALLS);
        assert_eq!(stats["total"]["early"], CALLS - 1);
        assert_eq!(stats["total"]["ended"]["operator"], 1);
        let of_workers = stats["workers"].as_array().expect("a list").iter();
        let early: Vec<u64> = of_workers.filter_map(|of| of["early"].as_u64()).collect();
        assert_eq!(early.iter().sum::<u64>() as usize, CALLS - 1);
        assert!(early.iter().all(|early| *early > 0), "{early:?}");
        bob.stop(&alice);
    });
}

#[test]
fn what_names_no_dialog_is_refused_with_what_to_do() {
    run(async {
        let (_place, server) = Place::new(OPEN).start_alone().await;
        let unknown = "there is no dialog with the id or Call-ID";
        let id = "019f3c2ab4d85e6f708192a3b4c5d6e7";
        for (method, params, problem) in [
            ("dialogs.get", json!({ "id": "x@y" }), unknown),
            ("dialogs.get", json!({ "id": id }), unknown),
            ("dialogs.end", json!({ "id": id }), unknown),
            ("dialogs.end", json!({ "id": "" }), "from 1 to 1024 bytes"),
            (
                "dialogs.end",
                json!({ "id": id, "reason": "a\nb" }),
                "no control characters",
            ),
            (
                "dialogs.list",
                json!({ "user": "@" }),
                "must be user@domain",
            ),
            (
                "dialogs.list",
                json!({ "user": "a", "call_id": "b" }),
                "name either",
            ),
            (
                "dialogs.list",
                json!({ "state": "ended" }),
                "must be early or confirmed",
            ),
            (
                "dialogs.list",
                json!({ "after": "x" }),
                "must be `next` of an earlier page",
            ),
            (
                "dialogs.list",
                json!({ "limit": 10_001 }),
                "from 1 to 10000",
            ),
        ] {
            let refused = call(&server, method, params.clone()).await;
            let refused = refused.expect_err(method);
            assert!(refused.contains(problem), "{params}: {refused}");
        }
        let beyond = json!({ "after": "900-1" });
        assert_eq!(count(&server, beyond).await, 0);
    });
}
