//! Runs a stack inside a program's own loop: this one waits with poll(2) for SIP and for standard input.
//!
//! ```text
//! cargo run -p sip-stack --example foreign_loop -- 127.0.0.1:5060
//! ```
//! It answers OPTIONS with 200. The line `count` prints how many it has answered. The program ends at the end of its input.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sip_stack::{Method, Request, Setup, Stack, User};
use std::error::Error;
use std::io::{self, BufRead};
use std::time::Duration;

struct Responder {
    answered: u64,
}

impl User for Responder {
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        if request.method() == Method::Options {
            self.answered += 1;
            stack.respond(request, 200, "");
        } else {
            stack.respond(request, 405, "");
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:5060".into());
    let responder = Responder { answered: 0 };
    let mut driver = Setup::new().udp(&address)?.drive(responder)?;
    // The handle could go to any thread.
    let handle = driver.handle();
    println!("listening at {}", driver.listeners()[0].address);

    let mut input = io::stdin().lock();
    loop {
        driver.turn();
        let timeout = driver.deadline().map(seconds);
        let stack = driver.descriptor();
        let mut waiting = [
            PollFd::new(&stack, PollFlags::IN),
            PollFd::new(&input, PollFlags::IN),
        ];
        poll(&mut waiting, timeout.as_ref())?;
        if !waiting[1].revents().is_empty() {
            let mut line = String::new();
            if input.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line.trim() == "count" {
                handle.post(|responder, _| println!("{} answered", responder.answered))?;
            }
        }
    }
}

fn seconds(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().cast_signed(),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
