//! A relay in front of a database server, which delays, cuts off or replaces the answers.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What happens to the answers of the server.
#[derive(Clone, Copy, Debug)]
pub enum Manner {
    /// They are passed on.
    Honest,
    /// They come this much later.
    Late(Duration),
    /// After this many bytes, their connection ends.
    Cut(usize),
    /// These bytes come in place of the next one, and the connection ends.
    Wrong(&'static [u8]),
}

/// A running relay. It ends with the process.
pub struct Relay {
    port: u16,
    manner: Arc<Mutex<Manner>>,
}

impl Relay {
    /// Starts an honest relay in front of the server of this URL.
    pub fn before(url: &str) -> Self {
        let server = port_of(url).1;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = Self {
            port: listener.local_addr().expect("bound").port(),
            manner: Arc::new(Mutex::new(Manner::Honest)),
        };
        let manner = Arc::clone(&relay.manner);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A server that is away ends the connection.
                if let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) {
                    serve(client, server, Arc::clone(&manner));
                }
            }
        });
        relay
    }

    /// The URL of the server, through this relay.
    pub fn url(&self, url: &str) -> String {
        let (place, port) = port_of(url);
        let rest = &url[place + port.to_string().len()..];
        format!("{}{}{rest}", &url[..place], self.port)
    }

    /// Treats answers like this from now on.
    pub fn set(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }
}

/// The port of a URL, and its place.
fn port_of(url: &str) -> (usize, u16) {
    let place = url.find("127.0.0.1:").expect("a local server") + "127.0.0.1:".len();
    let digits = url[place..].split('/').next().expect("a part");
    (place, digits.parse().expect("a port"))
}

fn serve(client: TcpStream, server: TcpStream, manner: Arc<Mutex<Manner>>) {
    let both = [&client, &server].map(|stream| stream.try_clone().expect("a descriptor"));
    thread::spawn(move || {
        let [mut requests, mut to_server] = both;
        // Either end may end it.
        let _ = io::copy(&mut requests, &mut to_server);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    thread::spawn(move || {
        let _ = pass_answers(&server, &client, &manner);
        for stream in [&client, &server] {
            let _ = stream.shutdown(Shutdown::Both);
        }
    });
}

/// Passes answers on until the connection ends.
fn pass_answers(
    mut server: &TcpStream,
    mut client: &TcpStream,
    manner: &Mutex<Manner>,
) -> io::Result<()> {
    let mut bytes = [0; 16_384];
    // What was passed on since answers are to be cut off.
    let mut passed = 0;
    loop {
        let length = server.read(&mut bytes)?;
        let answer = bytes.get(..length).unwrap_or_default();
        let manner = *manner.lock().unwrap_or_else(PoisonError::into_inner);
        if answer.is_empty() {
            return Ok(());
        }
        match manner {
            Manner::Honest => passed = 0,
            Manner::Late(by) => thread::sleep(by),
            Manner::Cut(after) if passed + length > after => {
                return client.write_all(answer.get(..after - passed).unwrap_or_default());
            }
            Manner::Cut(_) => passed += length,
            Manner::Wrong(other) => return client.write_all(other),
        }
        client.write_all(answer)?;
    }
}
