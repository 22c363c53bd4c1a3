//! REGISTER (RFC 3261 section 10): challenged, refreshed before it expires, removed.

use super::event::{CallNumber, ReceivedMessage, RegistrationEvent};
use super::fields::Fields;
use super::invitation::NotSent;
use super::outgoing::{MAX_CHALLENGES, bracketed};
use super::route::{Hops, Work};
use super::table::{Calls, Event};
use crate::Stack;
use sip_message::digest::Wallet;
use sip_message::{HeaderName, Message, Method, NameAddr, RequestWriter};
use sip_transaction::{ClientId, TimerId};
use sip_transport::Flow;
use sip_transport::selection::Candidate;
use std::time::Duration;

/// The most registrations of a user agent at a time.
const MOST: usize = 4;
/// How long after a failure the user agent retries.
const RETRY: Duration = Duration::from_secs(30);
/// How long before its expiry a binding is refreshed, if it lives for at least twice as long.
const EARLY: Duration = Duration::from_secs(30);

/// One registration.
#[derive(Debug)]
pub(crate) struct Registration {
    call_id: Box<[u8]>,
    /// From, with our tag.
    local: Box<[u8]>,
    cseq: u32,
    /// The lifetime that we ask for, in seconds.
    expires: u32,
    wallet: Wallet,
    hops: Hops,
    hop: Option<Candidate>,
    /// Our Contact in the last request.
    contact: Vec<u8>,
    is_asking: bool,
    /// The lifetime in the last request.
    asked: u32,
    challenges: u8,
    has_binding: bool,
    is_leaving: bool,
    timer: Option<TimerId>,
}

impl Calls {
    /// Registers our contact for `expires` at most, and keeps it registered.
    pub(crate) fn register(
        &mut self,
        stack: &mut Stack<'_>,
        expires: Duration,
    ) -> Result<CallNumber, NotSent> {
        if self.registrations.len() >= MOST {
            return Err(NotSent::TooMany);
        }
        let number = self.next_number();
        let tag = format!("{:016x}", stack.token());
        let registration = Registration {
            call_id: format!("{:016x}", stack.token()).into_bytes().into(),
            local: self.settings.local(&tag),
            cseq: 0,
            expires: u32::try_from(expires.as_secs()).unwrap_or(u32::MAX).max(1),
            wallet: Wallet::default(),
            hops: Hops::default(),
            hop: None,
            contact: Vec::new(),
            is_asking: false,
            asked: 0,
            challenges: 0,
            has_binding: false,
            is_leaving: false,
            timer: None,
        };
        self.registrations.insert(number, registration);
        if !self.route_register(stack, number) {
            self.registrations.remove(&number);
            return Err(NotSent::NoRoute);
        }
        Ok(number)
    }

    /// Removes our contact from the registrar, and ends the registration.
    pub(crate) fn unregister(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        registration.is_leaving = true;
        if registration.is_asking {
            // It leaves after the response.
            return;
        }
        if !registration.has_binding || !self.route_register(stack, number) {
            self.end_registration(stack, number, RegistrationEvent::Ended);
        }
    }

    fn tell_registration(&mut self, number: CallNumber, event: RegistrationEvent) {
        self.events.push_back(Event::Registration(number, event));
    }

    fn end_registration(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        event: RegistrationEvent,
    ) {
        if let Some(registration) = self.registrations.remove(&number) {
            if let Some(timer) = registration.timer {
                stack.stop_timer(timer);
            }
            self.forget_lookups(number);
            self.tell_registration(number, event);
        }
    }

