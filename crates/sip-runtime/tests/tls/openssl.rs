//! The OpenSSL command line as a client, through a local socket.

use super::authority::Authority;
use sip_runtime::tls::{TlsAcceptor, TlsSession};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// The result of one connection.
#[derive(Debug, Default)]
struct Served {
    resumed: bool,
    version: &'static str,
    heard: Vec<u8>,
    closed: bool,
    error: Option<String>,
}

/// Serves one connection: echoes what it receives in capital letters.
fn serve(acceptor: TlsAcceptor) -> (SocketAddr, JoinHandle<Served>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let serving = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let session = TlsSession::accept(&acceptor).expect("a session");
        go(stream, session)
    });
    (address, serving)
}

fn go(mut stream: TcpStream, mut session: TlsSession) -> Served {
    let mut served = Served::default();
    let mut buffer = [0; 2048];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        let mut plaintext = Vec::new();
        let received = session.receive(&mut buffer[..length], &mut plaintext);
        let mut output = Vec::new();
        if plaintext.is_empty() {
            session.take_output(&mut output);
        } else {
            session
                .send(&plaintext.to_ascii_uppercase(), &mut output)
                .expect("sent");
        }
        served.heard.append(&mut plaintext);
        let _ = stream.write_all(&output);
        match received {
            Ok(received) => served.closed |= received.closed,
            Err(error) => served.error = Some(error.to_string()),
        }
        if served.closed || served.error.is_some() {
            break;
        }
    }
    served.resumed = session.is_resumed();
    served.version = session.version();
    served
}

/// Starts `openssl s_client`, which trusts the authority.
fn client(authority: &Authority, address: SocketAddr, more: &[&str]) -> Child {
    Command::new("openssl")
        .args(["s_client", "-connect", &address.to_string(), "-CAfile"])
        .arg(authority.file())
        .args(["-verify_return_error", "-servername", "example.org"])
        .args(more)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("openssl, which `make test` installs")
}

/// Sends a client its input once it is connected, and stops it when it has printed the answer. Returns everything it printed. The
/// client may end earlier.
fn talk(mut child: Child, input: &[u8], answer: &str) -> String {
    let mut stdin = child.stdin.take().expect("a pipe");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut printed = Vec::new();
    read_until("Verify return code", &mut stdout, &mut printed);
    let _ = stdin.write_all(input);
    read_until(answer, &mut stdout, &mut printed);
    // It exits when its input ends.
    drop(stdin);
    let _ = stdout.read_to_end(&mut printed);
    let mut complaints = String::new();
    let _ = child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut complaints);
    let _ = child.wait();
    String::from_utf8_lossy(&printed).into_owned() + &complaints
}

/// Reads until these words or the end.
fn read_until(words: &str, from: &mut impl Read, read: &mut Vec<u8>) {
    let mut buffer = [0; 1024];
    while !String::from_utf8_lossy(read).contains(words) {
        match from.read(&mut buffer) {
            Ok(length @ 1..) => read.extend_from_slice(&buffer[..length]),
            _ => break,
        }
    }
}

#[test]
fn openssl_shakes_hands_is_answered_and_resumes() {
    let authority = Authority::new();
    let context = authority.context(&[&["other.example"], &["example.org"]]);
    let acceptor = context.acceptor().expect("certificates");
    for (flag, version) in [("-tls1_2", "1.2"), ("-tls1_3", "1.3")] {
        let file = authority.path().join(format!("session{flag}"));
        let file = file.to_str().expect("a path");
        for (what, resumed) in [("-sess_out", false), ("-sess_in", true)] {
            let (address, serving) = serve(acceptor.clone());
            let child = client(
                &authority,
                address,
                &[flag, what, file, "-verify_hostname", "example.org"],
            );
            let printed = talk(child, b"options\n", "OPTIONS");
            let served = serving.join().expect("served");
            assert!(printed.contains("OPTIONS"), "{printed}");
            assert!(printed.contains("Verify return code: 0 (ok)"), "{printed}");
            assert_eq!(
                (served.resumed, served.version),
                (resumed, version),
                "{served:?} {printed}"
            );
            assert_eq!(served.heard, b"options\n");
            assert!(served.closed, "{served:?}");
        }
    }
}

#[test]
fn a_renegotiation_is_refused_by_a_warning() {
    let authority = Authority::new();
    let context = authority.context(&[&["example.org"]]);
    let (address, serving) = serve(context.acceptor().expect("a certificate").clone());
    let child = client(&authority, address, &["-tls1_2"]);
    let printed = talk(child, b"R\n", "no renegotiation");
    let served = serving.join().expect("served");
    assert!(printed.contains("no renegotiation"), "{printed}");
    assert!(served.heard.is_empty(), "{served:?}");
}
