//! A user agent server: it accepts every call in the loop of the stack, and prints a line for each event.
//!
//! ```text
//! cargo run -p sip-stack --example uas -- 127.0.0.1:5060
//! ```

use sip_stack::{
    AgentSettings, CallControl, CallEvent, CallHandler, CallNumber, Session, Setup, UserAgent,
};
use std::error::Error;

struct Answerer;

impl CallHandler for Answerer {
    fn call(&mut self, calls: &mut CallControl<'_, '_>, call: CallNumber, event: CallEvent) {
        match event {
            CallEvent::Incoming(_) => {
                println!("call {call:?}");
                calls.ring(call, 180, &Session::none());
                calls.accept(call, SILENCE);
            }
            CallEvent::Confirmed(_) => println!("up {call:?}"),
            CallEvent::Ended(_) => println!("down {call:?}"),
            _ => {}
        }
    }
}

const SILENCE: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:5060".into());
    let agent = UserAgent::new(AgentSettings::new("sip:uas@example.org")?, Answerer);
    let running = Setup::new().udp(&address)?.tcp(&address)?.start(agent)?;
    for listener in running.listeners() {
        let protocol = listener.protocol.via_token();
        println!("listening at {protocol} {}", listener.address);
    }
    std::io::read_to_string(std::io::stdin())?;
    Ok(())
}
