//! Applies a REGISTER to the bindings of its address of record (RFC 3261 section 10.3, steps 6 and 7). It changes all
//! bindings that the request names, or none.

use super::refusal::RegisterError;
use super::register_request::{BindingAction, ContactUpdate, RegisterRequest};
use crate::location::{Binding, Change, Contacts};
use sip_message::Uri;
use sip_transport::Listener;

/// A REGISTER and the time at which it is applied, in Unix seconds.
#[derive(Debug)]
pub(super) struct Update<'w, 'r> {
    pub(super) request: &'w RegisterRequest<'r>,
    pub(super) listeners: &'w [Listener],
    pub(super) now: u32,
}

/// How a REGISTER relates to a binding that it names.
enum Order {
    /// It is newer than the binding and may change it.
    Newer,
    /// The binding already results from this request, so this is a retransmission.
    Same,
}

impl Change for Update<'_, '_> {
    type Error = RegisterError;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), RegisterError> {
        match &self.request.action {
            BindingAction::Fetch => Ok(()),
            BindingAction::EndAll => self.end_all(contacts),
            BindingAction::Contacts(updates) => {
                updates
                    .iter()
                    .try_for_each(|update| self.grant(update, contacts))?;
                self.make_room(updates, contacts)
            }
        }
    }

    fn refreshed(&self) -> Option<Binding<'_>> {
        match &self.request.action {
            BindingAction::Contacts(updates) => match updates.as_slice() {
                [update] if update.lifetime > 0 => Some(self.binding(update)),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Update<'_, '_> {
    /// Evicts bindings while there are too many contacts: first those that have lost their connection, then older ones of
    /// the same phone.
    fn make_room(
        &self,
        updates: &[ContactUpdate<'_>],
        contacts: &mut Contacts<'_>,
    ) -> Result<(), RegisterError> {
        while contacts.has_grown() && contacts.len() > self.request.max_contacts {
            let lost = |binding: &Binding<'_>| self.has_lost_connection(binding);
            let replaced = |binding: &Binding<'_>| {
                let mut instances = updates
                    .iter()
                    .map(|update| self.binding(update).instance_id());
                let id = binding.instance_id();
                !id.is_empty() && instances.any(|instance| instance == id)
            };
            let place = contacts
                .last_of_old(lost)
                .or_else(|| contacts.last_of_old(replaced));
            contacts.remove(place.ok_or(RegisterError::TooManyContacts)?);
        }
        Ok(())
    }

    /// Whether a binding was made over a connection that has ended.
    fn has_lost_connection(&self, binding: &Binding<'_>) -> bool {
        let listener = self.listeners.get(usize::from(binding.listener.0));
        listener.is_some_and(|listener| listener.protocol.is_reliable())
            && !binding.connection.is_some()
            && binding.path.is_empty()
    }

    /// Step 6.
    fn end_all(&self, contacts: &mut Contacts<'_>) -> Result<(), RegisterError> {
        for binding in contacts.iter() {
            if binding.call_id == self.request.call_id && self.request.cseq <= binding.cseq {
                return Err(RegisterError::OutOfOrder);
            }
        }
        contacts.retain(|_, _| false);
        Ok(())
    }

    /// Step 7 for one contact.
    fn grant<'s>(
        &'s self,
        update: &'s ContactUpdate<'_>,
        contacts: &mut Contacts<'s>,
    ) -> Result<(), RegisterError> {
        let position = contacts.position(|binding| is_for(update, binding));
        let Some((binding, fresh)) = position.and_then(|position| contacts.at(position)) else {
            if update.lifetime > 0 {
                contacts.add(self.binding(update));
                take_over_flow(update, contacts);
            }
            return Ok(());
        };
        // If a request names a contact twice, the last one counts, as in two requests in sequence.
        let order = if fresh {
            Order::Newer
        } else {
            self.order(update, binding)?
        };
        let position = position.unwrap_or_default();
        match order {
            Order::Same => {}
            Order::Newer if update.lifetime == 0 => contacts.remove(position),
            Order::Newer => {
                contacts.replace(position, self.binding(update));
                take_over_flow(update, contacts);
            }
        }
        Ok(())
    }

    fn order(
        &self,
        update: &ContactUpdate<'_>,
        binding: &Binding<'_>,
    ) -> Result<Order, RegisterError> {
        if binding.call_id != self.request.call_id || self.request.cseq > binding.cseq {
            return Ok(Order::Newer);
        }
        let unchanged = self.request.cseq == binding.cseq
            && update.lifetime > 0
            && update.uri == binding.contact
            && update.q == binding.q
            && *update.instance == *binding.instance
            && *self.request.path == *binding.path;
        if unchanged {
            Ok(Order::Same)
        } else {
            Err(RegisterError::OutOfOrder)
        }
    }

    fn binding<'s>(&'s self, update: &'s ContactUpdate<'_>) -> Binding<'s> {
        Binding {
            contact: update.uri,
            q: update.q,
            expires_at: self.now.saturating_add(update.lifetime),
            call_id: self.request.call_id,
            cseq: self.request.cseq,
            path: &self.request.path,
            instance: &update.instance,
            user_agent: self.request.user_agent,
            source: self.request.source,
            listener: self.request.listener,
            connection: self.request.connection,
        }
    }
}

/// Whether the update is for this binding. SIP URIs are compared by RFC 3261 section 19.1.4. For schemes without rules of
/// equality, all bytes must be equal.
fn is_for(update: &ContactUpdate<'_>, binding: &Binding<'_>) -> bool {
    if update.uri == binding.contact {
        return true;
    }
    match (Uri::parse(update.uri), Uri::parse(binding.contact)) {
        (Some(update), Some(binding)) => update.equivalent(&binding),
        _ => false,
    }
}

/// Ends the other bindings of the same flow. A flow has one contact (RFC 5626 section 6), so a phone with a new address
/// replaces its old contact.
fn take_over_flow(update: &ContactUpdate<'_>, contacts: &mut Contacts<'_>) {
    if update.names_flow {
        contacts.retain(|binding, fresh| fresh || *binding.instance != *update.instance);
    }
}
