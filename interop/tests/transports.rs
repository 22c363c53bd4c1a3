//! Calls between all pairs of transports, with independent telephones: baresip and linphone over UDP, TCP and TLS,
//! browsers over WS and WSS.

use interop::{
    Account, Baresip, Host, Library, Linphone, Moment, Phone, Scenario, Server, ServerOptions,
    WebPhone, last_received, wait_until,
};
use serde_json::json;
use sip_transport::Protocol;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

use Protocol::{Tcp, Tls, Udp, Ws, Wss};

const DESK: [Protocol; 3] = [Udp, Tcp, Tls];
const WEB: [Protocol; 2] = [Ws, Wss];

/// A telephone that is registered for its own user.
struct Line {
    user: String,
    protocol: Protocol,
    phone: Box<dyn Phone>,
}

impl Line {
    /// Whether the caller can hear the callee. baresip 1.0 does not complete ICE with the many addresses of a calling
    /// browser. If baresip calls the browser, it works.
    fn hears_whom_it_calls(&self, callee: &Self) -> bool {
        !(WEB.contains(&self.protocol) && DESK.contains(&callee.protocol))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Caller,
    Callee,
}

/// The kinds of telephones. Their users begin with different letters.
#[derive(Clone, Copy)]
enum Kind {
    Baresip,
    /// With media that suit a browser.
    BaresipForBrowsers,
    Linphone,
    JsSip,
    SipJs,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Baresip,
        Self::BaresipForBrowsers,
        Self::Linphone,
        Self::JsSip,
        Self::SipJs,
    ];

    const fn letters(self) -> &'static str {
        match self {
            Self::Baresip => "baresip",
            Self::BaresipForBrowsers => "webphone",
            Self::Linphone => "linphone",
            Self::JsSip => "jssip",
            Self::SipJs => "sipjs",
        }
    }

    fn user(self, protocol: Protocol) -> String {
        let transport = protocol.via_token().to_ascii_lowercase();
        format!("{}-{transport}", self.letters())
    }

    fn line(self, server: &Server, protocol: Protocol) -> Line {
        let user = self.user(protocol);
        let account = Account::new(&user).over(protocol);
        let browser = |library| Box::new(WebPhone::with_account(library, server, &account));
        let phone: Box<dyn Phone> = match self {
            Self::Baresip => Box::new(Baresip::with_account(server, &account)),
            Self::BaresipForBrowsers => {
                Box::new(Baresip::with_account(server, &account.for_browsers()))
            }
            Self::Linphone => Box::new(Linphone::with_account(server, &account)),
            Self::JsSip => browser(Library::JsSip),
            Self::SipJs => browser(Library::SipJs),
        };
        Line {
            user,
            protocol,
            phone,
        }
    }

    fn lines(self, server: &Server, protocols: &[Protocol]) -> Vec<Line> {
        let protocols = protocols.iter();
        protocols
            .map(|protocol| self.line(server, *protocol))
            .collect()
    }
}

fn options() -> ServerOptions {
    let kinds = Kind::ALL.into_iter();
    ServerOptions {
        users: kinds
            .flat_map(|kind| Protocol::ALL.map(|protocol| kind.user(protocol)))
            .chain(["bob".to_owned()])
            .collect(),
        ..ServerOptions::default()
    }
}

/// The calls made: caller and callee, transports, and the side that hung up.
#[derive(Default)]
struct Matrix(BTreeMap<(&'static str, &'static str), Vec<String>>);

impl Matrix {
    /// Each phone of `these` calls each one of `those` and is called by it. The caller ends one of the two calls, the
    /// callee the other, in turn.
    fn calls_between(&mut self, server: &Server, these: &mut [Line], those: &mut [Line]) {
        let mut ends = [Side::Caller, Side::Callee].into_iter().cycle();
        for this in these.iter_mut() {
            for that in those.iter_mut() {
                let ends = ends.next().expect("no end");
                self.call(server, this, that, ends);
                self.call(server, that, this, ends);
            }
        }
    }

