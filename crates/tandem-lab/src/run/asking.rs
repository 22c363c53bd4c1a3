//! Units of one transaction, or of two if the server asks for credentials: OPTIONS, NOTIFY, REGISTER, and datagrams to be echoed.

use super::figures::{Delay, Kind};
use super::messages::{Branch, Heading, push_address, push_uri};
use super::phones::{Alarm, NOBODY, Out, Phones, Stage, Unit};
use crate::credentials::{Nonce, is_stale};
use sip_message::{HeaderName, Message, Method, NameAddr};
use sip_transaction::{ClientOptions, Kind as TransactionKind};
use sip_transport::{ConnectionId, Flow, Time};
use std::time::Duration;

/// How long a registration rejected with 503 waits, as if all had `Retry-After: 1`.
const PUT_OFF: Duration = Duration::from_secs(1);
/// How long a registration may be deferred in total.
const PATIENCE: Duration = Duration::from_secs(120);

/// Length of a datagram to be echoed, in bytes: that of an ordinary SIP message.
const ECHO_LENGTH: usize = 600;
/// The end of a request without a body, after its other header fields.
const END: &[u8] = b"\r\nContent-Length: 0\r\n\r\n";

impl Phones {
    /// Starts a unit.
    pub(super) fn ask(&mut self, now: Time, due: Time, kind: Kind, phone: u32, output: Out<'_>) {
        let number = self.next_number();
        self.figures.ends_mut(kind).attempted += 1;
        let has_credentials = kind == Kind::Register && self.remember(phone, false);
        let unit = Unit {
            phone,
            due,
            asked: due,
            cseq: 1,
            stage: Stage::Asked {
                kind,
                has_credentials,
            },
        };
        self.units.insert(number, unit);
        self.send_question(now, number, output);
    }

    /// Whether a phone has a nonce that it may reuse.
    pub(super) fn remember(&mut self, phone: u32, is_proxy: bool) -> bool {
        let reuse = self.plan.reuse_nonces;
        let nonce = self.memories[(phone - self.first) as usize].nonce(is_proxy);
        if !reuse {
            *nonce = None;
        }
        nonce.is_some()
    }

    fn send_question(&mut self, now: Time, number: u64, output: Out<'_>) {
        let Some(&Unit {
            phone, ref stage, ..
        }) = self.units.get(&number)
        else {
            return;
        };
        let kind = stage.kind();
        let Ok(client) = self.transactions.reserve_client(number) else {
            return self.fail(number, &"too many transactions");
        };
        let place = (phone - self.first) as usize;
        let port = &self.ports[place % self.ports.len()];
        let (remote, subscribers) = (self.plan.server, &self.plan.subscribers);
        let Some(remote) = remote else {
            return self.fail(number, &NOBODY);
        };
        let memory = &mut self.memories[place];
        let is_registration = kind == Kind::Register;
        // A registration keeps its Call-ID when it is refreshed.
        let (call, cseq) = if is_registration {
            memory.cseq += 1;
            (
                (number >> 40 << 40) | 1 << 39 | u64::from(phone),
                memory.cseq,
            )
        } else {
            (number, 1)
        };
        let mut uri = Vec::with_capacity(64);
        if kind == Kind::Options && self.plan.asks_phones {
            push_uri(&mut uri, subscribers, self.shared.division.opposite(phone));
        } else {
            uri.extend_from_slice(b"sip:");
            uri.extend_from_slice(subscribers.domain.as_bytes());
        }
        let heading = Heading {
            method: match kind {
                Kind::Register => Method::Register,
                Kind::KeepAlive | Kind::Echo => Method::Notify,
                _ => Method::Options,
            },
            uri: &uri,
            port,
            phone,
            number: call,
            cseq,
        };
        let expires = if self.is_leaving {
            0
        } else {
            self.plan.expires
        };
        let nonce = &mut memory.nonce;
        let write = |into: &mut Vec<u8>| {
            let branch = Branch::Client(client);
            if is_registration {
                let nonce = nonce.as_deref_mut();
                return heading.register(subscribers, branch, (expires, nonce), into);
            }
            let end = into.len() + ECHO_LENGTH;
            let request = heading.begin(subscribers, branch, into);
            let request = request.header_with(HeaderName::To, |into| {
                push_address(into, subscribers, phone);
            });
            match kind {
                Kind::KeepAlive => request.header(HeaderName::Event, b"keep-alive"),
                Kind::Echo => request.header_with(HeaderName::Subject, |into| {
                    into.resize(end.saturating_sub(END.len()).max(into.len()), b'.');
                }),
                _ => request,
            }
            .finish();
        };
        let flow = Flow::to(port.listener, remote);
        let options = ClientOptions::new(TransactionKind::NonInvite, flow, port.is_reliable);
        self.transactions
            .start_client(now, client, &options, output, write);
    }

