//! A phone's server transactions (RFC 3261 section 17.2): it processes each request once and repeats the response.
use super::call::CallId;
use super::compose::{response, response_destination};
use super::{Phone, PhoneOutput, T1, T1_64, T2, earlier};
use sip_message::{HeaderName, Message, Method, Via};
use sip_transport::Time;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// One server transaction.
#[derive(Debug)]
pub(crate) struct Server {
    branch: Vec<u8>,
    sent_by: Vec<u8>,
    is_invite: bool,
    is_cancel: bool,
    /// The request, needed for a later response.
    pub(crate) request: Rc<[u8]>,
    destination: SocketAddr,
    response: Option<Rc<[u8]>>,
    status: u16,
    /// The call that an INVITE is about.
    pub(crate) call: Option<CallId>,
    interval: Duration,
    resend_at: Option<Time>,
    ends_at: Option<Time>,
}

impl Server {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        earlier(self.resend_at, self.ends_at)
    }

    const fn is_final(&self) -> bool {
        self.status >= 200
    }

    fn matches(&self, via: &Via<'_>, method: Method<'_>) -> bool {
        let invite = matches!(method, Method::Invite | Method::Ack);
        Some(&self.branch[..]) == via.branch()
            && self.sent_by == via.sent_by
            && self.is_invite == invite
            && self.is_cancel == (method == Method::Cancel)
    }
}

impl Phone {
    pub(crate) fn receive_request(
        &mut self,
        now: Time,
        from: SocketAddr,
        request: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Some(via) = request.top_via() else { return };
        let method = request.method();
        let known = self
            .servers
            .iter()
            .position(|server| server.matches(&via, method));
        match (known, method) {
            (Some(index), Method::Ack) => self.refusal_acknowledged(now, index),
            (Some(index), _) => {
                let server = &self.servers[index];
                if let Some(response) = &server.response {
                    output.send(server.destination, response);
                }
            }
            (None, Method::Ack) => self.acceptance_acknowledged(now, request, output),
            (None, method) => {
                self.servers.push(Server {
                    branch: via.branch().unwrap_or_default().to_vec(),
                    sent_by: via.sent_by.to_vec(),
                    is_invite: method == Method::Invite,
                    is_cancel: method == Method::Cancel,
                    request: request.bytes().into(),
                    destination: response_destination(request, from),
                    response: None,
                    status: 0,
                    call: None,
                    interval: T1,
                    resend_at: None,
                    ends_at: None,
                });
                self.new_request(now, self.servers.len() - 1, request, output);
            }
        }
    }

    fn new_request(
        &mut self,
        now: Time,
        index: usize,
        request: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let in_dialog = request.to().is_some_and(|to| to.tag().is_some());
        match request.method() {
            Method::Invite if in_dialog => self.receive_reinvite(now, index, request, output),
            Method::Invite => self.receive_invite(now, index, request, output),
            Method::Update => self.receive_reinvite(now, index, request, output),
            Method::Bye => self.receive_bye(now, index, request, output),
            Method::Cancel => self.receive_cancel(now, index, request, output),
            Method::Options | Method::Message | Method::Info => {
                self.respond(now, index, 200, "", output);
            }
            _ => self.respond(now, index, 405, "", output),
        }
    }

    /// Responds to a request. The final response of an INVITE is retransmitted until it is acknowledged (sections
    /// 13.3.1.4, 17.2.1).
    pub(crate) fn respond(
        &mut self,
        now: Time,
        index: usize,
        status: u16,
        to_tag: &str,
        output: &mut PhoneOutput,
    ) {
        let contact = self.contact();
        let server = &self.servers[index];
        if server.is_final() {
            return;
        }
        let (request, call) = (Rc::clone(&server.request), server.call);
        let Ok(request) = Message::parse(&request) else {
            return;
        };
        let session = match call {
            Some(call) if status / 100 == 2 => self.accept_session(now, call, &request),
            _ => String::new(),
        };
        let server = &mut self.servers[index];
        let refreshes = matches!(request.method(), Method::Invite | Method::Update);
        let dialog = refreshes && (101..300).contains(&status);
        let tag = if to_tag.is_empty() {
            "stateless"
        } else {
            to_tag
        };
        let body = server.is_invite && status == 200;
        let bytes = response(
            &request,
            status,
            tag,
            dialog.then_some(contact.as_str()),
            &session,
            body,
        );
        output.send(server.destination, &bytes);
        server.status = status;
        server.response = Some(bytes);
        if status >= 200 {
            server.ends_at = Some(now + T1_64);
            server.resend_at = server.is_invite.then(|| now + T1);
        }
    }

