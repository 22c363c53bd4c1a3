//! A user agent client: it calls, waits for a moment, and hangs up. The main thread controls it through its handle.
//!
//! ```text
//! cargo run -p sip-stack --example uac -- udp 127.0.0.1:5060 sip:bob@127.0.0.1:5060
//! ```

use sip_stack::{
    ClientId, Failure, Flow, HeaderName, ListenerId, Message, Method, Protocol, Request,
    RequestWriter, Setup, Stack, User,
};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc::{Sender, channel};

/// One call.
struct Caller {
    flow: Flow,
    uri: String,
    call_id: String,
    /// To from the response, with the callee's tag.
    to: Option<String>,
    /// The target of requests inside the dialog.
    target: Option<String>,
    news: Sender<String>,
}

impl Caller {
    fn tell(&self, news: impl Into<String>) {
        // The main thread may have ended.
        let _ = self.news.send(news.into());
    }

    /// Adds everything after Via, Max-Forwards and Call-ID.
    fn finish(&self, request: RequestWriter<'_>, cseq: &str) {
        let bare = format!("<{}>", self.uri);
        let to = self.to.as_deref().unwrap_or(&bare);
        request
            .header(HeaderName::From, b"<sip:caller@invalid>;tag=caller")
            .header(HeaderName::To, to.as_bytes())
            .header(HeaderName::CSeq, cseq.as_bytes())
            .header(HeaderName::Contact, b"<sip:caller@127.0.0.1>")
            .finish();
    }

    fn call(&mut self, stack: &mut Stack<'_>) {
        let uri = self.uri.clone();
        let finish = |request: RequestWriter<'_>| self.finish(request, "1 INVITE");
        let call_id = self.call_id.as_bytes();
        let sent = stack.request(self.flow, Method::Invite, uri.as_bytes(), call_id, finish);
        if sent.is_err() {
            self.tell("failed: too many calls");
        }
    }

    /// The ACK of a 2xx belongs to no transaction: the caller sends it.
    fn acknowledge(&self, stack: &mut Stack<'_>) {
        let target = self.target.as_deref().unwrap_or(&self.uri);
        let listener = &stack.listeners()[usize::from(self.flow.listener.0)];
        let (protocol, own) = (listener.protocol.via_token(), listener.advertised.clone());
        let via = format!(
            "SIP/2.0/{protocol} {own};rport;branch=z9hG4bK{}",
            stack.token()
        );
        stack.send(self.flow, |into| {
            let ack = RequestWriter::begin(into, Method::Ack, target.as_bytes())
                .header(HeaderName::Via, via.as_bytes())
                .header(HeaderName::MaxForwards, b"70")
                .header(HeaderName::CallId, self.call_id.as_bytes());
            self.finish(ack, "1 ACK");
        });
    }

    fn hang_up(&mut self, stack: &mut Stack<'_>) {
        let target = self.target.clone().unwrap_or_else(|| self.uri.clone());
        let finish = |request: RequestWriter<'_>| self.finish(request, "2 BYE");
        let call_id = self.call_id.as_bytes();
        let sent = stack.request(self.flow, Method::Bye, target.as_bytes(), call_id, finish);
        if sent.is_err() {
            self.tell("failed: too many calls");
        }
    }
}

impl User for Caller {
    fn request(&mut self, stack: &mut Stack<'_>, request: &Request<'_, '_>) {
        stack.respond(request, 481, "");
    }

    fn response(&mut self, stack: &mut Stack<'_>, _: ClientId, response: &Message<'_>) {
        let is_invite = response
            .cseq()
            .is_some_and(|cseq| cseq.method == Method::Invite);
        match response.status() {
            100..200 => self.tell(format!("{}", response.status())),
            200..300 if is_invite => {
                let to = response.header(HeaderName::To).unwrap_or_default();
                self.to = Some(String::from_utf8_lossy(to).into_owned());
                let contact = response.values(HeaderName::Contact).next();
                let uri = contact.and_then(sip_message::NameAddr::parse);
                self.target = uri.map(|uri| String::from_utf8_lossy(uri.uri_bytes).into_owned());
                self.acknowledge(stack);
                self.tell("established");
            }
            200..300 => self.tell("ended"),
            status => self.tell(format!("failed: {status}")),
        }
    }

    fn failed(&mut self, _: &mut Stack<'_>, _: ClientId, failure: Failure) {
        self.tell(format!("failed: {failure:?}"));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [protocol, address, uri] = arguments.as_slice() else {
        return Err("usage: uac udp|tcp ADDRESS URI".into());
    };
    let remote: SocketAddr = address.parse()?;
    let (news, told) = channel();
    let caller = Caller {
        flow: Flow::to(ListenerId(0), remote),
        uri: uri.clone(),
        call_id: format!("call-{}", std::process::id()),
        to: None,
        target: None,
        news,
    };
    let protocol = match protocol.as_str() {
        "tcp" => Protocol::Tcp,
        _ => Protocol::Udp,
    };
    let any = if remote.is_ipv4() {
        "127.0.0.1:0"
    } else {
        "[::1]:0"
    };
    let setup = Setup::new().listen(protocol, any.parse()?);
    let running = setup.start(caller)?;
    let handle = running.handle();
    handle.post(Caller::call)?;
    for news in told {
        println!("{news}");
        match news.as_str() {
            "established" => handle.post(Caller::hang_up)?,
            "ended" => return Ok(()),
            failed if failed.starts_with("failed") => return Err(news.into()),
            _ => {}
        }
    }
    Ok(())
}
