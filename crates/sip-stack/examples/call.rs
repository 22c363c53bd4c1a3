//! A user agent: makes a call to a URI, or without one registers and takes a call.
//!
//! ```text
//! cargo run -p sip-stack --example call -- bob PASSWORD example.org sip:192.0.2.1
//! cargo run -p sip-stack --example call -- alice PASSWORD example.org sip:192.0.2.1 sip:bob@example.org
//! ```

use sip_stack::Agent;
use std::{error::Error, time::Duration};

const SDP: &str = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 9 RTP/AVP 0\r\n";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [user, password, domain, proxy, callee @ ..] = &arguments[..] else {
        return Err("usage: call USER PASSWORD DOMAIN PROXY [URI]".into());
    };
    let address = format!("sip:{user}@{domain}");
    let agent = Agent::builder(&address)
        .credentials(user, password)
        .proxy(proxy)
        .start()?;
    if let Some(uri) = callee.first() {
        let call = agent.invite(uri).session(SDP).send()?;
        println!("answered: {}", call.answered()?.status());
        println!("ended: {:?}", call.hang_up()?);
    } else {
        let _registration = agent.register()?;
        println!("registered");
        let incoming = agent
            .incoming(Duration::from_secs(60))
            .ok_or("no call arrived")?;
        println!("ended: {:?}", incoming.accept(SDP)?.ended());
    }
    Ok(())
}
