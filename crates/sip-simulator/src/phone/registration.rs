//! A phone's registration: what it requested, what it knows, and when it refreshes.
use super::client::Purpose;
use super::compose::Draft;
use super::{Phone, PhoneEvent, PhoneOutput};
use crate::dice::Dice;
use sip_message::{HeaderName, Message, Method, NameAddr};
use sip_transport::Time;
use std::time::Duration;

/// The state of a phone's registration.
#[derive(Debug)]
pub(crate) struct Registration {
    /// All REGISTERs of one life share a Call-ID (section 10.2.4).
    call_id: String,
    tag: String,
    cseq: u32,
    /// A REGISTER is in progress: the next one must wait until it ends (section 10.2).
    open: bool,
    /// The lifetime requested meanwhile.
    next: Option<u32>,
    wanted: bool,
    believed: Option<(String, u64)>,
    refresh_at: Option<Time>,
}

impl Registration {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        Self {
            call_id: dice.token(),
            tag: dice.token(),
            cseq: 0,
            open: false,
            next: None,
            wanted: false,
            believed: None,
            refresh_at: None,
        }
    }

    pub(crate) fn believed(&self) -> Option<(String, u64)> {
        self.believed.clone()
    }

    pub(crate) const fn stop_refreshing(&mut self) {
        self.wanted = false;
        self.refresh_at = None;
        self.next = None;
    }

    pub(crate) fn refresh_due(&self, now: Time) -> bool {
        self.refresh_at.is_some_and(|at| at <= now)
    }

    pub(crate) const fn next_deadline(&self) -> Option<Time> {
        self.refresh_at
    }
}

impl Phone {
    /// Registers for `expires` seconds; 0 removes the contact.
    pub(crate) fn register(&mut self, now: Time, expires: u32, output: &mut PhoneOutput) {
        self.registration.wanted = expires > 0;
        self.registration.refresh_at = None;
        if self.registration.open {
            self.registration.next = Some(expires);
            return;
        }
        self.registration.open = true;
        self.registration.cseq += 1;
        let draft = Draft {
            method: Method::Register,
            uri: format!("sip:{}", self.profile.domain),
            from: self.own_from(&self.registration.tag),
            to: format!("<{}>", self.profile.uri()),
            call_id: self.registration.call_id.clone(),
            cseq: self.registration.cseq,
            routes: Vec::new(),
            contact: Some(format!("<{}>", self.contact())),
            expires: Some(expires),
            session: None,
            with_body: false,
        };
        output.events.push(PhoneEvent::RegistrationUncertain);
        self.start_client(now, draft, Purpose::Register { expires }, output);
    }

    /// The next `CSeq`, which a retry after a challenge needs.
    pub(crate) fn registration_cseq(&mut self) -> u32 {
        self.registration.cseq += 1;
        self.registration.cseq
    }

    /// Handles the end of a REGISTER; `response` is `None` if there was none.
    pub(crate) fn registration_ended(
        &mut self,
        now: Time,
        expires: u32,
        response: Option<&Message<'_>>,
        output: &mut PhoneOutput,
    ) {
        self.registration.open = false;
        let status = response.map_or(408, Message::status);
        let contact = self.contact();
        if let Some(response) = response.filter(|_| status / 100 == 2) {
            self.believe(now, expires, contact, response, output);
        } else {
            output.events.push(PhoneEvent::RegistrationFailed(status));
            // Retries after a pause, and not all phones at the same time.
            let pause = self
                .dice
                .span(Duration::from_secs(2), Duration::from_secs(20));
            self.registration.refresh_at = self.registration.wanted.then(|| now + pause);
        }
        if let Some(expires) = self.registration.next.take() {
            self.register(now, expires, output);
        }
    }

    fn believe(
        &mut self,
        now: Time,
        asked: u32,
        contact: String,
        response: &Message<'_>,
        output: &mut PhoneOutput,
    ) {
        let granted = granted(response, &contact);
        match granted {
            Some(seconds) if asked > 0 => {
                let expires_at = now.unix_seconds() + u64::from(seconds);
                self.registration.believed = Some((contact.clone(), expires_at));
                let share = self.dice.range(40, 85);
                let refresh = Duration::from_millis(u64::from(seconds) * 10 * share);
                self.registration.refresh_at = self.registration.wanted.then(|| now + refresh);
                output.events.push(PhoneEvent::Registered {
                    contact,
                    expires_at,
                });
            }
            None if asked == 0 => {
                self.registration.believed = None;
                output.events.push(PhoneEvent::Unregistered { contact });
            }
            // The 200 does not list the requested contact, or lists a removed one.
            _ => output.events.push(PhoneEvent::RegistrationFailed(299)),
        }
    }
}

/// The lifetime that a 200 grants to a contact; `None` if it does not list the contact.
fn granted(response: &Message<'_>, contact: &str) -> Option<u32> {
    let listed = response
        .values(HeaderName::Contact)
        .filter_map(NameAddr::parse);
    let own = listed
        .into_iter()
        .find(|listed| listed.uri_bytes == contact.as_bytes())?;
    own.expires()
        .flatten()
        .or_else(|| response.expires().flatten())
}
