//! Attackers: scanners, password guessers, toll fraud, and noise.
//!
//! An attack succeeds as a unit if the server rejects or ignores it, and fails if the server accepts it.

use super::dialog::Dialog;
use super::figures::{Delay, Kind};
use super::messages::{Branch, Heading, finish_with_offer, push_address};
use super::phones::{NOBODY, Out, Phones, Stage, Unit};
use super::subscribers::{Pattern, Subscribers, authorize, push_decimal};
use crate::credentials::Nonce;
use sip_message::{HeaderName, Message, Method};
use sip_transaction::{ClientOptions, Kind as TransactionKind};
use sip_transport::{Flow, Time};

/// Kind of an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attack {
    /// OPTIONS for an extension: a scan.
    Probe,
    /// REGISTER as a subscriber with a wrong password.
    Guess,
    /// A call from an extension to a far country with a wrong password.
    Toll,
}

impl Attack {
    const ALL: [Self; 3] = [Self::Probe, Self::Guess, Self::Toll];

    const fn method(self) -> Method<'static> {
        match self {
            Self::Probe => Method::Options,
            Self::Guess => Method::Register,
            Self::Toll => Method::Invite,
        }
    }
}

/// A country code that is not assigned (ITU-T E.164), so that an accepted call costs nothing.
const FAR_AWAY: &[u8] = b"00999";

/// Bytes that are not SIP, or almost SIP, as a server on the Internet receives them.
const NOISE: [&[u8]; 6] = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nHost: sip\r\n\r\n",
    b"INVITE sip:100@example SIP/2.0\r\nVia: SIP/2.0/UDP",
    b"REGISTER sip:example SIP/2.0\r\nCSeq: 99999999999 REGISTER\r\nContent-Length: -1\r\n\r\n",
    b"OPTIONS sip:100@example SIP/3.0\r\nTo: <sip:100@example>\r\n\r\n",
    b"\0\0\0\0\xff\xff\xff\xff\0\0\0\0\xff\xff\xff\xff",
];

/// The attackers: extensions 100 and up, with passwords that no subscriber has.
#[derive(Clone, Debug)]
pub(super) struct Strangers {
    extensions: Subscribers,
    victims: Subscribers,
}

impl Strangers {
    pub(super) fn among(subscribers: &Subscribers) -> Self {
        let guessed = || Pattern::around("guess", "");
        Self {
            extensions: Subscribers {
                user: Pattern::around("", ""),
                password: guessed(),
                ..subscribers.clone()
            },
            victims: Subscribers {
                password: guessed(),
                ..subscribers.clone()
            },
        }
    }

    fn of(&self, attack: Attack) -> &Subscribers {
        if attack == Attack::Guess {
            &self.victims
        } else {
            &self.extensions
        }
    }
}

impl Phones {
    /// Starts the next attack. The kinds take turns, including noise.
    pub(super) fn attack(&mut self, now: Time, due: Time, output: Out<'_>) {
        self.figures.ends_mut(Kind::Attack).attempted += 1;
        let number = self.next_number();
        let (turn, kinds) = (number as usize, Attack::ALL.len() + 1);
        let place = (turn / kinds) as u32;
        let Some(&attack) = Attack::ALL.get(turn % kinds) else {
            let port = &self.ports[place as usize % self.ports.len()];
            let Some(server) = self.plan.server else {
                return self.figures.fail(Kind::Attack, &NOBODY);
            };
            let flow = Flow::to(port.listener, server);
            let noise = NOISE[place as usize % NOISE.len()];
            output.send(flow, |into| into.extend_from_slice(noise));
            return self.figures.succeed(Kind::Attack);
        };
        let phone = match attack {
            Attack::Guess => self.first + place % self.memories.len() as u32,
            _ => 100 + place % 9_900,
        };
        let unit = Unit {
            phone,
            due,
            asked: due,
            cseq: 0,
            stage: Stage::Attacking {
                attack,
                has_credentials: false,
            },
        };
        self.units.insert(number, unit);
        self.send_attack(now, number, None, output);
    }