    /// Handles a response.
    pub(super) fn answered(
        &mut self,
        now: Time,
        number: u64,
        connection: ConnectionId,
        response: &Message<'_>,
        output: Out<'_>,
    ) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let unit_due = unit.due;
        let Stage::Asked {
            kind,
            ref mut has_credentials,
        } = unit.stage
        else {
            return;
        };
        if kind == Kind::Connection && response.status() >= 200 {
            output.close(connection);
        }
        match response.status() {
            ..200 => {}
            200..300 => {
                let delay = now.saturating_since(unit.asked);
                self.figures.record(delay_of(kind), delay);
                let phone = unit.phone;
                if kind == Kind::Register {
                    let since_due = now.saturating_since(unit_due);
                    self.figures.record(Delay::Registered, since_due);
                    self.registered(phone, response);
                }
                self.succeed(now, number);
            }
            // A connection is used for one request only.
            status @ (401 | 407) if kind != Kind::Connection => {
                if *has_credentials && !is_stale(response) {
                    return self.fail(number, &status);
                }
                let Some(nonce) = Nonce::of(response, status == 407) else {
                    return self.fail(number, &format_args!("{status} without a challenge"));
                };
                *has_credentials = true;
                unit.asked = now;
                let phone = unit.phone;
                self.memories[(phone - self.first) as usize].nonce = Some(Box::new(nonce));
                self.send_question(now, number, output);
            }
            503 if kind == Kind::Register && self.is_patient(now, unit_due) => {
                self.figures.put_off += 1;
                self.wheel.arm(now + PUT_OFF, Alarm::AskAgain(number));
            }
            status => self.fail(number, &status),
        }
    }

    /// Handles a successful REGISTER. Contacts other than the phone's own are left over from an earlier run, or belong to another phone.
    fn registered(&mut self, phone: u32, response: &Message<'_>) {
        let mut own = Vec::with_capacity(64);
        self.port_of(phone)
            .write_contact(&self.plan.subscribers, phone, &mut own);
        let mut contacts = response.values(HeaderName::Contact);
        let is_shared = contacts.any(|contact| {
            let contact = NameAddr::parse(contact);
            contact.is_some_and(|contact| !contact.uri_bytes.starts_with(&own))
        });
        let memory = &mut self.memories[(phone - self.first) as usize];
        memory.is_registered = !self.is_leaving;
        if is_shared && !std::mem::replace(&mut memory.is_shared, true) {
            self.figures.shared_registrations += 1;
        }
    }

    /// Whether a 503 is tolerated: during the initial registration, for longer than the lifetime of the transactions that fill the
    /// server's table.
    fn is_patient(&self, now: Time, due: Time) -> bool {
        self.is_populating && now.saturating_since(due) < PATIENCE
    }

    /// Retries a deferred request.
    pub(super) fn ask_again(&mut self, now: Time, number: u64, output: Out<'_>) {
        if let Some(unit) = self.units.get_mut(&number) {
            unit.asked = now;
            self.send_question(now, number, output);
        }
    }
}

const fn delay_of(kind: Kind) -> Delay {
    match kind {
        Kind::Register => Delay::Registration,
        Kind::Connection => Delay::Connection,
        _ => Delay::Other,
    }
}
