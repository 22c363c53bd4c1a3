//! What is odd about the rows of a table: for each kind the number of rows and one of them, for the log.

use super::binding::Unusable as UnusableBinding;
use super::credentials::{Note, Unusable};

/// Rows of one kind.
#[derive(Debug, Default)]
struct Tally {
    count: u64,
    example: String,
}

impl Tally {
    fn add(&mut self, example: impl FnOnce() -> String) {
        if self.count == 0 {
            // Another program wrote it.
            self.example = example().escape_debug().to_string();
        }
        self.count += 1;
    }

    /// Nothing if there is no such row.
    fn line(&self, consequence: &str) -> Option<String> {
        let Self { count, example } = self;
        (*count > 0).then(|| format!("{count} {consequence} (for example {example})"))
    }
}

/// Rows of `subscriber`.
#[derive(Debug, Default)]
pub(super) struct SubscriberOddities {
    nameless: u64,
    without_password: Tally,
    bad_hashes: Tally,
    duplicates: Tally,
    contradictions: Tally,
    other_case: Tally,
    only_md5: Tally,
    only_sha256: Tally,
}

impl SubscriberOddities {
    pub(super) fn unusable(&mut self, unusable: Unusable, name: impl FnOnce() -> String) {
        match unusable {
            Unusable::NoPassword => self.without_password.add(name),
            Unusable::BadHash => self.bad_hashes.add(name),
        }
    }

    pub(super) fn nameless(&mut self) {
        self.nameless += 1;
    }

    pub(super) fn duplicate(&mut self, name: impl FnOnce() -> String) {
        self.duplicates.add(name);
    }

    pub(super) fn note(&mut self, note: Note, name: impl FnOnce() -> String) {
        match note {
            Note::Nothing => {}
            Note::Contradiction => self.contradictions.add(name),
            Note::OtherCase => self.other_case.add(name),
            Note::OnlyMd5 => self.only_md5.add(name),
            Note::OnlySha256 => self.only_sha256.add(name),
        }
    }

    /// What an operator should change.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let nameless = format!(
            "{} rows of subscriber have no username and are skipped",
            self.nameless
        );
        let lines = [
            (self.nameless > 0).then_some(nameless),
            self.without_password.line("rows of subscriber have neither a password nor a hash and are skipped: these subscribers cannot register"),
            self.bad_hashes.line("rows of subscriber have an ha1 that is neither 32 nor 64 hexadecimal digits and are skipped: these subscribers cannot register"),
            self.duplicates.line("rows of subscriber repeat a name and are skipped: the row with the lowest id counts"),
            self.contradictions.line(
                "rows of subscriber have a password that does not belong to their ha1: ha1 counts, unless database.calculate_ha1 is set, \
                 and SHA-256 does not work for them",
            ),
            self.other_case.line(
                "rows of subscriber have only a hash, and upper-case letters in their domain: the hash must be of the domain in lower case, \
                 else these subscribers cannot register",
            ),
        ];
        lines.into_iter().flatten()
    }

    /// What an operator should know.
    pub(super) fn remarks(&self) -> impl Iterator<Item = String> {
        let lines = [
            self.only_md5.line("subscribers have only an MD5 hash, so they cannot answer SHA-256: auth.algorithms must be [\"MD5\"]"),
            self.only_sha256.line("subscribers have only a SHA-256 hash, so they cannot answer MD5: auth.algorithms must be [\"SHA-256\"]"),
        ];
        lines.into_iter().flatten()
    }
}

/// Rows of `location`.
#[derive(Debug, Default)]
pub(super) struct LocationOddities {
    unreadable: Tally,
    unreachable: Tally,
}

impl LocationOddities {
    pub(super) fn unusable(&mut self, unusable: UnusableBinding, name: impl FnOnce() -> String) {
        match unusable {
            UnusableBinding::Unreadable => self.unreadable.add(name),
            UnusableBinding::Unreachable => self.unreachable.add(name),
        }
    }

    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let lines = [
            self.unreadable.line("rows of location cannot be read and are skipped"),
            self.unreachable.line(
                "rows of location are skipped, because only Kamailio reaches these phones: over a WebSocket, or at a name without a received address",
            ),
        ];
        lines.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_number_and_its_first_example() {
        let mut odd = SubscriberOddities::default();
        odd.duplicate(|| "alice@example.org".to_owned());
        odd.duplicate(|| "bob@example.org".to_owned());
        odd.nameless();
        odd.unusable(Unusable::BadHash, || "c\narol@example.org".to_owned());
        odd.note(Note::Nothing, || unreachable!("nothing is odd"));
        odd.note(Note::OnlyMd5, || "dave@example.org".to_owned());
        odd.note(Note::OtherCase, || "erin@example.org".to_owned());
        let warnings: Vec<String> = odd.warnings().collect();
        assert_eq!(warnings.len(), 4, "{warnings:?}");
        assert!(warnings[1].starts_with("1 ") && warnings[1].contains("c\\narol@example.org"));
        assert!(warnings[2].starts_with("2 ") && warnings[2].contains("alice@example.org"));
        assert!(warnings[3].starts_with("1 ") && warnings[3].contains("erin@example.org"));
        assert_eq!(odd.remarks().count(), 1);
    }
}