    /// A call in which both sides talk and one of them hangs up. All its requests use the transports that both sides
    /// registered with.
    fn call(&mut self, server: &Server, caller: &mut Line, callee: &mut Line, ends: Side) {
        let what = format!("{} calls {}", caller.user, callee.user);
        eprintln!("{what}");
        caller.phone.dial(&server.uri(&callee.user));
        callee.phone.wait_until(Moment::Called);
        caller.phone.wait_until(Moment::Rings);
        callee.phone.accept();
        callee.phone.wait_until(Moment::Established);
        caller.phone.wait_until(Moment::Established);
        if caller.hears_whom_it_calls(callee) {
            callee.phone.wait_for_sound();
            caller.phone.wait_for_sound();
        }
        match ends {
            Side::Caller => caller.phone.hang_up(),
            Side::Callee => callee.phone.hang_up(),
        }
        callee.phone.wait_until(Moment::Over);
        caller.phone.wait_until(Moment::Over);
        assert_way_of_requests(&what, caller, callee, ends);
        let pair = (caller.protocol.via_token(), callee.protocol.via_token());
        let names = (caller.phone.name(), callee.phone.name());
        let stars = match ends {
            Side::Caller => ["*", ""],
            Side::Callee => ["", "*"],
        };
        let entry = format!("{}{} > {}{}", names.0, stars[0], names.1, stars[1]);
        self.0.entry(pair).or_default().push(entry);
    }

    /// A browser calls a sipp over UDP, which sends no audio. A telephone that also accepts TCP would not get an offer as
    /// long as a browser's in a datagram (RFC 3261 section 18.1.1). This one asks for UDP.
    fn call_from_browser_over_udp(&mut self, server: &Server, caller: &mut Line) {
        let bob = Scenario::new("answer").for_browsers().start(server);
        let contact = format!("<sip:bob@{};transport=udp>", bob.address);
        let register = Scenario::new("register").from("bob");
        register.key("contact", &contact).run(server);
        caller.phone.dial(&server.uri("bob"));
        caller.phone.wait_until(Moment::Rings);
        bob.wait_for("ACK");
        caller.phone.hang_up();
        caller.phone.wait_until(Moment::Over);
        let messages = bob.finish().messages;
        let from = caller.protocol.via_token();
        for method in ["INVITE", "ACK", "BYE"] {
            let request = last_received(messages.received(method)[0], method);
            let request = request.unwrap_or_else(|| panic!("{messages:?}"));
            let way = (&*request.upstream, &*request.downstream);
            assert_eq!(way, (from, "UDP"), "{request:?}");
        }
        server.rpc("location.remove", &json!({ "address": "bob@example.org" }));
        let entry = format!("{}* > sipp", caller.phone.name());
        self.0.entry((from, "UDP")).or_default().push(entry);
    }

    fn print(&self) {
        println!("caller > callee; * ended the call");
        for ((from, to), calls) in &self.0 {
            println!("{from:>4} > {to:<4} {}", calls.join(", "));
        }
    }
}

/// Checks the transports of the requests of the last call: INVITE and ACK to the callee, BYE to the other side.
fn assert_way_of_requests(what: &str, caller: &Line, callee: &Line, ends: Side) {
    let came = |to: &Line, from: &Line, method: &str| {
        let trace = to.phone.log();
        let request = last_received(&trace, method);
        let request = request.unwrap_or_else(|| panic!("{what}: no {method}:\n{trace}"));
        let way = (&*request.upstream, &*request.downstream);
        let expected = (from.protocol.via_token(), to.protocol.via_token());
        assert_eq!(way, expected, "{what}: {method} {request:?}");
        request
    };
    let invite = came(callee, caller, "INVITE");
    let ack = came(callee, caller, "ACK");
    assert_eq!(ack.port, invite.port, "{what}: over another connection");
    let sides = [callee, caller].map(|line| line.protocol);
    assert_recorded(what, &invite.record_routes, sides);
    match ends {
        Side::Caller => {
            let bye = came(callee, caller, "BYE");
            assert_eq!(bye.port, invite.port, "{what}: over another connection");
        }
        Side::Callee => {
            came(caller, callee, "BYE");
        }
    }
}

