//! A phone's client transactions (RFC 3261 section 17.1), kept simple: they retransmit until a response arrives or the
//! time is up.
use super::call::CallId;
use super::compose::Draft;
use super::{Phone, PhoneEvent, PhoneOutput, T1, T1_64, T2, T4, earlier};
use sip_message::{Message, Method};
use sip_transport::Time;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// How many challenges of one request a phone answers before it gives up.
const MAX_CHALLENGES: u32 = 4;

/// How long an INVITE outside the calls waits for its final response after a provisional one.
const MAX_PATIENCE: Duration = Duration::from_secs(180);

/// The purpose of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Register {
        expires: u32,
    },
    Invite(CallId),
    Reinvite(CallId),
    /// A refresh of the session without a new offer (RFC 3311).
    Update(CallId),
    Bye(CallId),
    Cancel,
    Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No response has arrived.
    Calling,
    /// A provisional response has arrived.
    Proceeding,
    /// A final response has arrived. Its retransmissions are absorbed until the end.
    Over,
}

/// One client transaction.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) draft: Draft,
    pub(crate) purpose: Purpose,
    pub(crate) branch: String,
    via: String,
    bytes: Rc<[u8]>,
    destination: SocketAddr,
    state: State,
    interval: Duration,
    resend_at: Option<Time>,
    ends_at: Option<Time>,
    challenges: u32,
    /// The ACK of a rejection, sent again for each of its retransmissions.
    ack: Option<Rc<[u8]>>,
}

impl Client {
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        earlier(self.resend_at, self.ends_at)
    }

    /// Whether it only absorbs retransmissions.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    pub(crate) const fn is_proceeding(&self) -> bool {
        matches!(self.state, State::Proceeding)
    }

    const fn is_invite(&self) -> bool {
        matches!(self.draft.method, Method::Invite)
    }

    /// Ends the transaction after a final response.
    fn finish(&mut self, now: Time, linger: Duration) {
        self.state = State::Over;
        self.resend_at = None;
        self.ends_at = Some(now + linger);
    }

    fn matches(&self, response: &Message<'_>) -> bool {
        let branch = response.top_via().and_then(|via| via.branch());
        branch == Some(self.branch.as_bytes()) && response.method() == self.draft.method
    }
}

impl Phone {
    /// Sends a request in a new client transaction.
    pub(crate) fn start_client(
        &mut self,
        now: Time,
        draft: Draft,
        purpose: Purpose,
        output: &mut PhoneOutput,
    ) {
        let unasked = self.profile.authorizes_unasked;
        let authorization = unasked
            .then(|| self.authorize(draft.method.as_bytes(), &draft.uri))
            .flatten();
        let proof = (authorization.as_deref(), 0);
        self.send_client(now, draft, purpose, proof, output);
    }

    fn send_client(
        &mut self,
        now: Time,
        draft: Draft,
        purpose: Purpose,
        (authorization, challenges): (Option<&str>, u32),
        output: &mut PhoneOutput,
    ) {
        let (via, branch) = self.new_via();
        let bytes = draft.write(&via, authorization);
        let destination = draft.next_hop(self.profile.server);
        output.send(destination, &bytes);
        self.clients.push(Client {
            draft,
            purpose,
            branch,
            via,
            bytes,
            destination,
            state: State::Calling,
            interval: T1,
            resend_at: Some(now + T1),
            ends_at: Some(now + T1_64),
            challenges,
            ack: None,
        });
    }

    /// Cancels the INVITE of a call (section 9.1), if it has had a provisional response.
    pub(crate) fn send_cancel(&mut self, now: Time, call: CallId, output: &mut PhoneOutput) {
        let invite = self.clients.iter_mut().find(|client| {
            client.purpose == Purpose::Invite(call) && client.state == State::Proceeding
        });
        let Some(invite) = invite else { return };
        // Section 9.1: without a final response, the caller considers the INVITE cancelled after 64*T1.
        invite.ends_at = Some(now + T1_64);
        let draft = Draft {
            method: Method::Cancel,
            contact: None,
            session: None,
            with_body: false,
            ..invite.draft.clone()
        };
        let (via, branch, destination) = (
            invite.via.clone(),
            invite.branch.clone(),
            invite.destination,
        );
        let bytes = draft.write(&via, None);
        output.send(destination, &bytes);
        self.clients.push(Client {
            draft,
            purpose: Purpose::Cancel,
            branch,
            via,
            bytes,
            destination,
            state: State::Calling,
            interval: T1,
            resend_at: Some(now + T1),
            ends_at: Some(now + T1_64),
            challenges: 0,
            ack: None,
        });
    }

    /// The INVITE transaction of a call, unless it is over.
    pub(crate) fn open_invite(&self, call: CallId) -> Option<&Client> {
        self.clients
            .iter()
            .find(|client| client.purpose == Purpose::Invite(call) && !client.is_over())
    }

    /// Whether one of our re-INVITEs or UPDATEs is open in a call.
    pub(crate) fn has_open_reinvite(&self, call: CallId) -> bool {
        let changes = [Purpose::Reinvite(call), Purpose::Update(call)];
        let mut open = self.clients.iter().filter(|client| !client.is_over());
        open.any(|client| changes.contains(&client.purpose))
    }