    fn send_attack(&mut self, now: Time, number: u64, nonce: Option<Nonce>, output: Out<'_>) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let Stage::Attacking { attack, .. } = unit.stage else {
            return;
        };
        unit.cseq += 1;
        let (phone, cseq) = (unit.phone, unit.cseq);
        let Some(server) = self.plan.server else {
            return self.fail(number, &NOBODY);
        };
        let Ok(client) = self.transactions.reserve_client(number) else {
            return self.fail(number, &"too many transactions");
        };
        let port = &self.ports[phone as usize % self.ports.len()];
        let strangers = self.strangers.of(attack);
        let method = attack.method();
        let mut uri = b"sip:".to_vec();
        match attack {
            Attack::Guess => {}
            Attack::Probe => uri.extend_from_slice(b"100@"),
            Attack::Toll => {
                uri.extend_from_slice(FAR_AWAY);
                push_decimal(&mut uri, 1_000_000 + u64::from(phone));
                uri.push(b'@');
            }
        }
        uri.extend_from_slice(strangers.domain.as_bytes());
        let heading = Heading {
            method,
            uri: &uri,
            port,
            phone,
            number,
            cseq,
        };
        let write = |into: &mut Vec<u8>| {
            let mut request = heading
                .begin(strangers, Branch::Client(client), into)
                .header_with(HeaderName::To, |into| push_address(into, strangers, phone))
                .header_with(HeaderName::Contact, |into| {
                    into.push(b'<');
                    port.write_contact(strangers, phone, into);
                    into.push(b'>');
                })
                .header(HeaderName::UserAgent, b"friendly-scanner");
            if let Some(mut nonce) = nonce {
                let name = if attack == Attack::Guess {
                    HeaderName::Authorization
                } else {
                    HeaderName::ProxyAuthorization
                };
                request = request.header_with(name, |into| {
                    let asked = (method.as_bytes(), &uri[..]);
                    authorize(strangers, phone, &mut nonce, asked, into);
                });
            }
            if attack == Attack::Toll {
                finish_with_offer(request);
            } else {
                request.finish();
            }
        };
        let flow = Flow::to(port.listener, server);
        let kind = match attack {
            Attack::Toll => TransactionKind::Invite,
            _ => TransactionKind::NonInvite,
        };
        let options = ClientOptions::new(kind, flow, port.is_reliable);
        self.transactions
            .start_client(now, client, &options, output, write);
    }

    /// Handles a response.
    pub(super) fn attack_answered(
        &mut self,
        now: Time,
        number: u64,
        response: &Message<'_>,
        output: Out<'_>,
    ) {
        let Some(unit) = self.units.get_mut(&number) else {
            return;
        };
        let Stage::Attacking {
            attack,
            ref mut has_credentials,
        } = unit.stage
        else {
            return;
        };
        let status = response.status();
        if status < 200 {
            return;
        }
        if matches!(status, 401 | 407)
            && !std::mem::replace(has_credentials, true)
            && let Some(nonce) = Nonce::of(response, status == 407)
        {
            return self.send_attack(now, number, Some(nonce), output);
        }
        let delay = now.saturating_since(unit.asked);
        self.figures.record(Delay::Other, delay);
        match (attack, status) {
            (Attack::Probe, 200..300) => self.succeed(now, number),
            (Attack::Guess, 200..300) => self.fail(number, &format_args!("let in with {status}")),
            (Attack::Toll, 200..300) => {
                self.leave(now, number, response, output);
                self.fail(number, &format_args!("let in with {status}"));
            }
            _ => self.refused(now, number, status),
        }
    }

    /// Acknowledges and ends a call that the server should not have accepted.
    fn leave(&mut self, now: Time, number: u64, response: &Message<'_>, output: Out<'_>) {
        let Some(&Unit { phone, cseq, .. }) = self.units.get(&number) else {
            return;
        };
        let port = &self.ports[phone as usize % self.ports.len()];
        let Some(dialog) = Dialog::of(response, port, self.plan.server) else {
            return;
        };
        let heading = |method, cseq| Heading {
            method,
            uri: &dialog.target,
            port,
            phone,
            number,
            cseq,
        };
        let strangers = &self.strangers.extensions;
        output.send(dialog.flow, |into| {
            let acknowledgement = heading(Method::Ack, cseq);
            acknowledgement.in_dialog(strangers, Branch::Acknowledgement, &dialog, into);
        });
        let Ok(client) = self.transactions.reserve_client(number) else {
            return;
        };
        let write = |into: &mut Vec<u8>| {
            let bye = heading(Method::Bye, cseq + 1);
            bye.in_dialog(strangers, Branch::Client(client), &dialog, into);
        };
        let kind = TransactionKind::NonInvite;
        let options = ClientOptions::new(kind, dialog.flow, port.is_reliable);
        self.transactions
            .start_client(now, client, &options, output, write);
    }

    /// The server rejected an attack with `status`; 0 means that it did not respond.
    pub(super) fn refused(&mut self, now: Time, number: u64, status: u16) {
        *self.figures.refusals.entry(status).or_default() += 1;
        self.succeed(now, number);
    }
}
