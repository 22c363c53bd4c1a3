//! Aliases: addresses and numbers that lead to a subscriber.

use super::table::{Replacement, Table};

/// Aliases by `user@domain`, or by `user@` if they hold in every domain of this server.
///
/// An alias leads to a subscriber in one step. If the subscriber's own name is an alias too, that is not followed.
#[derive(Debug)]
pub struct Aliases(Table<Box<[u8]>>);

impl Aliases {
    pub(super) fn new(most: usize) -> Self {
        Self(Table::new(most))
    }

    /// Sets an alias, or removes it. An empty domain stands for all domains of this server. `subscriber` is `user@domain`. Returns false,
    /// without a change, if there is no room.
    pub fn set(&self, username: &[u8], domain: &[u8], subscriber: Option<&[u8]>) -> bool {
        self.0
            .set(&[username, b"@", domain], subscriber.map(Into::into))
    }

    /// The subscriber that an address of record is an alias of. An alias of one domain counts before one of all domains.
    pub fn find(&self, address: &[u8]) -> Option<Box<[u8]>> {
        if self.is_empty() {
            return None;
        }
        self.0.find(&[address]).or_else(|| {
            let at = address.iter().rposition(|byte| *byte == b'@')?;
            self.0.find(&[address.get(..=at)?])
        })
    }

    /// The number of aliases.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no alias.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to replace all aliases.
    pub fn replace(&self) -> Replacement<'_, Box<[u8]>> {
        self.0.replace()
    }
}

impl Replacement<'_, Box<[u8]>> {
    /// Sets an alias. See [`Aliases::set`].
    pub fn alias(&mut self, username: &[u8], domain: &[u8], subscriber: &[u8]) {
        self.set(&[username, b"@", domain], subscriber.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(aliases: &Aliases, address: &str) -> Option<String> {
        let found = aliases.find(address.as_bytes())?;
        Some(String::from_utf8_lossy(&found).into_owned())
    }

    #[test]
    fn an_alias_of_one_domain_counts_before_one_of_all_domains() {
        let aliases = Aliases::new(10);
        assert_eq!(found(&aliases, "+4930@example.org"), None);
        aliases.set(b"+4930", b"", Some(b"alice@example.org"));
        aliases.set(b"+4930", b"example.net", Some(b"bob@example.net"));
        let alice = Some("alice@example.org".to_owned());
        assert_eq!(found(&aliases, "+4930@example.org"), alice);
        let bob = Some("bob@example.net".to_owned());
        assert_eq!(found(&aliases, "+4930@example.net"), bob);
        assert_eq!(found(&aliases, "+4931@example.org"), None);
        aliases.set(b"+4930", b"", None);
        assert_eq!(found(&aliases, "+4930@example.org"), None);
        assert_eq!(aliases.len(), 1);
    }

    #[test]
    fn a_full_table_takes_no_more_and_changes_those_that_it_has() {
        let aliases = Aliases::new(1);
        assert!(aliases.set(b"1", b"", Some(b"alice@example.org")));
        assert!(!aliases.set(b"2", b"", Some(b"alice@example.org")));
        assert!(aliases.set(b"1", b"", Some(b"bob@example.org")));
        assert_eq!(found(&aliases, "1@h").as_deref(), Some("bob@example.org"));
        let mut replacement = aliases.replace();
        replacement.alias(b"1", b"", b"bob@example.org");
        replacement.alias(b"2", b"", b"bob@example.org");
        assert_eq!(replacement.finish(), 1);
    }

    #[test]
    fn a_replacement_removes_what_it_does_not_name() {
        let aliases = Aliases::new(10);
        aliases.set(b"1", b"", Some(b"alice@example.org"));
        aliases.set(b"2", b"", Some(b"alice@example.org"));
        let mut replacement = aliases.replace();
        replacement.alias(b"2", b"", b"bob@example.org");
        replacement.alias(b"3", b"", b"bob@example.org");
        assert_eq!(replacement.finish(), 0);
        let present = ["1@h", "2@h", "3@h"].map(|alias| found(&aliases, alias));
        let bob = Some("bob@example.org".to_owned());
        assert_eq!(present, [None, bob.clone(), bob]);
        assert_eq!(aliases.len(), 2);
    }
}
