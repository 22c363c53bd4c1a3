//! An open database: the backend that its URL selects, and the URL for error messages.

use crate::backend::{Backend, Commits, Fault, IfMissing, Opened};
use crate::error::StoreError;
use crate::sqlite;
use std::sync::Arc;

/// How to write a database URL.
const URL_FORM: &str = sqlite::URL_FORM;

/// A backend and its URL. Clones share the connections.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub backend: Arc<dyn Backend>,
    pub url: Arc<str>,
}

impl Database {
    /// Opens the database that the URL names and brings its tables up to date. Returns whether it was created, too.
    pub(crate) async fn open(
        url: &str,
        if_missing: IfMissing,
        commits: Commits,
    ) -> Result<(Self, bool), StoreError> {
        let refused = |shown: &str, problem: &str| StoreError::Url {
            url: shown.to_owned(),
            problem: problem.to_owned(),
            form: URL_FORM,
        };
        let Some((scheme, _)) = url.split_once(':') else {
            return Err(refused(url, "it has no scheme"));
        };
        let opened = match &*scheme.to_ascii_lowercase() {
            "sqlite" => sqlite::open(url, if_missing, commits).await,
            // The rest may contain a password, so the error must not repeat it.
            _ => Err(refused(
                &format!("{scheme}:…"),
                "this version supports only SQLite",
            )),
        };
        let Opened { backend, created } = opened?;
        let url = url.into();
        Ok((Self { backend, url }, created))
    }

    /// Adds to a fault where it happened and what the store was doing.
    pub(crate) fn failed(&self, doing: &'static str) -> impl Fn(Fault) -> StoreError {
        move |fault| StoreError::new(&self.url, doing, fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        Database::open(url, IfMissing::Fail, Commits::Written)
            .await
            .expect_err(url)
            .to_string()
    }

    #[tokio::test]
    async fn a_url_of_no_known_database_is_refused_with_the_reason_and_the_right_form() {
        for (url, reason) in [
            ("tandem.db", "no scheme"),
            ("postgres://u:secret@h/db", "only SQLite"),
        ] {
            let message = refusal(url).await;
            assert!(message.contains(reason), "{url}: {message}");
            assert!(message.contains("sqlite:tandem.db"), "{url}: {message}");
        }
    }

    #[tokio::test]
    async fn a_password_in_a_url_is_not_repeated() {
        let message = refusal("mysql://tandem:secret@db/tandem").await;
        assert!(!message.contains("secret"), "{message}");
    }
}