    pub(crate) fn wake_clients(&mut self, now: Time, output: &mut PhoneOutput) {
        let mut silent = Vec::new();
        self.clients.retain_mut(|client| {
            if client.ends_at.is_some_and(|at| at <= now) {
                if client.state != State::Over {
                    silent.push((client.purpose.clone(), client.draft.method));
                }
                return false;
            }
            if client.resend_at.is_some_and(|at| at <= now) {
                output.send(client.destination, &client.bytes);
                client.interval *= 2;
                if !client.is_invite() {
                    client.interval = if client.is_proceeding() {
                        T2
                    } else {
                        client.interval.min(T2)
                    };
                }
                client.resend_at = Some(now + client.interval);
            }
            true
        });
        for (purpose, method) in silent {
            output.events.push(PhoneEvent::Final {
                method,
                status: 408,
                timed_out: true,
            });
            self.request_ended(now, &purpose, None, output);
        }
    }

    pub(crate) fn receive_response(
        &mut self,
        now: Time,
        response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let Some(index) = self
            .clients
            .iter()
            .position(|client| client.matches(response))
        else {
            return;
        };
        let forgets_ack = self.profile.forgets_ack;
        let client = &mut self.clients[index];
        let status = response.status();
        if status < 200 {
            if client.state == State::Calling {
                client.state = State::Proceeding;
                if client.is_invite() {
                    client.resend_at = None;
                    // The caller's patience ends the INVITE of a call. Other INVITEs need a deadline of their own.
                    let patient = matches!(client.purpose, Purpose::Invite(_));
                    client.ends_at = (!patient).then(|| now + MAX_PATIENCE);
                }
            }
            return self.provisional(now, index, response, output);
        }
        let (purpose, method) = (client.purpose.clone(), client.draft.method);
        if client.is_invite() && status / 100 == 2 {
            let first = client.state != State::Over;
            if first {
                client.finish(now, T1_64);
                output.events.push(PhoneEvent::Final {
                    method,
                    status,
                    timed_out: false,
                });
            } else if client.ack.is_some() {
                return; // The INVITE was rejected before: this 2xx is too late (section 17.1.1.2).
            }
            return self.invite_accepted(now, &purpose, response, first, output);
        }
        if client.is_invite() && !forgets_ack {
            let ack = client
                .ack
                .get_or_insert_with(|| ack_of_refusal(&client.draft, &client.via, response));
            output.send(client.destination, ack);
        }
        if client.state == State::Over {
            return;
        }
        let linger = if client.is_invite() { T1_64 } else { T4 };
        client.finish(now, linger);
        output.events.push(PhoneEvent::Final {
            method,
            status,
            timed_out: false,
        });
        let (mut draft, challenges) = (client.draft.clone(), client.challenges + 1);
        let wanted = !matches!(purpose, Purpose::Invite(call) if self.has_given_up(call));
        let may_answer = match status {
            401 | 407 => self.wallet.take(&self.profile, response).is_some(),
            422 => draft
                .session
                .as_mut()
                .is_some_and(|offer| offer.raise(response)),
            _ => false,
        };
        if may_answer && wanted && challenges <= MAX_CHALLENGES {
            return self.try_again(now, draft, purpose, challenges, output);
        }
        self.request_ended(now, &purpose, Some(response), output);
    }

    /// Sends a challenged request again, with credentials and the next `CSeq` (section 22.2); or one whose session was too short.
    fn try_again(
        &mut self,
        now: Time,
        mut draft: Draft,
        purpose: Purpose,
        challenges: u32,
        output: &mut PhoneOutput,
    ) {
        draft.cseq = match purpose {
            Purpose::Register { .. } => self.registration_cseq(),
            Purpose::Invite(call)
            | Purpose::Reinvite(call)
            | Purpose::Update(call)
            | Purpose::Bye(call) => self.next_cseq(call),
            Purpose::Cancel | Purpose::Probe => draft.cseq + 1,
        };
        let authorization = self.authorize(draft.method.as_bytes(), &draft.uri);
        let proof = (authorization.as_deref(), challenges);
        self.send_client(now, draft, purpose, proof, output);
    }

    /// Handles the end of a request, except a 2xx to an INVITE; `None` means that there was no response.
    fn request_ended(
        &mut self,
        now: Time,
        purpose: &Purpose,
        response: Option<&Message<'_>>,
        output: &mut PhoneOutput,
    ) {
        let status = response.map_or(408, Message::status);
        match *purpose {
            Purpose::Register { expires } => {
                self.registration_ended(now, expires, response, output);
            }
            Purpose::Invite(call) => self.invite_refused(call, status, output),
            Purpose::Reinvite(call) => self.reinvite_refused(now, call, status, output),
            Purpose::Update(call) => match response.filter(|_| status / 100 == 2) {
                Some(response) => self.session_agreed(now, call, response, output),
                None => self.reinvite_refused(now, call, status, output),
            },
            Purpose::Bye(call) => self.bye_ended(call, output),
            Purpose::Cancel | Purpose::Probe => {}
        }
    }

    /// Sends a request outside any dialog.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        method: &'static str,
        uri: String,
        output: &mut PhoneOutput,
    ) {
        let tag = self.dice.token();
        let draft = Draft {
            method: Method::from_bytes(method.as_bytes()),
            to: format!("<{uri}>"),
            uri,
            from: self.own_from(&tag),
            call_id: self.new_call_id(),
            cseq: 1,
            routes: Vec::new(),
            contact: None,
            expires: None,
            session: None,
            with_body: false,
        };
        self.start_client(now, draft, Purpose::Probe, output);
    }
}

/// Section 17.1.1.3: the ACK of a rejection goes where the INVITE went, with its Via and the rejection's To.
fn ack_of_refusal(invite: &Draft, via: &str, response: &Message<'_>) -> Rc<[u8]> {
    let to = response
        .header(sip_message::HeaderName::To)
        .unwrap_or_default();
    let draft = Draft {
        method: Method::Ack,
        to: super::compose::text(to),
        contact: None,
        session: None,
        with_body: false,
        ..invite.clone()
    };
    draft.write(via, None)
}