    /// Never responds to a request, nor to its retransmissions.
    pub(crate) fn ignore(&mut self, now: Time, index: usize) {
        self.servers[index].ends_at = Some(now + Duration::from_secs(600));
    }

    fn refusal_acknowledged(&mut self, now: Time, index: usize) {
        let server = &mut self.servers[index];
        if server.status >= 300 {
            server.resend_at = None;
            server.ends_at = Some(now + super::T4);
        }
    }

    /// Handles an ACK with a branch of its own. It belongs to a 2xx: to the INVITE of the same call with the same
    /// number.
    fn acceptance_acknowledged(&mut self, now: Time, ack: &Message<'_>, output: &mut PhoneOutput) {
        let keys = |message: &Message<'_>| {
            (
                message.call_id().map(<[u8]>::to_vec),
                message
                    .from()
                    .and_then(|from| from.tag())
                    .map(<[u8]>::to_vec),
                message.cseq().map(|cseq| cseq.number),
            )
        };
        let wanted = keys(ack);
        for server in self
            .servers
            .iter_mut()
            .filter(|server| server.is_invite && server.status / 100 == 2)
        {
            if Message::parse(&server.request).is_ok_and(|invite| keys(&invite) == wanted) {
                server.resend_at = None;
            }
        }
        self.call_acknowledged(now, ack, output);
    }

    /// Section 9.2: responds to the CANCEL, and to the INVITE with 487 unless it has had its final response.
    fn receive_cancel(
        &mut self,
        now: Time,
        index: usize,
        cancel: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let via = cancel.top_via();
        let invite = self.servers.iter().position(|server| {
            server.is_invite
                && via
                    .as_ref()
                    .is_some_and(|via| server.matches(via, Method::Invite))
        });
        let Some(invite) = invite else {
            return self.respond(now, index, 481, "", output);
        };
        self.respond(now, index, 200, "", output);
        if !self.servers[invite].is_final() {
            self.call_cancelled(now, invite, output);
        }
    }

    /// Whether an INVITE with these keys has already arrived on another path (section 8.2.2.2).
    pub(crate) fn is_merged(&self, index: usize, request: &Message<'_>) -> bool {
        let key = |message: &Message<'_>| {
            (
                message.header(HeaderName::From).map(<[u8]>::to_vec),
                message.call_id().map(<[u8]>::to_vec),
                message.cseq().map(|cseq| cseq.number),
            )
        };
        let wanted = key(request);
        self.servers.iter().enumerate().any(|(other, server)| {
            other != index
                && server.is_invite
                && Message::parse(&server.request).is_ok_and(|message| key(&message) == wanted)
        })
    }

    pub(crate) fn wake_servers(&mut self, now: Time, output: &mut PhoneOutput) {
        let mut unacknowledged = Vec::new();
        self.servers.retain_mut(|server| {
            if server.ends_at.is_some_and(|at| at <= now) {
                if server.status / 100 == 2 && server.resend_at.is_some() {
                    unacknowledged.extend(server.call);
                }
                return false;
            }
            if server.resend_at.is_some_and(|at| at <= now) {
                if let Some(bytes) = &server.response {
                    output.send(server.destination, bytes);
                }
                server.interval = (server.interval * 2).min(T2);
                server.resend_at = Some(now + server.interval);
            }
            true
        });
        for call in unacknowledged {
            self.call_unacknowledged(now, call, output);
        }
    }
}
