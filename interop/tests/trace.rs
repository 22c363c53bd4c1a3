//! Tracing: HEP as sngrep reads it, and what `tandem ctl trace` shows and writes.

use interop::{
    Capture, Child, Packets, Scenario, Server, ServerOptions, Sngrep, Tunnel, WireMessage,
    wait_until,
};
use sip_transport::Protocol;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;
use tungstenite::client::IntoClientRequest;

/// A long T1, so that nothing is sent twice because the machine is busy.
const PATIENT: &str = "[timers]\nt1 = \"4s\"\n";

/// Source, destination and kind of the messages with this Call-ID, in order.
fn of_call(packets: &Packets, call_id: &str) -> Vec<(u16, u16, String)> {
    let messages = packets.messages().into_iter();
    let messages = messages.filter(|message| message.call_id == call_id);
    let step = |message: WireMessage| (message.source, message.destination, message.what);
    messages.map(step).collect()
}

fn options(from: SocketAddr) -> String {
    format!(
        "OPTIONS sip:example.org SIP/2.0\r\nVia: SIP/2.0/UDP {from};branch=z9hG4bKlast\r\nMax-Forwards: 70\r\n\
         From: <sip:last@example.org>;tag=1\r\nTo: <sip:example.org>\r\nCall-ID: last\r\nCSeq: 1 OPTIONS\r\n\
         Content-Length: 0\r\n\r\n"
    )
}

#[test]
fn sngrep_gets_by_hep_what_tshark_sees_on_the_wire() {
    let sngrep = Sngrep::start();
    let hep = format!(
        "{PATIENT}[trace]\nhep = \"udp:127.0.0.1:{}\"\nhep_key = \"secret\"\n",
        sngrep.port()
    );
    let server = Server::start(&ServerOptions::with(&hep));
    let capture = Capture::start(&server);
    let bob = Scenario::new("answer").start(&server);
    server.register("bob", bob.address, "");
    let alice = Scenario::new("call").start(&server);
    alice.finish();
    bob.finish();
    let wire = capture.finish();
    // The collector has everything before the response to this message, once it has two copies more.
    let last = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    last.set_read_timeout(Some(interop::PATIENCE))
        .expect("a timeout");
    let request = options(last.local_addr().expect("bound"));
    last.send_to(request.as_bytes(), server.address())
        .expect("sent");
    last.recv(&mut [0; 4_096]).expect("a response");
    let on_wire = wire.messages();
    wait_until("everything is sent to the collector", || {
        server.count("tandem_hep_packets_total", "") >= on_wire.len() as u64 + 2
    });
    let (_sngrep, seen) = sngrep.finish(server.address().port());
    let invite = on_wire.iter().find(|message| message.what == "INVITE");
    let call_id = &invite.expect("a call").call_id;
    let call = of_call(&wire, call_id);
    assert!(call.len() >= 16, "{call:?}");
    let sorted = |mut call: Vec<(u16, u16, String)>| {
        call.sort();
        call
    };
    // Messages that cross on their way may be in another order on the wire.
    assert_eq!(sorted(of_call(&seen, call_id)), sorted(call));
    assert_eq!(server.count("tandem_hep_packets_dropped_total", ""), 0);
    assert_eq!(server.count("tandem_traced_messages_dropped_total", ""), 0);
}

fn register(via: &str, call_id: &str) -> String {
    format!(
        "REGISTER sip:example.org SIP/2.0\r\nVia: SIP/2.0/{via} client.invalid;branch=z9hG4bK{call_id}\r\nMax-Forwards: 70\r\n\
         From: <sip:carol@example.org>;tag=1\r\nTo: <sip:carol@example.org>\r\nCall-ID: {call_id}\r\nCSeq: 1 REGISTER\r\n\
         Contact: <sip:carol@client.invalid>\r\nContent-Length: 0\r\n\r\n"
    )
}

#[test]
fn messages_over_tls_and_wss_are_shown_and_written_decrypted() {
    let server = Server::start(&ServerOptions::default());
    let (file, log) = (server.path("trace.pcap"), server.path("trace.log"));
    let mut command = Command::new(Server::binary());
    command
        .args(["ctl", "trace", "carol@example.org", "--pcap"])
        .arg(&file);
    command.args(["--admin", &server.admin_address().to_string()]);
    let trace = Child::start(&mut command, &log);
    wait_until("the trace runs", || {
        trace.output().contains("tracing carol@example.org")
    });

    let tls = Tunnel::over(Protocol::Tls, &server);
    let mut stream = TcpStream::connect(tls.address()).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    stream
        .write_all(register("TLS", "over-tls").as_bytes())
        .expect("sent");
    assert_ne!(stream.read(&mut [0; 4_096]).expect("a response"), 0);

    let wss = Tunnel::over(Protocol::Wss, &server);
    let mut request = format!("ws://{}/", wss.address())
        .into_client_request()
        .expect("a request");
    let headers = request.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", "sip".parse().expect("a token"));
    let stream = TcpStream::connect(wss.address()).expect("a connection");
    let (mut socket, _) = tungstenite::client(request, stream).expect("a web socket");
    socket
        .send(register("WSS", "over-wss").into())
        .expect("sent");
    assert!(!socket.read().expect("a response").into_data().is_empty());

    wait_until("all is shown", || {
        trace.output().matches(" 401 ").count() == 2
    });
    let shown = trace.output();
    // The first peer is left of the server, the second one right of it.
    for (call_id, transport, arrows) in [
        ("over-tls", "TLS", ['▶', '◀']),
        ("over-wss", "WSS", ['◀', '▶']),
    ] {
        let (_, of_call) = shown
            .split_once(&format!("Call-ID {call_id}\n"))
            .expect(&shown);
        let rows: Vec<&str> = of_call.lines().skip(2).take(2).collect();
        assert!(
            rows[0].contains(" REGISTER ") && rows[0].contains(arrows[0]),
            "{shown}"
        );
        assert!(
            rows[1].contains(" 401 ") && rows[1].contains(arrows[1]),
            "{shown}"
        );
        let ends = format!("  1 REGISTER  {transport}");
        assert!(rows.iter().all(|row| row.ends_with(&ends)), "{shown}");
    }
    let port = server.address_of(Protocol::Tls).port();
    let written = Packets::of_file(&file, port);
    assert_eq!(written.oddities(), Vec::<Vec<Vec<String>>>::new());
    let written = written.messages();
    let what: Vec<&str> = written.iter().map(|message| &*message.what).collect();
    assert_eq!(what, ["REGISTER", "401", "REGISTER", "401"]);
    assert_eq!((written[0].destination, written[1].source), (port, port));
    let port = server.address_of(Protocol::Wss).port();
    assert_eq!((written[2].destination, written[3].source), (port, port));
}
