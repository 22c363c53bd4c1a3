//! What is known of a request when rules are evaluated.

use super::condition::Part;
use super::text::Text;
use sip_message::{Message, Method, Uri};
use sip_transport::{ListenerId, Protocol};
use std::cell::OnceCell;
use std::net::IpAddr;

/// A request, and how it arrived.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'f, 'm> {
    /// The request.
    pub request: &'f Message<'m>,
    /// How it arrived. `None` if this server makes it: no condition on its source, listener, transport or header fields holds.
    pub arrival: Option<Arrival>,
}

/// How a request arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The address that it came from.
    pub source: IpAddr,
    /// The listener that it arrived on.
    pub listener: ListenerId,
    /// The protocol of that listener.
    pub protocol: Protocol,
}

impl<'m> Facts<'_, 'm> {
    /// The method that rules see. An ACK and a CANCEL follow their INVITE.
    pub(super) fn method(&self) -> Method<'m> {
        match self.request.method() {
            Method::Ack | Method::Cancel => Method::Invite,
            method => method,
        }
    }
}

/// The facts, and the texts that were needed so far.
#[derive(Debug)]
pub(super) struct Values<'f, 'm> {
    pub(super) facts: Facts<'f, 'm>,
    /// The source; IPv4-mapped addresses as IPv4.
    pub(super) source: Option<IpAddr>,
    texts: [OnceCell<Option<Text<'m>>>; Part::COUNT],
}

impl<'f, 'm> Values<'f, 'm> {
    pub(super) fn new(facts: Facts<'f, 'm>) -> Self {
        Self {
            facts,
            source: facts.arrival.map(|it| it.source.to_canonical()),
            texts: [const { OnceCell::new() }; Part::COUNT],
        }
    }

    /// The text of a part; `None` if the request has none, or none that can be parsed.
    pub(super) fn text(&self, part: Part) -> Option<&Text<'m>> {
        let cell = self.texts.get(part as usize)?;
        cell.get_or_init(|| self.text_of(part)).as_ref()
    }

    fn text_of(&self, part: Part) -> Option<Text<'m>> {
        let uri: &Uri<'m> = match part {
            Part::User | Part::Domain => self.facts.request.uri(),
            Part::FromUser | Part::FromDomain => self.facts.request.from_uri(),
            Part::ToUser | Part::ToDomain => self.facts.request.to_uri(),
        }?;
        if part.is_user() {
            Text::of_user(uri)
        } else {
            Text::of_domain(uri)
        }
    }
}
