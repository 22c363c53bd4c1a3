//! Applies a REGISTER to the bindings of its address of record (RFC 3261 section 10.3, steps 6 and 7). It changes all
//! bindings that the request names, or none.

use super::refusal::Refusal;
use super::register_request::{BindingAction, ContactUpdate, RegisterRequest};
use crate::location::{Binding, Change, Contacts};
use sip_message::Uri;
use sip_transport::Listener;

/// A REGISTER and the time at which it is applied, in Unix seconds.
#[derive(Debug)]
pub(super) struct Update<'w, 'r> {
    pub(super) wishes: &'w RegisterRequest<'r>,
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
    type Refusal = Refusal;

    fn apply<'s>(&'s self, contacts: &mut Contacts<'s>) -> Result<(), Refusal> {
        match &self.wishes.wish {
            BindingAction::Fetch => Ok(()),
            BindingAction::EndAll => self.end_all(contacts),
            BindingAction::Contacts(wishes) => {
                wishes
                    .iter()
                    .try_for_each(|wish| self.grant(wish, contacts))?;
                self.make_room(wishes, contacts)
            }
        }
    }

    fn refreshed(&self) -> Option<Binding<'_>> {
        match &self.wishes.wish {
            BindingAction::Contacts(wishes) => match wishes.as_slice() {
                [wish] if wish.lifetime > 0 => Some(self.binding(wish)),
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
        wishes: &[ContactUpdate<'_>],
        contacts: &mut Contacts<'_>,
    ) -> Result<(), Refusal> {
        while contacts.has_grown() && contacts.len() > self.wishes.max_contacts {
            let lost = |binding: &Binding<'_>| self.has_lost_connection(binding);
            let replaced = |binding: &Binding<'_>| {
                let mut instances = wishes.iter().map(|wish| self.binding(wish).instance_id());
                let id = binding.instance_id();
                !id.is_empty() && instances.any(|instance| instance == id)
            };
            let place = contacts
                .last_of_old(lost)
                .or_else(|| contacts.last_of_old(replaced));
            contacts.remove(place.ok_or(Refusal::TooManyContacts)?);
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
    fn end_all(&self, contacts: &mut Contacts<'_>) -> Result<(), Refusal> {
        for binding in contacts.iter() {
            if binding.call_id == self.wishes.call_id && self.wishes.cseq <= binding.cseq {
                return Err(Refusal::OutOfOrder);
            }
        }
        contacts.retain(|_, _| false);
        Ok(())
    }

    /// Step 7 for one contact.
    fn grant<'s>(
        &'s self,
        wish: &'s ContactUpdate<'_>,
        contacts: &mut Contacts<'s>,
    ) -> Result<(), Refusal> {
        let position = contacts.position(|binding| is_for(wish, binding));
        let Some((binding, fresh)) = position.and_then(|position| contacts.at(position)) else {
            if wish.lifetime > 0 {
                contacts.add(self.binding(wish));
                take_over_flow(wish, contacts);
            }
            return Ok(());
        };
        // If a request names a contact twice, the last one counts, as in two requests in sequence.
        let order = if fresh {
            Order::Newer
        } else {
            self.order(wish, binding)?
        };
        let position = position.unwrap_or_default();
        match order {
            Order::Same => {}
            Order::Newer if wish.lifetime == 0 => contacts.remove(position),
            Order::Newer => {
                contacts.replace(position, self.binding(wish));
                take_over_flow(wish, contacts);
            }
        }
        Ok(())
    }

    fn order(&self, wish: &ContactUpdate<'_>, binding: &Binding<'_>) -> Result<Order, Refusal> {
        if binding.call_id != self.wishes.call_id || self.wishes.cseq > binding.cseq {
            return Ok(Order::Newer);
        }
        let unchanged = self.wishes.cseq == binding.cseq
            && wish.lifetime > 0
            && wish.uri == binding.contact
            && wish.q == binding.q
            && *wish.instance == *binding.instance
            && *self.wishes.path == *binding.path;
        if unchanged {
            Ok(Order::Same)
        } else {
            Err(Refusal::OutOfOrder)
        }
    }

    fn binding<'s>(&'s self, wish: &'s ContactUpdate<'_>) -> Binding<'s> {
        Binding {
            contact: wish.uri,
            q: wish.q,
            expires_at: self.now.saturating_add(wish.lifetime),
            call_id: self.wishes.call_id,
            cseq: self.wishes.cseq,
            path: &self.wishes.path,
            instance: &wish.instance,
            user_agent: self.wishes.user_agent,
            source: self.wishes.source,
            listener: self.wishes.listener,
            connection: self.wishes.connection,
        }
    }
}

/// Whether the wish is for this binding. SIP URIs are compared by RFC 3261 section 19.1.4. For schemes without rules of
/// equality, all bytes must be equal.
fn is_for(wish: &ContactUpdate<'_>, binding: &Binding<'_>) -> bool {
    if wish.uri == binding.contact {
        return true;
    }
    match (Uri::parse(wish.uri), Uri::parse(binding.contact)) {
        (Some(wish), Some(binding)) => wish.equivalent(&binding),
        _ => false,
    }
}

/// Ends the other bindings of the same flow. A flow has one contact (RFC 5626 section 6), so a phone with a new address
/// replaces its old contact.
fn take_over_flow(wish: &ContactUpdate<'_>, contacts: &mut Contacts<'_>) {
    if wish.names_flow {
        contacts.retain(|binding, fresh| fresh || *binding.instance != *wish.instance);
    }
}
