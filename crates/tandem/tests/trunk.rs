//! A carrier that wants this server to register: what operators see, and what a shutdown sends.
mod common;

use common::{Place, blocking, call, header, metric, response, run, until};
use serde_json::{Value, json};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;
use tandem::serve::Server;

const CHALLENGE: &str =
    "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"carrier\", nonce=\"n1\", qop=\"auth\"";

/// The socket of a carrier, and the `CSeq` number that it has answered last.
#[derive(Clone)]
struct Carrier(Arc<UdpSocket>, Arc<AtomicU32>);

impl Carrier {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let patience = Some(Duration::from_secs(20));
        socket.set_read_timeout(patience).expect("a timeout");
        Self(Arc::new(socket), Arc::default())
    }

    /// A server that registers here.
    async fn customer(&self) -> (Place, Server) {
        let address = self.0.local_addr().expect("bound");
        let place = Place::new(&format!(
            "[[gateway]]\nname = \"carrier\"\ndestination = \"sip:{address}\"\nprobe = false\nusername = \"trunk\"\n\
             password = \"s3cret\"\nregister = \"sip:4930@carrier.example\"\nregister_contact = \"line-1\"\n"
        ));
        place.start_alone().await
    }

    /// Answers the next REGISTER. Returns it.
    async fn answer(&self, status: &str) -> String {
        let (carrier, status) = (self.clone(), status.to_owned());
        blocking(move || {
            let (request, from) = carrier.next_request();
            assert!(
                request.starts_with("REGISTER sip:carrier.example "),
                "{request}"
            );
            let answer = response(&request, &status);
            let ours = header(&answer, "Contact").expect("a Contact").to_owned();
            let contact = header(&request, "Contact").expect("a Contact");
            let answer = answer.replace(&ours, &format!("{contact};expires=120"));
            carrier.0.send_to(answer.as_bytes(), from).expect("sent");
            request
        })
        .await
    }

    /// The next request that is no retransmission.
    fn next_request(&self) -> (String, SocketAddr) {
        loop {
            let (request, from) = self.receive();
            let cseq = header(&request, "CSeq").and_then(|it| it.split(' ').next()?.parse().ok());
            let cseq: u32 = cseq.expect("a CSeq");
            if self.1.fetch_max(cseq, Relaxed) < cseq {
                return (request, from);
            }
        }
    }

    fn receive(&self) -> (String, SocketAddr) {
        let mut buffer = vec![0; 65_536];
        let (length, from) = self.0.recv_from(&mut buffer).expect("a message");
        (
            String::from_utf8_lossy(&buffer[..length]).into_owned(),
            from,
        )
    }
}

async fn gateway(server: &Server) -> Value {
    let shown = call(server, "gateways.get", json!({ "name": "carrier" })).await;
    shown.expect("a gateway")
}

#[test]
fn operators_see_a_registration_and_a_shutdown_removes_it() {
    run(async {
        let carrier = Carrier::new();
        let (_place, server) = carrier.customer().await;
        carrier.answer(CHALLENGE).await;
        let again = carrier.answer("200 OK").await;
        assert!(
            again.contains("Authorization: Digest username=\"trunk\""),
            "{again}"
        );
        until("the registration is shown", async || {
            gateway(&server).await["registration"]["state"] == "registered"
        })
        .await;
        let shown = gateway(&server).await;
        assert_eq!(shown["username"], "trunk");
        assert!(!shown.to_string().contains("s3cret"), "{shown}");
        let registration = &shown["registration"];
        assert_eq!(registration["address"], "sip:4930@carrier.example");
        assert_eq!(registration["last_response"], 200);
        let seconds = |name: &str| registration[name].as_u64().expect("a time");
        assert!(
            (110..=120).contains(&seconds("expires_in")),
            "{registration}"
        );
        assert!(
            (50..=60).contains(&seconds("next_attempt_in")),
            "{registration}"
        );
        let of =
            |name: &str, result: &str| format!("{name}{{gateway=\"carrier\",result=\"{result}\"}}");
        let registered = metric(&server, "tandem_gateway_registered{gateway=\"carrier\"}").await;
        assert_eq!(registered, 1);
        let succeeded = of("tandem_gateway_registrations_total", "succeeded");
        assert_eq!(metric(&server, &succeeded).await, 1);
        let answered = of("tandem_gateway_challenges_total", "answered");
        assert_eq!(metric(&server, &answered).await, 1);
        let configuration = call(&server, "config.show", common::none())
            .await
            .expect("shown");
        assert!(
            !configuration.to_string().contains("s3cret"),
            "{configuration}"
        );

        let (drained, leaving) = tokio::join!(server.drain(), carrier.answer("200 OK"));
        assert_eq!(header(&leaving, "Expires"), Some("0"), "{leaving}");
        assert!(drained, "the response ends the drain");
        assert_eq!(
            gateway(&server).await["registration"]["state"],
            "unregistered"
        );
    });
}

#[test]
fn a_refused_registration_is_shown_with_its_response_and_does_not_take_the_gateway_out() {
    run(async {
        let carrier = Carrier::new();
        let (_place, server) = carrier.customer().await;
        carrier.answer("403 Forbidden").await;
        until("the failure is shown", async || {
            gateway(&server).await["registration"]["state"] == "failed"
        })
        .await;
        let shown = gateway(&server).await;
        assert_eq!(shown["registration"]["last_response"], 403);
        assert_eq!(shown["state"], "unprobed");
        let failed = "tandem_gateway_registrations_total{gateway=\"carrier\",result=\"failed\"}";
        assert_eq!(metric(&server, failed).await, 1);
        assert_eq!(
            metric(&server, "tandem_gateway_registered{gateway=\"carrier\"}").await,
            0
        );
    });
}
