//! Which binding of an address of record a record is about.

use sha2::{Digest as _, Sha256};

/// The length of a [`BindingId`] in a field name.
const ID: usize = 8;
/// Separates the address of record from the identifier.
const END: u8 = 0;

/// Identifies a binding among those of its address of record: the first 64 bits of a SHA-256. Only the owner of the address could make two
/// bindings with the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BindingId(u64);

impl BindingId {
    /// The lowest identifier.
    pub const LEAST: Self = Self(0);
    /// The highest identifier.
    pub const GREATEST: Self = Self(u64::MAX);

    /// The binding of a contact URI.
    pub fn of_contact(contact: &[u8]) -> Self {
        Self::of(b"contact", contact)
    }

    /// The binding of a flow (RFC 5626): `instance` includes the `reg-id`. A new contact of the same flow replaces the old one.
    pub fn of_flow(instance: &[u8]) -> Self {
        Self::of(b"flow", instance)
    }

    fn of(kind: &[u8], value: &[u8]) -> Self {
        let digest = Sha256::new_with_prefix(kind).chain_update([END]);
        let digest: [u8; 32] = digest.chain_update(value).finalize().into();
        let first = digest.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first))
    }

    /// The name of the field with the record of this binding of `address`.
    pub fn field(self, address: &[u8]) -> Vec<u8> {
        let mut field = Vec::with_capacity(address.len() + 1 + ID);
        field.extend_from_slice(address);
        field.push(END);
        field.extend_from_slice(&self.0.to_be_bytes());
        field
    }

    /// The address of record and the binding of a field. `None` if it is not the name of such a field.
    pub fn of_field(field: &[u8]) -> Option<(&[u8], Self)> {
        let (rest, id) = field.split_last_chunk::<ID>()?;
        let (&end, address) = rest.split_last()?;
        (end == END && !address.is_empty()).then(|| (address, Self(u64::from_be_bytes(*id))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_names_an_address_and_a_binding() {
        let id = BindingId::of_contact(b"sip:a@192.0.2.1");
        let field = id.field(b"alice@example.org");
        assert_eq!(
            BindingId::of_field(&field),
            Some((&b"alice@example.org"[..], id))
        );
        for wrong in [&b"alice@example.org"[..], b"\x0012345678", b""] {
            assert_eq!(BindingId::of_field(wrong), None);
        }
    }

    #[test]
    fn a_flow_is_not_a_contact() {
        assert_ne!(BindingId::of_flow(b"x"), BindingId::of_contact(b"x"));
    }
}
