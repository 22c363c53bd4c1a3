//! A user agent client: calls a URI, prints each step, and hangs up.
//!
//! ```text
//! cargo run -p sip-stack --example uac -- "sip:bob@192.0.2.1;transport=tcp"
//! ```

use sip_stack::Agent;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let uri = std::env::args().nth(1).ok_or("usage: uac URI")?;
    let agent = Agent::builder("sip:caller@example.org").start()?;
    let call = agent.invite(&uri).send()?;
    if let Some(response) = call.ringing()? {
        println!("{}", response.status());
    }
    call.answered()?;
    println!("established");
    call.hang_up()?;
    println!("ended");
    Ok(())
}
