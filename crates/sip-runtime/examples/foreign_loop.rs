//! A SIP element inside a program that has a loop already: this one waits with poll(2), for SIP and for what is typed in.
//!
//! ```text
//! cargo run -p sip-runtime --example foreign_loop -- 127.0.0.1:5060
//! ```
//! Answers OPTIONS with 200. The line `count` tells how many it has answered; the end of the input ends the program.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sip_message::{Message, Method, ResponseWriter};
use sip_runtime::{Options, Runtime};
use sip_transport::{Flow, Listener, Node, Output, Protocol, Time};
use std::io::{self, BufRead};
use std::num::NonZeroU16;
use std::time::Duration;

/// Answers OPTIONS. The program tells it to report; what it puts out goes back to the program.
struct Responder {
    answered: u64,
}

struct Report;

impl Node for Responder {
    type Question = String;
    type Answer = Report;

    fn receive(&mut self, _: Time, flow: Flow, bytes: &[u8], output: &mut Output<String>) {
        let Ok(request) = Message::parse(bytes) else {
            return;
        };
        if request.is_request() && request.method() == Method::Options {
            self.answered += 1;
            output.send(flow, |into| {
                ResponseWriter::begin(into, &request, flow.remote, 200, "", Some(b"foreign"))
                    .finish();
            });
        }
    }

    fn receive_handed_over(&mut self, _: Time, _: Flow, _: &[u8], _: &mut Output<String>) {}

    fn answer(&mut self, _: Time, Report: Report, output: &mut Output<String>) {
        output.ask(format!("{} answered", self.answered));
    }

    fn expire(&mut self, _: Time, _: &mut Output<String>) {}

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1);
    let address = address.as_deref().unwrap_or("127.0.0.1:5060").parse();
    let listener = Listener {
        protocol: Protocol::Udp,
        address: address.map_err(io::Error::other)?,
        prefix_length: 8,
        advertised: String::new(),
        behind_balancer: false,
    };
    let bound = Runtime::bind(vec![listener], NonZeroU16::MIN, Options::default())
        .map_err(io::Error::other)?;
    let print = |_, line: String| {
        println!("{line}");
        Ok(())
    };
    let mut driver = bound.drive(Responder { answered: 0 }, print)?;
    // Could be given to any thread.
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
                // Full when many reports are asked for at once.
                let _ = handle.send(0, Report);
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
