//! Gateways that misbehave: the call of a subscriber succeeds through another one, and nothing stays behind.
mod common;

use common::calls::in_dialog;
use common::{Phone, Place, blocking, call, metric, run, until};
use serde_json::{Value, json};
use std::sync::Arc;
use tandem::serve::Server;
use tandem_lab::gateways::{Agent, Behaviour};

/// A server with two gateways. Calls go to `bad` as long as it takes them.
struct Bench {
    _place: Place,
    server: Server,
    bad: Agent,
    good: Agent,
    caller: Arc<Phone>,
}

impl Bench {
    async fn start(behaviour: Behaviour) -> Self {
        let [bad, good] =
            [(); 2].map(|()| Agent::start(([127, 0, 0, 1], 0).into()).expect("a gateway"));
        bad.behave(behaviour);
        let gateway = |name: &str, agent: &Agent| {
            format!(
                "[[gateway]]\nname = \"{name}\"\ndestination = \"sip:{};transport=udp\"\nprobe_interval = \"1s\"\n\
                 probe_timeout = \"500ms\"\nmisses = 3\nanswers = 2\nresponse_timeout = \"1s\"\n",
                agent.address()
            )
        };
        let routing = format!(
            "{}{}[[group]]\nname = \"out\"\nmembers = [\"bad\", {{ gateway = \"good\", priority = 1 }}]\n\
             [[rule]]\nname = \"out\"\nuser = [\"49*\"]\naction = \"group\"\ngroup = \"out\"\nauthenticate = \"never\"\n\
             [call_limits]\nmax_calls = 100\n",
            gateway("bad", &bad),
            gateway("good", &good)
        );
        let (place, server) = Place::new(&routing).start_alone().await;
        let caller = Arc::new(Phone::new(&server, "alice"));
        Self {
            _place: place,
            server,
            bad,
            good,
            caller,
        }
    }

    /// Makes a call and ends it. Returns the gateway that has answered, by its port.
    async fn call(&self, call_id: String) -> u16 {
        let caller = Arc::clone(&self.caller);
        blocking(move || {
            let uri = "sip:4930123@tandem.localhost";
            caller.send((1, "INVITE"), uri, uri, &call_id, "");
            let (status, answer) = caller.final_response("INVITE");
            assert_eq!(status, 200, "{answer}");
            for request in [(1, "ACK"), (2, "BYE")] {
                caller.send_raw(&in_dialog(&caller, &answer, request));
            }
            let (status, ended) = caller.final_response("BYE");
            assert_eq!(status, 200, "{ended}");
            let port = answer.split("Contact: <sip:gateway@127.0.0.1:").nth(1);
            let port = port.and_then(|rest| rest.split('>').next()?.parse().ok());
            port.unwrap_or_else(|| panic!("no Contact of a gateway in {answer}"))
        })
        .await
    }

    /// Makes calls. Returns how many `bad` has answered.
    async fn calls(&self, name: &str, count: u32) -> u32 {
        let mut answered = 0;
        for number in 0..count {
            let port = self.call(format!("{name}-{number}")).await;
            answered += u32::from(port == self.bad.address().port());
        }
        answered
    }

    async fn bad(&self) -> Value {
        let found = call(&self.server, "gateways.get", json!({ "name": "bad" })).await;
        found.expect("the gateway")
    }

    async fn until_bad_is(&self, state: &str) {
        until(&format!("bad is {state}"), async || {
            self.bad().await["state"] == state
        })
        .await;
    }

    /// Waits until no call and no transaction of a call is left, here and at the gateways.
    async fn until_idle(&self) {
        until("nothing is left", async || {
            let left = [
                "tandem_gateway_calls{gateway=\"bad\"}",
                "tandem_gateway_calls{gateway=\"good\"}",
                "tandem_limit_calls{limit=\"overall\",scope=\"overall\"}",
                "tandem_dialogs{state=\"early\"}",
                "tandem_dialogs{state=\"confirmed\"}",
            ];
            let mut sum = self.bad.counts().live + self.good.counts().live;
            for name in left {
                sum += metric(&self.server, name).await;
            }
            sum == 0
        })
        .await;
    }
}

#[test]
fn a_gateway_that_says_only_100_is_cancelled_and_the_call_goes_to_the_next_one() {
    run(async {
        let bench = Bench::start(Behaviour::Trying).await;
        assert_eq!(bench.calls("trying", 1).await, 0);
        bench.until_idle().await;
        let counts = bench.bad.counts();
        assert_eq!((counts.calls, counts.cancelled), (1, 1), "{counts:?}");
        assert_eq!(bench.good.counts().answered, 1);
        let bad = bench.bad().await;
        assert_eq!((&bad["tried"], &bad["timeouts"]), (&json!(1), &json!(1)));
    });
}

#[test]
fn a_gateway_that_answers_503_to_every_probe_gets_calls_only_if_no_other_is_left() {
    run(async {
        let bench = Bench::start(Behaviour::FailingProbes(503)).await;
        bench.until_bad_is("inactive").await;
        assert_eq!(bench.calls("others", 5).await, 0);
        let good = json!({ "name": "good" });
        let disabled = call(&bench.server, "gateways.disable", good.clone()).await;
        disabled.expect("disabled");
        assert_eq!(bench.calls("last-resort", 5).await, 5);
        let enabled = call(&bench.server, "gateways.enable", good).await;
        enabled.expect("enabled");
        bench.bad.behave(Behaviour::Answering);
        bench.until_bad_is("active").await;
        assert_eq!(bench.calls("returned", 5).await, 5);
        bench.until_idle().await;
    });
}

#[test]
fn a_gateway_that_answers_200_to_every_request_gets_its_calls_and_keeps_none() {
    run(async {
        let bench = Bench::start(Behaviour::Agreeing).await;
        assert_eq!(bench.calls("agreeing", 10).await, 10);
        bench.until_idle().await;
        let bad = bench.bad().await;
        assert_eq!((&bad["tried"], &bad["answered"]), (&json!(10), &json!(10)));
        let counts = bench.bad.counts();
        assert_eq!((counts.acknowledged, counts.ended), (10, 10), "{counts:?}");
        // The 200 to an ACK belongs to no transaction, and the caller does not get it.
        let dropped = "tandem_dropped_total{reason=\"stray_response\"}";
        assert_eq!(metric(&bench.server, dropped).await, 10);
    });
}

#[test]
fn a_gateway_that_refuses_every_other_call_fails_none_and_does_not_change_its_state_each_time() {
    run(async {
        let bench = Bench::start(Behaviour::Answering).await;
        let mut answered = 0;
        for number in 0..10 {
            bench.bad.behave(Behaviour::Refusing(503));
            answered += bench.calls(&format!("refused-{number}"), 1).await;
            bench.bad.behave(Behaviour::Answering);
            answered += bench.calls(&format!("answered-{number}"), 1).await;
        }
        assert_eq!(answered, 10);
        bench.until_idle().await;
        let bad = bench.bad().await;
        assert_eq!(bad["failed"]["5xx"], 10, "{bad}");
        assert_eq!(
            (&bad["state"], &bad["misses"]),
            (&json!("active"), &json!(0))
        );
        assert_eq!(bad["state_changes"], 1, "from unprobed: {bad}");
    });
}
