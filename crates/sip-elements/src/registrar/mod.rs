//! The registrar (RFC 3261 section 10.3, RFC 3327, RFC 5626 section 6). It turns an authenticated REGISTER into bindings
//! and a response.
//!
//! ```text
//! Require understood? → contacts, lifetimes, Path well-formed? → order and bounds: change all bindings or none → 200 with all bindings
//! ```
//! The caller of [`register`] has already done steps 1 and 3 to 5 of section 10.3: the domain, authentication,
//! authorization and the address of record.

mod date;
pub(crate) mod held;
mod refusal;
mod register_request;
mod update;

use crate::View;
use crate::location::{Binding, Live, unix_seconds};
use refusal::RegisterError;
use register_request::{BindingAction, RegisterRequest};
use sip_message::{HeaderName, Message, ResponseWriter};
use sip_transport::Flow;
use update::Update;

/// An authenticated REGISTER.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'r, 'm> {
    /// The request.
    pub request: &'r Message<'m>,
    /// The flow on which it was received.
    pub flow: Flow,
    /// The address of record that it is authenticated for, as `user@domain`.
    pub address: &'r [u8],
    /// The To tag of the response.
    pub to_tag: &'r [u8],
}

/// Processes a REGISTER. Appends the final response to `into` and returns its status.
///
/// The request must be well-formed ([`Message::validate`]). A retransmission gets the same result, so REGISTER needs no
/// transaction.
///
/// Path is accepted even if the phone does not list it in Supported. Edge proxies add it for phones that do not know it,
/// and a 420 would help neither. The response repeats it (RFC 3327 section 5.3) only for phones that list it (RFC 3261
/// section 8.2.4).
pub fn register(registration: &Registration<'_, '_>, view: View<'_>, into: &mut Vec<u8>) -> u16 {
    let responder = Responder { registration, view };
    match bind(&responder, into) {
        Ok(()) => 200,
        Err(refusal) => {
            responder.refuse(&refusal, into);
            refusal.status()
        }
    }
}

/// Changes the bindings and writes the 200. On an error it changes and writes nothing.
fn bind(responder: &Responder<'_, '_>, into: &mut Vec<u8>) -> Result<(), RegisterError> {
    let Responder { registration, view } = responder;
    let request = RegisterRequest::read(registration.request, registration.flow, view.settings)?;
    let (locations, address, now) = (&view.shared.locations, registration.address, view.now);
    if matches!(request.action, BindingAction::Fetch) {
        locations.read(address, now, |live| responder.list(&request, live, into));
        return Ok(());
    }
    let update = Update {
        request: &request,
        listeners: &view.settings.listeners,
        now: unix_seconds(now),
    };
    locations.change(address, now, &update, |live| {
        responder.list(&request, live, into);
    })?;
    Ok(())
}

/// Writes the responses to a REGISTER.
struct Responder<'r, 'm> {
    registration: &'r Registration<'r, 'm>,
    view: View<'r>,
}

impl Responder<'_, '_> {
    fn begin<'o>(&self, into: &'o mut Vec<u8>, status: u16, reason: &str) -> ResponseWriter<'o> {
        let response = ResponseWriter::begin(
            into,
            self.registration.request,
            self.registration.flow.remote,
            status,
            reason,
            Some(self.registration.to_tag),
        );
        match self.view.settings.server_header.as_bytes() {
            [] => response,
            server => response.header(HeaderName::Server, server),
        }
    }

    /// Step 8: writes a 200 with all bindings.
    fn list(&self, registered: &RegisterRequest<'_>, live: Live<'_>, into: &mut Vec<u8>) {
        let now = unix_seconds(self.view.now);
        let request = self.registration.request;
        let mut response = self.begin(into, 200, "OK");
        for binding in live {
            response = response.header_with(HeaderName::Contact, |into| {
                push_contact(into, &binding, now);
            });
        }
        if !registered.path.is_empty() && request.lists_token(HeaderName::Supported, b"path") {
            response = response.header(HeaderName::Path, &registered.path);
        }
        if registered.is_outbound(request) {
            response = response.header(HeaderName::Require, b"outbound");
        }
        response
            .header_with(HeaderName::Date, |into| {
                date::push_date(into, self.view.now);
            })
            .finish();
    }

    fn refuse(&self, refusal: &RegisterError, into: &mut Vec<u8>) {
        let response = self.begin(into, refusal.status(), refusal.reason());
        refusal
            .explain(response, self.view.settings.limits.retry_after)
            .finish();
    }
}

/// `<sip:…>;expires=3600;q=0.7;+sip.instance="…"`.
fn push_contact(into: &mut Vec<u8>, binding: &Binding<'_>, now: u32) {
    into.push(b'<');
    into.extend_from_slice(binding.contact);
    into.extend_from_slice(b">;expires=");
    push_number(into, binding.expires_at.saturating_sub(now));
    if binding.q < 1000 {
        into.extend_from_slice(b";q=");
        push_q(into, binding.q);
    }
    if !binding.instance.is_empty() {
        into.extend_from_slice(b";+sip.instance=");
        into.extend_from_slice(binding.instance);
    }
}

/// Writes thousandths as `0.7`, without trailing zeros.
fn push_q(into: &mut Vec<u8>, thousandths: u16) {
    into.push(b'0');
    let mut rest = thousandths % 1000;
    let mut separator = Some(b'.');
    for weight in [100, 10, 1] {
        if rest == 0 {
            break;
        }
        into.extend(separator.take());
        into.push(b'0' + (rest / weight) as u8);
        rest %= weight;
    }
}

/// Writes a number in decimal.
fn push_number(into: &mut Vec<u8>, mut number: u32) {
    let mut digits = [b'0'; 10];
    let mut used = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
        used += 1;
        if number == 0 {
            break;
        }
    }
    into.extend_from_slice(digits.get(digits.len() - used..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_q_values_are_written_short() {
        for (number, expected) in [(0, "0"), (7, "7"), (3600, "3600"), (u32::MAX, "4294967295")] {
            let mut written = Vec::new();
            push_number(&mut written, number);
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
        for (q, expected) in [
            (0, "0"),
            (700, "0.7"),
            (50, "0.05"),
            (1, "0.001"),
            (999, "0.999"),
        ] {
            let mut written = Vec::new();
            push_q(&mut written, q);
            assert_eq!(String::from_utf8(written).unwrap(), expected);
        }
    }
}
