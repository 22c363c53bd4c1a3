//! Test users: fills the database with numbered subscribers, as `tandem user import` does with those of a file.

use serde_json::{Value, json};
use tandem_http::rpc::Failure;
use tandem_store::{Existing, Imported, Store, Subscriber};
use tokio::sync::Mutex;

/// Users per transaction. A running server's saves wait for it.
const BATCH: u64 = 5_000;

/// Makes a subscriber of user name, domain and password.
pub type HashPassword = fn(String, String, &str) -> Subscriber;

/// The database of the nodes.
#[derive(Debug)]
pub struct UserDatabase {
    url: String,
    hash: HashPassword,
    /// One at a time.
    filling: Mutex<()>,
}

/// The users to add: `count` from `first` on.
#[derive(Clone, Debug)]
pub(crate) struct TestUsers {
    pub(crate) domain: String,
    /// The name with `{}` for the number, or `{:04}` for one of four digits.
    pub(crate) user: String,
    /// The password, with or without the number.
    pub(crate) password: String,
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Whether existing users get the password.
    pub(crate) replace: bool,
}

impl UserDatabase {
    /// The database at this URL.
    pub fn new(url: String, hash: HashPassword) -> Self {
        Self {
            url,
            hash,
            filling: Mutex::new(()),
        }
    }

    pub(crate) async fn add(&self, users: TestUsers) -> Result<Value, Failure> {
        let Ok(_filling) = self.filling.try_lock() else {
            return Err(Failure::refused(
                "another call adds users: try again when it is done",
            ));
        };
        let store = Store::open(&self.url).await.map_err(Failure::internal)?;
        let added = self.add_to(&store, users).await;
        store.close().await;
        added
    }

    async fn add_to(&self, store: &Store, users: TestUsers) -> Result<Value, Failure> {
        let existing = if users.replace {
            Existing::Replace
        } else {
            Existing::Keep
        };
        let mut total = [0, 0, 0];
        let mut done = 0;
        while done < users.count {
            let batch = BATCH.min(users.count - done);
            let (hash, first, users) = (self.hash, users.first + done, users.clone());
            let subscribers = tokio::task::spawn_blocking(move || users.hashed(hash, first, batch));
            let subscribers = subscribers.await.map_err(Failure::internal)?;
            let imported = store.subscribers().import(&subscribers, existing).await;
            let Imported {
                added,
                replaced,
                kept,
            } = imported.map_err(Failure::internal)?;
            let [all_added, all_replaced, all_kept] = &mut total;
            *all_added += added;
            *all_replaced += replaced;
            *all_kept += kept.len() as u64;
            done += batch;
        }
        let [added, replaced, kept] = total;
        Ok(json!({ "added": added, "replaced": replaced, "kept": kept }))
    }
}

impl TestUsers {
    fn hashed(&self, hash: HashPassword, first: u64, count: u64) -> Vec<Subscriber> {
        let user = |number| {
            let password = numbered(&self.password, number);
            hash(numbered(&self.user, number), self.domain.clone(), &password)
        };
        (first..first + count).map(user).collect()
    }

    /// What is wrong with the patterns.
    pub(crate) fn problem(&self) -> Option<String> {
        let name = numbered(&self.user, 0);
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        if numbered(&self.user, 1) == name {
            return Some(format!(
                "`user` = \"{}\": must contain {{}} or {{:04}}, which becomes the number",
                self.user
            ));
        }
        if name.len() > 64 || !name.bytes().all(is_plain) {
            return Some(format!(
                "`user` = \"{}\": must consist of letters, digits, -, _, . and +",
                self.user
            ));
        }
        let is_domain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        if self.domain.is_empty() || self.domain.len() > 253 || !self.domain.bytes().all(is_domain)
        {
            return Some(format!(
                "`domain` = \"{}\": must be a domain name in lower case",
                self.domain
            ));
        }
        if self.password.is_empty() || self.password.len() > 256 {
            return Some("`password` must have 1 to 256 characters".to_owned());
        }
        None
    }
}

/// A pattern with its number: `{}`, or `{:04}` for a number of at least four digits.
fn numbered(pattern: &str, number: u64) -> String {
    let replaced = || {
        let (before, rest) = pattern.split_once('{')?;
        let (width, after) = rest.split_once('}')?;
        let width: usize = match width {
            "" => 0,
            _ => width
                .strip_prefix(":0")?
                .parse()
                .ok()
                .filter(|width| *width <= 20)?,
        };
        Some(format!("{before}{number:0width$}{after}"))
    };
    replaced().unwrap_or_else(|| pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_the_number() {
        for (pattern, expected) in [
            ("user{}", "user42"),
            ("u{:04}x", "u0042x"),
            ("{:01}", "42"),
            ("secret", "secret"),
            ("{x}", "{x}"),
            ("{:0999}", "{:0999}"),
        ] {
            assert_eq!(numbered(pattern, 42), expected);
        }
    }

    #[test]
    fn users_that_cannot_register_are_refused() {
        let good = TestUsers {
            domain: "example.org".to_owned(),
            user: "user{}".to_owned(),
            password: "secret".to_owned(),
            first: 0,
            count: 1,
            replace: false,
        };
        assert_eq!(good.problem(), None);
        for (wrong, word) in [
            (
                TestUsers {
                    user: "user".to_owned(),
                    ..good.clone()
                },
                "`user`",
            ),
            (
                TestUsers {
                    user: "a@b{}".to_owned(),
                    ..good.clone()
                },
                "`user`",
            ),
            (
                TestUsers {
                    domain: String::new(),
                    ..good.clone()
                },
                "`domain`",
            ),
            (
                TestUsers {
                    domain: "Example.org".to_owned(),
                    ..good.clone()
                },
                "`domain`",
            ),
            (
                TestUsers {
                    password: String::new(),
                    ..good.clone()
                },
                "`password`",
            ),
        ] {
            let problem = wrong.problem().expect(word);
            assert!(problem.contains(word), "{problem}");
        }
    }
}
