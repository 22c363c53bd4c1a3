//! Off-path senders that forge responses, forge source addresses of requests, and fill tables.

use interop::{PATIENCE, Server, ServerOptions};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Retransmissions of the final response to an INVITE would be sent after 0.5, 1.5 and 3.5 seconds.
const RETRANSMISSIONS: Duration = Duration::from_secs(4);

/// A socket at an address of this machine.
struct Peer {
    socket: UdpSocket,
    server: SocketAddr,
}

impl Peer {
    fn at(last: u8, server: &Server) -> Self {
        let address = Ipv4Addr::new(127, 0, 0, last);
        let socket = UdpSocket::bind((address, 0)).expect("a socket");
        Self {
            socket,
            server: server.address(),
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    fn send(&self, message: &str) {
        let sent = self.socket.send_to(message.as_bytes(), self.server);
        assert_eq!(sent.expect("is sent"), message.len());
    }

    /// The next message, if one arrives in time.
    fn next(&self, within: Duration) -> Option<String> {
        let mut buffer = vec![0; 65_536];
        let timeout = Some(within).filter(|within| !within.is_zero())?;
        self.socket
            .set_read_timeout(Some(timeout))
            .expect("a timeout");
        let length = self.socket.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }

    /// The next message that begins with this text.
    fn expect(&self, beginning: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.next(left).expect(beginning);
            if message.starts_with(beginning) {
                return message;
            }
        }
    }

    /// All messages that arrive within a time.
    fn collect(&self, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        std::iter::from_fn(|| self.next(deadline.saturating_duration_since(Instant::now())))
            .collect()
    }

    /// An INVITE from another domain.
    fn invite(&self, callee: &str, number: usize) -> String {
        let at = self.address();
        format!(
            "INVITE sip:{callee}@example.org SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{number};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:x@elsewhere.example>;tag={number}\r\nTo: <sip:{callee}@example.org>\r\n\
             Call-ID: {number}@{at}\r\nCSeq: 1 INVITE\r\nContact: <sip:x@{at}>\r\nContent-Length: 0\r\n\r\n"
        )
    }
}

/// The response to a request, as the receiver of the request would build it.
fn response(request: &str, status: &str) -> String {
    let copied = ["Via:", "From:", "Call-ID:", "CSeq:", "Record-Route:"];
    let copy = |line: &str| {
        if copied.iter().any(|name| line.starts_with(name)) {
            Some(format!("{line}\r\n"))
        } else if line.starts_with("To:") {
            Some(format!("{line};tag=phone\r\n"))
        } else {
            None
        }
    };
    let headers: String = request.split("\r\n").skip(1).filter_map(copy).collect();
    format!(
        "SIP/2.0 {status}\r\n{headers}Contact: <sip:bob@127.0.0.1>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Replaces the seal of a branch: the 16 digits after cookie, place and generation.
fn with_another_seal(response: &str) -> String {
    let seal = response.find("z9hG4bK").expect("a branch") + 7 + 16;
    [
        &response[..seal],
        "0123456789abcdef",
        &response[seal + 16..],
    ]
    .concat()
}

#[test]
fn a_forged_response_ends_no_call() {
    let server = Server::start(&ServerOptions::default());
    let (phone, same_address) = (Peer::at(1, &server), Peer::at(1, &server));
    let (caller, attacker) = (Peer::at(4, &server), Peer::at(9, &server));
    server.register("bob", phone.address(), "");
    caller.send(&caller.invite("bob", 1));
    let invite = phone.expect("INVITE ");
    let busy = response(&invite, "486 Busy Here");
    // One attacker knows the whole request, but has another address. The other one shares the phone's address, but has
    // not seen the seal.
    attacker.send(&busy);
    for _ in 0..300 {
        same_address.send(&with_another_seal(&busy));
    }
    let forged = || server.metric("tandem_dropped_total", "forged_response");
    interop::wait_until("all are counted", || forged() >= 301.0);
    phone.send(&response(&invite, "200 OK"));
    loop {
        let message = caller.next(PATIENCE).expect("a final response");
        assert!(!message.starts_with("SIP/2.0 486"), "{message}");
        if message.starts_with("SIP/2.0 200 ") {
            break;
        }
    }
}

#[test]
fn a_spoofed_invite_is_not_multiplied() {
    let server = Server::start(&ServerOptions::default());
    let phone = Peer::at(1, &server);
    server.register("bob", phone.address(), "");
    let unknown = Peer::at(9, &server);
    let invite = unknown.invite("nobody", 1);
    unknown.send(&invite);
    let busy = Peer::at(10, &server);
    busy.send(&busy.invite("bob", 2));
    let forwarded = phone.expect("INVITE ");
    phone.send(&response(&forwarded, "486 Busy Here"));
    let answers = busy.collect(RETRANSMISSIONS);
    let bytes: usize = answers.iter().map(String::len).sum();
    println!(
        "busy phone: {} bytes in, {bytes} out: {answers:#?}",
        invite.len()
    );
    assert!(bytes <= 3 * invite.len() && !answers.is_empty());
    // The other responses have been collected for as long.
    let answers = unknown.collect(Duration::from_millis(100));
    let bytes: usize = answers.iter().map(String::len).sum();
    println!("unknown user: {} bytes in, {bytes} out", invite.len());
    assert!(bytes <= 3 * invite.len() && !answers.is_empty());
}

#[test]
fn a_flood_from_one_address_leaves_room_for_others() {
    let server = Server::start(&ServerOptions {
        workers: 1,
        ..ServerOptions::with("[limits]\nserver_transactions = 2000\nresponse_contexts = 2000")
    });
    let (phone, caller, flooder) = (
        Peer::at(1, &server),
        Peer::at(4, &server),
        Peer::at(9, &server),
    );
    server.register("bob", phone.address(), "");
    for number in 0..5_000 {
        let callee = if number % 2 == 0 { "bob" } else { "nobody" };
        flooder.send(&flooder.invite(callee, number));
        if number % 20 == 0 {
            flooder.next(Duration::from_millis(200));
        }
    }
    caller.send(&caller.invite("bob", 1));
    let of_caller = format!("Call-ID: 1@{}", caller.address());
    interop::wait_until("the caller's INVITE reaches the phone", || {
        phone.expect("INVITE ").contains(&of_caller)
    });
    let live = server.count("tandem_transactions", "server");
    assert!(
        live <= 200,
        "{live} transactions: a share of 125, and the caller's"
    );
    assert!(server.count("tandem_shares_refused_total", "") > 0);
}