/// Checks that the server is in Record-Route for the callee's transport, and for the caller's if that differs.
fn assert_recorded(what: &str, routes: &[String], sides: [Protocol; 2]) {
    let transport = |protocol: &Protocol| match protocol {
        Udp => None,
        other => Some(other.via_token().to_ascii_lowercase()),
    };
    let recorded: Vec<Option<String>> = routes.iter().map(|route| transport_of(route)).collect();
    let expected: Vec<Option<String>> = sides.iter().map(transport).collect();
    let expected = match sides {
        [Udp, Udp] => &expected[..1],
        _ => &expected,
    };
    assert_eq!(recorded, expected, "{what}: {routes:?}");
}

fn transport_of(route: &str) -> Option<String> {
    let (_, rest) = route.split_once(";transport=")?;
    rest.split([';', '>']).next().map(str::to_owned)
}

/// The number of connections opened by the telephones, and by the server.
fn connections(server: &Server) -> [u64; 2] {
    ["by=\"peer\"", "by=\"server\""].map(|by| server.count("tandem_connections_begun_total", by))
}

#[test]
fn each_transport_calls_each_other_one() {
    let server = Server::start(&options());
    let mut desk = Kind::Baresip.lines(&server, &DESK);
    let mut other_desk = Kind::Linphone.lines(&server, &DESK);
    let mut for_browsers = Kind::BaresipForBrowsers.lines(&server, &DESK);
    let mut web = Kind::JsSip.lines(&server, &WEB);
    let mut other_web = Kind::SipJs.lines(&server, &WEB);
    let before = connections(&server);
    // Two over TCP and TLS from each of three kinds, and two from each of two kinds.
    assert_eq!(before, [10, 0]);
    let mut matrix = Matrix::default();
    matrix.calls_between(&server, &mut desk, &mut other_desk);
    matrix.calls_between(&server, &mut web, &mut other_web);
    let (udp, streams) = for_browsers.split_at_mut(1);
    matrix.calls_between(&server, streams, &mut web);
    for browser in &mut web {
        matrix.call(&server, &mut udp[0], browser, Side::Caller);
        matrix.call(&server, &mut udp[0], browser, Side::Callee);
        matrix.call_from_browser_over_udp(&server, browser);
    }
    matrix.print();
    assert_eq!(matrix.0.len(), 25);
    assert_eq!(connections(&server), before, "no call needs another one");
    assert_eq!(server.count("tandem_connections", ""), 10);
}

#[test]
fn each_transport_calls_over_ipv6() {
    let server = Server::start(&ServerOptions {
        host: Host::here(Ipv6Addr::LOCALHOST),
        ..options()
    });
    let mut desk = Kind::Baresip.lines(&server, &DESK);
    let mut other_desk = Kind::Linphone.lines(&server, &DESK);
    let mut web = Kind::JsSip.lines(&server, &[Ws]);
    let mut other_web = Kind::SipJs.lines(&server, &[Wss]);
    let before = connections(&server);
    let mut matrix = Matrix::default();
    for (this, that) in [(0, 1), (1, 2), (2, 0)] {
        matrix.call(
            &server,
            &mut desk[this],
            &mut other_desk[that],
            Side::Callee,
        );
    }
    matrix.calls_between(&server, &mut web, &mut other_web);
    matrix.print();
    assert_eq!(connections(&server), before, "no call needs another one");
}

/// The phone is not behind NAT, so the server tries its Contact, where nothing listens any more (RFC 3261 section 16.6 step 7).
#[test]
fn a_phone_that_died_with_its_connection_is_refused_at_once_and_called_when_it_is_back() {
    let server = Server::start(&ServerOptions::default());
    for protocol in [Tcp, Tls] {
        let account = Account::new("bob").over(protocol);
        drop(Baresip::with_account(&server, &account));
        wait_until("its connection is gone", || {
            server.count("tandem_connections", "") == 0
        });
        let begun = Instant::now();
        Scenario::new("call_refused").run(&server);
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(5), "{took:?}");
        let mut bob = Baresip::with_account(&server, &account);
        let alice = Scenario::new("call").start(&server);
        bob.wait_until(Moment::Called);
        bob.accept();
        alice.finish();
        bob.wait_until(Moment::Over);
        bob.quit();
        server.rpc("location.remove", &json!({ "address": "bob@example.org" }));
    }
    let opened = connections(&server)[1];
    assert!(opened >= 2, "{opened}: one for each refused call");
}
