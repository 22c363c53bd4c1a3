//! How a dialog is written into the store. All nodes of a fleet, of all versions, must agree on it.
//!
//! ```text
//! 1 byte    form: 1
//! 4 bytes   claim: how many nodes have claimed the dialog, 1 for the first owner
//! 1 byte    length of the name of the owner, then the name
//! 16 bytes  id of the dialog
//! 4 bytes   expiry, in seconds since the Unix epoch
//!           state of the dialog
//! ```
//! Numbers are big-endian. The scripts read the first three fields.

/// The form of records that this version writes.
const FORM: u8 = 1;

/// A dialog in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StoredDialog {
    /// The number of the claim. The owner with the highest one has the dialog.
    pub(super) claim: u32,
    /// The instance that has the dialog.
    pub(super) owner: Box<[u8]>,
    /// The id of the dialog.
    pub(super) id: u128,
    /// When the dialog ends unless it is refreshed, in seconds since the Unix epoch.
    pub(super) expires_at: u32,
    /// What [`Exchange::restore`](sip_elements::Exchange::restore) reads. Empty in news about claims.
    pub(super) state: Box<[u8]>,
}

impl StoredDialog {
    /// The record. Names of instances have less than 256 bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut record = Vec::with_capacity(26 + self.owner.len() + self.state.len());
        record.push(FORM);
        record.extend(self.claim.to_be_bytes());
        record.push(self.owner.len() as u8);
        record.extend(&*self.owner);
        record.extend(self.id.to_be_bytes());
        record.extend(self.expires_at.to_be_bytes());
        record.extend(&*self.state);
        record
    }

    /// Reads a record. `None`: this version did not write it.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let ([form], rest) = record.split_first_chunk()?;
        let (claim, rest) = rest.split_first_chunk()?;
        let ([length], rest) = rest.split_first_chunk()?;
        let (owner, rest) = rest.split_at_checked(usize::from(*length))?;
        let (id, rest) = rest.split_first_chunk()?;
        let (expires_at, state) = rest.split_first_chunk()?;
        (*form == FORM).then(|| Self {
            claim: u32::from_be_bytes(*claim),
            owner: owner.into(),
            id: u128::from_be_bytes(*id),
            expires_at: u32::from_be_bytes(*expires_at),
            state: state.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_its_form_stays() {
        let dialog = StoredDialog {
            claim: 2,
            owner: (*b"sip-1").into(),
            id: 0x0102,
            expires_at: 5,
            state: (*b"state").into(),
        };
        let record = dialog.encode();
        let expected =
            b"\x01\0\0\0\x02\x05sip-1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x02\0\0\0\x05state";
        assert_eq!(record, expected);
        assert_eq!(StoredDialog::decode(&record), Some(dialog));
        for length in 0..31 {
            assert_eq!(StoredDialog::decode(&record[..length]), None, "{length}");
        }
        assert_eq!(StoredDialog::decode(b"another program"), None);
    }
}