    /// Begins a REGISTER. Returns false if there is no way to the registrar.
    fn route_register(&mut self, stack: &mut Stack<'_>, number: CallNumber) -> bool {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return true;
        };
        (registration.is_asking, registration.challenges) = (true, 0);
        let call_id = registration.call_id.clone();
        let settings = &self.settings;
        let next_hop = settings.proxy.as_ref().unwrap_or(&settings.registrar);
        let next_hop = next_hop.as_bytes().to_vec();
        self.route(stack, &next_hop, &call_id, Work::Register(number))
            .is_ok()
    }

    pub(crate) fn begin_register(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        mut hops: Hops,
    ) {
        if let Some(registration) = self.registrations.get_mut(&number) {
            if let Some(candidate) = registration.hop {
                hops.prefer(candidate);
            }
            registration.hops = hops;
            self.try_registrar(stack, number, None);
        }
    }

    /// Sends the REGISTER to the next candidate. Without one, it has failed.
    fn try_registrar(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        response: Option<ReceivedMessage>,
    ) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        let next = registration.hops.take(stack.listeners());
        registration.hop = next.map(|(candidate, _)| candidate);
        match next {
            Some((_, flow)) => self.send_register(stack, number, flow),
            None => self.registration_failed(stack, number, response),
        }
    }

    fn send_register(&mut self, stack: &mut Stack<'_>, number: CallNumber, flow: Flow) {
        let settings = &self.settings;
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        registration.cseq += 1;
        let uri = settings.registrar.as_bytes();
        registration.contact = settings.contact(stack.listeners(), flow, uri);
        let asked = (&b"REGISTER"[..], uri);
        let credentials = &settings.credentials;
        let wallet = &mut registration.wallet;
        let authorization = wallet.authorize(credentials, asked, stack.token());
        let routes: Vec<_> = settings.proxy.iter().map(|it| bracketed(it)).collect();
        let fields = Fields {
            routes: &routes,
            from: &registration.local,
            to: &bracketed(&settings.address),
            cseq: (registration.cseq, Method::Register),
            contact: Some(registration.contact.clone()),
            authorization: &authorization,
        };
        let leaves = registration.is_leaving;
        let expires = if leaves { 0 } else { registration.expires };
        registration.asked = expires;
        let finish = |request: RequestWriter<'_>| {
            let expires = expires.to_string();
            fields
                .write(request)
                .header(HeaderName::Expires, expires.as_bytes())
                .finish();
        };
        let hop = registration.hops.hop(flow);
        match stack.request(hop, Method::Register, uri, &registration.call_id, finish) {
            Ok(client) => {
                self.clients.insert(client, Work::Register(number));
            }
            Err(_) => self.registration_failed(stack, number, None),
        }
    }

    /// Handles a response of the registrar.
    pub(crate) fn register_response(
        &mut self,
        stack: &mut Stack<'_>,
        (client, number): (ClientId, CallNumber),
        response: &Message<'_>,
    ) {
        let status = response.status();
        if status < 200 {
            return;
        }
        self.clients.remove(&client);
        if status < 300 {
            return self.registered(stack, number, response);
        }
        let credentials = &self.settings.credentials;
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        let may_retry = registration.challenges < MAX_CHALLENGES;
        let retries = match status {
            401 | 407 => may_retry && registration.wallet.take(response, credentials),
            423 => may_retry && registration.take_minimum(response),
            _ => false,
        };
        if retries {
            registration.challenges += 1;
            registration.hops.candidates.extend(registration.hop);
            registration.hops.candidates.rotate_right(1);
            return self.try_registrar(stack, number, None);
        }
        let refusal = Some(ReceivedMessage::of(response));
        if status == 503 {
            return self.try_registrar(stack, number, refusal);
        }
        self.registration_failed(stack, number, refusal);
    }

    fn registered(&mut self, stack: &mut Stack<'_>, number: CallNumber, response: &Message<'_>) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        registration.wallet.accepted();
        registration.is_asking = false;
        if registration.asked == 0 {
            return self.end_registration(stack, number, RegistrationEvent::Ended);
        }
        let granted = registration.granted(response);
        registration.has_binding = !granted.is_zero();
        if registration.is_leaving {
            return self.unregister(stack, number);
        }
        if granted.is_zero() {
            let refusal = Some(ReceivedMessage::of(response));
            return self.registration_failed(stack, number, refusal);
        }
        let again = granted.saturating_sub(EARLY.min(granted / 2));
        self.wake_registration(stack, number, again.max(Duration::from_secs(1)));
        self.tell_registration(number, RegistrationEvent::Registered(granted));
    }

    /// Handles a REGISTER that got no response.
    pub(crate) fn register_failed(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        self.try_registrar(stack, number, None);
    }

    fn registration_failed(
        &mut self,
        stack: &mut Stack<'_>,
        number: CallNumber,
        response: Option<ReceivedMessage>,
    ) {
        let Some(registration) = self.registrations.get_mut(&number) else {
            return;
        };
        registration.is_asking = false;
        if registration.is_leaving {
            return self.end_registration(stack, number, RegistrationEvent::Ended);
        }
        let is_refused = response.is_some() && !registration.has_binding;
        let event = RegistrationEvent::Failed(response);
        if is_refused {
            return self.end_registration(stack, number, event);
        }
        self.wake_registration(stack, number, RETRY);
        self.tell_registration(number, event);
    }

    fn wake_registration(&mut self, stack: &mut Stack<'_>, number: CallNumber, after: Duration) {
        if let Some(registration) = self.registrations.get_mut(&number) {
            let at = stack.now() + after;
            if let Some(timer) = registration.timer.replace(stack.start_timer(at, number.0)) {
                stack.stop_timer(timer);
            }
        }
    }

    /// The binding is to be refreshed, or a failed request repeated.
    pub(crate) fn registration_timer(&mut self, stack: &mut Stack<'_>, number: CallNumber) {
        if let Some(registration) = self.registrations.get_mut(&number) {
            registration.timer = None;
            if !registration.is_asking && !self.route_register(stack, number) {
                self.registration_failed(stack, number, None);
            }
        }
    }
}

impl Registration {
    /// Takes the Min-Expires of a 423. Returns whether it is longer than what was asked for.
    fn take_minimum(&mut self, response: &Message<'_>) -> bool {
        let minimum = response.header(HeaderName::MinExpires);
        let minimum = minimum.and_then(|value| std::str::from_utf8(value).ok());
        let minimum = minimum.and_then(|value| value.trim().parse().ok());
        let is_longer = minimum.is_some_and(|minimum| minimum > self.expires);
        self.expires = minimum.unwrap_or(0).max(self.expires);
        is_longer
    }

    /// The lifetime of our binding: `expires` of our Contact, else Expires, else what was asked for (section 10.3 step 8).
    fn granted(&self, response: &Message<'_>) -> Duration {
        let own = NameAddr::parse(&self.contact).and_then(|contact| contact.uri());
        let contacts = response.values(HeaderName::Contact);
        let mut bindings = contacts.filter_map(NameAddr::parse);
        let binding = bindings.find(|it| {
            let found = it.uri();
            own.is_some_and(|own| found.is_some_and(|found| found.equivalent(&own)))
        });
        let seconds = binding.and_then(|it| it.expires().flatten());
        let seconds = seconds.or_else(|| response.expires().flatten());
        Duration::from_secs(seconds.unwrap_or(self.expires).into())
    }
}
