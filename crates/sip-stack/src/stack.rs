//! The operations that the stack offers to a program.

use crate::Request;
use sip_message::{HeaderName, KeyHasher, Message, Method, RequestWriter, ResponseWriter};
use sip_transaction::{
    ClientId, ClientOptions, Full, Kind, ServerId, Stats, TimerId, TimerSettings, TimerWheel,
    Transactions,
};
use sip_transport::{Flow, Listener, Output, Time};
use std::convert::Infallible;

/// The stack, borrowed by the program for the duration of one call.
pub struct Stack<'s> {
    pub(crate) now: Time,
    pub(crate) transactions: &'s mut Transactions<()>,
    pub(crate) output: &'s mut Output<Infallible>,
    pub(crate) listeners: &'s [Listener],
    pub(crate) hasher: &'s KeyHasher,
    pub(crate) tokens: &'s mut u64,
    pub(crate) wheel: &'s mut TimerWheel<u64>,
    pub(crate) timers: TimerSettings,
}

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
pub struct NextHop<'d> {
    /// The flow that it leaves on.
    pub flow: Flow,
    /// Over TLS: the domain that the peer must prove to be, which is the domain of the URI that led to its address (RFC 5922 section 7.3).
    /// `None` if the URI has an address.
    pub domain: Option<&'d [u8]>,
}

impl From<Flow> for NextHop<'_> {
    fn from(flow: Flow) -> Self {
        Self { flow, domain: None }
    }
}

