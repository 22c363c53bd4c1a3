//! A user agent server: it accepts every call and prints a line for it.
//!
//! ```text
//! cargo run -p sip-stack --example uas -- 127.0.0.1:5060
//! ```

use sip_stack::{HeaderName, Method, Request, Setup, Stack, User};
use std::error::Error;

struct Answerer;

impl User for Answerer {
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        let call = String::from_utf8_lossy(request.call_id().unwrap_or_default());
        match request.method() {
            Method::Invite => {
                let own = &stack.listeners()[usize::from(request.flow.listener.0)];
                let contact = format!("<sip:{}>", own.advertised);
                stack.respond(request, 180, "");
                stack.respond_with(request, 200, "", |response| {
                    response
                        .header(HeaderName::Contact, contact.as_bytes())
                        .finish_with_body(b"application/sdp", SILENCE);
                });
                println!("call {call}");
            }
            Method::Ack => println!("up {call}"),
            Method::Bye => {
                stack.respond(request, 200, "");
                println!("down {call}");
            }
            Method::Options => stack.respond(request, 200, ""),
            _ => stack.respond(request, 501, ""),
        }
    }
}

const SILENCE: &[u8] =
    b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:5060".into());
    let setup = Setup::new().udp(&address)?.tcp(&address)?;
    let running = setup.start(Answerer)?;
    for listener in running.listeners() {
        let protocol = listener.protocol.via_token();
        println!("listening at {protocol} {}", listener.address);
    }
    std::io::read_to_string(std::io::stdin())?;
    Ok(())
}