impl Stack<'_> {
    /// Sends a response without a body. If To has no tag, the stack adds one. It is always the same for a request.
    pub fn respond(&mut self, request: &Request<'_, '_>, status: u16, reason: &str) {
        self.respond_with(request, status, reason, end);
    }

    /// Sends a response. `finish` adds header fields and ends it. If the transaction has already had its final response, nothing
    /// is sent.
    pub fn respond_with(
        &mut self,
        request: &Request<'_, '_>,
        status: u16,
        reason: &str,
        finish: impl FnOnce(ResponseWriter<'_>),
    ) {
        let Some(server) = request.server else {
            return;
        };
        let tag = self.tag(request.message);
        let (message, source) = (request.message, request.flow.remote);
        let write = |into: &mut Vec<u8>| {
            let begun = ResponseWriter::begin(into, message, source, status, reason, Some(&tag));
            finish(begun);
        };
        self.transactions
            .respond(self.now, server, status, self.output, write);
    }

    /// Writes a response as [`Stack::respond_with`] does, without sending it. [`Stack::respond_raw`] sends it, any number of times: a user
    /// agent repeats its 2xx to an INVITE until the ACK arrives (section 13.3.1.4).
    pub fn write_response(
        &self,
        request: &Request<'_, '_>,
        status: u16,
        reason: &str,
        finish: impl FnOnce(ResponseWriter<'_>),
    ) -> Vec<u8> {
        let (tag, source) = (self.tag(request.message), request.flow.remote);
        let mut response = Vec::new();
        let into = &mut response;
        finish(ResponseWriter::begin(
            into,
            request.message,
            source,
            status,
            reason,
            Some(&tag),
        ));
        response
    }

    /// Sends a complete response that the program has stored. It goes out unchanged.
    pub fn respond_raw(&mut self, server: ServerId, status: u16, response: &[u8]) {
        let write = |into: &mut Vec<u8>| into.extend_from_slice(response);
        self.transactions
            .respond(self.now, server, status, self.output, write);
    }

    /// Sends a request in a client transaction. `finish` adds everything after Via, Max-Forwards and Call-ID: From to
    /// Content-Length. On a stream flow without a connection to its address, the stack opens one.
    ///
    /// # Errors
    /// Fails if there are too many transactions.
    pub fn request<'d>(
        &mut self,
        hop: impl Into<NextHop<'d>>,
        method: Method<'_>,
        uri: &[u8],
        call_id: &[u8],
        finish: impl FnOnce(RequestWriter<'_>),
    ) -> Result<ClientId, Full> {
        let NextHop { flow, domain } = hop.into();
        let client = self.transactions.reserve_client(())?;
        let kind = if method == Method::Invite {
            Kind::Invite
        } else {
            Kind::NonInvite
        };
        let suffix = self.token();
        let branch = self.transactions.branch(client, call_id, suffix);
        let listeners = self.listeners;
        let listener = listeners.get(usize::from(flow.listener.0));
        let options = ClientOptions {
            kind,
            flow,
            reliable: listener.is_some_and(|listener| listener.protocol.is_reliable()),
            domain,
        };
        let write = |into: &mut Vec<u8>| {
            let begun = RequestWriter::begin(into, method, uri)
                .header_with(HeaderName::Via, |into| {
                    write_via(into, listener, |into| branch.write(into));
                })
                .header(HeaderName::MaxForwards, b"70")
                .header(HeaderName::CallId, call_id);
            finish(begun);
        };
        let (now, output) = (self.now, &mut *self.output);
        self.transactions
            .start_client(now, client, &options, output, write);
        Ok(client)
    }

    /// Writes the ACK of a 2xx, which belongs to no transaction (section 13.2.2.4), for a flow. `finish` adds everything after Via,
    /// Max-Forwards and Call-ID. [`Stack::send`] sends it, again for each retransmission of the 2xx.
    pub fn write_ack(
        &mut self,
        flow: Flow,
        uri: &[u8],
        call_id: &[u8],
        finish: impl FnOnce(RequestWriter<'_>),
    ) -> Vec<u8> {
        let branch = format!("z9hG4bK{:016x}", self.token());
        let listener = self.listeners.get(usize::from(flow.listener.0));
        let mut ack = Vec::new();
        let begun = RequestWriter::begin(&mut ack, Method::Ack, uri)
            .header_with(HeaderName::Via, |into| {
                write_via(into, listener, |into| {
                    into.extend_from_slice(branch.as_bytes());
                });
            })
            .header(HeaderName::MaxForwards, b"70")
            .header(HeaderName::CallId, call_id);
        finish(begun);
        ack
    }

    /// Sends a message outside any transaction, such as the ACK of a 2xx. `write` appends the complete message.
    pub fn send<'d>(&mut self, hop: impl Into<NextHop<'d>>, write: impl FnOnce(&mut Vec<u8>)) {
        let NextHop { flow, domain } = hop.into();
        self.output.send_to(flow, domain, write);
    }

    /// Starts a timer. When it fires, the stack calls [`User::timer`](crate::User::timer) with the token. The resolution is 5 ms.
    pub fn start_timer(&mut self, at: Time, token: u64) -> TimerId {
        self.wheel.arm(at, token)
    }

    /// Stops a timer, unless it has fired.
    pub fn stop_timer(&mut self, timer: TimerId) {
        self.wheel.cancel(timer);
    }

    /// The current time. It stays the same for the duration of one call of the [`User`](crate::User).
    pub const fn now(&self) -> Time {
        self.now
    }

    /// T1, T2 and T4 of this stack.
    pub const fn timers(&self) -> TimerSettings {
        self.timers
    }

    /// Cancels an INVITE of this program (section 9.1).
    pub fn cancel(&mut self, client: ClientId) {
        self.transactions
            .cancel_client(self.now, client, b"", self.output);
    }

    /// The listeners, with the addresses that their sockets are bound to.
    pub const fn listeners(&self) -> &[Listener] {
        self.listeners
    }

    /// The statistics of the transaction layer.
    pub fn statistics(&self) -> Stats {
        self.transactions.stats()
    }

    /// A token that is never repeated, for tags and Call-IDs.
    pub fn token(&mut self) -> u64 {
        *self.tokens += 1;
        self.hasher.hash(&[b"token", &self.tokens.to_be_bytes()])
    }

    /// The tag for all responses to a request and its retransmissions.
    pub(crate) fn tag(&self, request: &Message<'_>) -> Vec<u8> {
        let via = request.top_via().map_or(&b""[..], |via| via.bytes);
        let call_id = request.call_id().unwrap_or_default();
        format!("{:016x}", self.hasher.hash(&[b"tag", via, call_id])).into_bytes()
    }
}

impl std::fmt::Debug for Stack<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Stack")
            .field("statistics", &self.statistics())
            .finish_non_exhaustive()
    }
}

/// Ends a response without a body.
pub(crate) fn end(response: ResponseWriter<'_>) {
    response.finish();
}

fn write_via(into: &mut Vec<u8>, listener: Option<&Listener>, branch: impl FnOnce(&mut Vec<u8>)) {
    let Some(listener) = listener else { return };
    into.extend_from_slice(b"SIP/2.0/");
    into.extend_from_slice(listener.protocol.via_token().as_bytes());
    into.push(b' ');
    into.extend_from_slice(listener.advertised.as_bytes());
    // The branch comes first: the transaction layer finds it fastest there.
    into.extend_from_slice(b";branch=");
    branch(into);
    into.extend_from_slice(b";rport");
}
