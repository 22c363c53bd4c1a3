//! Database URLs: which database one names, and how it is shown. A URL may contain a password, which no message and no log may repeat.

use crate::error::StoreError;
use crate::{mysql, postgres, sqlite};

/// How to write a URL.
const URL_FORM: &str = "sqlite:FILE, postgres://USER:PASSWORD@HOST/DATABASE or mysql://USER:PASSWORD@HOST/DATABASE, for example sqlite:tandem.db";
/// Parameters of a URL that a message may repeat.
const SHOWN_PARAMETERS: [&str; 7] = [
    "host", "port", "dbname", "user", "socket", "sslmode", "ssl-mode",
];

/// A database that Tandem can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// The kind of database that a URL names.
///
/// # Errors
/// [`StoreError::Url`].
pub(crate) fn kind(url: &str) -> Result<Kind, StoreError> {
    let Some((scheme, _)) = url.split_once(':') else {
        return Err(refused(url, "it has no scheme", URL_FORM));
    };
    match &*scheme.to_ascii_lowercase() {
        "sqlite" => Ok(Kind::Sqlite),
        "postgres" | "postgresql" => Ok(Kind::Postgres),
        "mysql" | "mariadb" => Ok(Kind::MySql),
        _ => Err(refused(
            url,
            "only SQLite, PostgreSQL and MySQL or MariaDB are supported",
            URL_FORM,
        )),
    }
}

/// Checks the form of a database URL without opening the database.
///
/// # Errors
/// [`StoreError::Url`], which does not repeat a password.
pub fn check_url(url: &str) -> Result<(), StoreError> {
    match kind(url)? {
        Kind::Sqlite => sqlite::path_of(url).map(drop),
        Kind::Postgres => postgres::connect_options(url).map(drop),
        Kind::MySql => mysql::connect_options(url).map(drop),
    }
}

/// A database URL as messages show it: without the password, and with those parameters only that cannot contain one.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // `sqlite:FILE`, or something unusable, which may be a secret in the wrong place.
        return match url.split_once(':') {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("sqlite") => format!("{scheme}:…"),
            _ => url.to_owned(),
        };
    };
    if scheme.eq_ignore_ascii_case("sqlite") {
        return url.to_owned();
    }
    // Nothing before the last @ is shown except the user: the password may contain any character, although it should be escaped.
    let (user, place) = match rest.rsplit_once('@') {
        // An @ behind the place is part of a parameter, which may be the password.
        Some((user, place)) => {
            let user = user.split(':').next().unwrap_or_default();
            if user.contains(['/', '?']) {
                return format!("{scheme}://…");
            }
            (Some(user), place)
        }
        None => (None, rest),
    };
    let user = user.filter(|user| !user.is_empty());
    let user = user.map(|user| format!("{user}@")).unwrap_or_default();
    let (place, query) = place.split_once('?').unwrap_or((place, ""));
    let parameters: Vec<&str> = parameters(query)
        .filter(|(key, _)| SHOWN_PARAMETERS.contains(key))
        .map(|(_, pair)| pair)
        .collect();
    let mark = if parameters.is_empty() { "" } else { "?" };
    format!("{scheme}://{user}{place}{mark}{}", parameters.join("&"))
}

/// Checks what the URLs of all database servers have in common: only these parameters, and a database.
pub(crate) fn check_server_url(
    url: &str,
    known: &[&str],
    form: &'static str,
) -> Result<(), StoreError> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    for (key, _) in parameters(query) {
        if !known.contains(&key) {
            // A password with a question mark makes the rest of it look like a parameter.
            let named = if query.contains('@') { "" } else { key };
            let problem = format!(
                "unknown parameter \"{named}\" (known: {})",
                known.join(", ")
            );
            return Err(refused(url, &problem, form));
        }
    }
    let rest = place.split_once("://").map(|(_, rest)| rest);
    let database = rest.and_then(|rest| rest.split_once('/'));
    let named = database.is_some_and(|(_, name)| !name.is_empty());
    if named || parameters(query).any(|(key, _)| key == "dbname") {
        return Ok(());
    }
    Err(refused(url, "it names no database", form))
}

/// The error about a URL that can't be used.
pub(crate) fn refused(url: &str, problem: &str, form: &'static str) -> StoreError {
    StoreError::Url {
        url: shown_url(url),
        problem: problem.to_owned(),
        form,
    }
}

/// The parameters of a query, each as key and as pair.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| (pair.split('=').next().unwrap_or(pair), pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_password() {
        for (url, shown) in [
            ("sqlite:tandem.db", "sqlite:tandem.db"),
            ("tandem.db", "tandem.db"),
            ("oracle:secret", "oracle:…"),
            ("postgres://tandem@db/t", "postgres://tandem@db/t"),
            (
                "postgres://tandem:secret@db:5433/t",
                "postgres://tandem@db:5433/t",
            ),
            ("mysql://tandem:sec:r@et@db/t", "mysql://tandem@db/t"),
            ("redis://:secret@cache:6379/0", "redis://cache:6379/0"),
            (
                "redis+unix:///run/r.sock?pass=secret",
                "redis+unix:///run/r.sock",
            ),
            ("redis+unix:///run/r.sock?pass=s@cret", "redis+unix://…"),
            ("postgres://tandem:sec/r?et@db/t", "postgres://tandem@db/t"),
            ("postgres://db/t?user=tandem&password=p@ss", "postgres://…"),
            (
                "postgres:///t?host=/run/postgresql&password=p:w@ss",
                "postgres://…",
            ),
            (
                "postgres://db/t?sslmode=require&password=secret&user=tandem",
                "postgres://db/t?sslmode=require&user=tandem",
            ),
            (
                "mysql://tandem:secret@localhost/t?socket=/run/m.sock",
                "mysql://tandem@localhost/t?socket=/run/m.sock",
            ),
        ] {
            assert_eq!(shown_url(url), shown, "{url}");
        }
    }

    #[test]
    fn a_url_is_checked_without_its_database() {
        for url in [
            "sqlite:tandem.db",
            "postgres://tandem:a%40b@db.example.org:5433/tandem?sslmode=verify-full",
            "postgresql:///tandem?host=/run/postgresql&user=tandem",
            "mysql://tandem@[2001:db8::1]/tandem",
            "mariadb://tandem@localhost/tandem?socket=/run/mysqld/mysqld.sock",
        ] {
            assert!(check_url(url).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_url_that_is_refused_is_explained_without_its_password() {
        for (url, reason) in [
            ("tandem.db", "no scheme"),
            ("oracle://tandem:secret@db/t", "only SQLite, PostgreSQL"),
            ("postgres://tandem:secret@db", "names no database"),
            ("mysql://tandem:secret@db/", "names no database"),
            ("postgres://tandem:secret@db:x/t", "invalid port number"),
            (
                "mysql://tandem:secret@db/t?sslmode=require",
                "unknown parameter \"sslmode\"",
            ),
            ("postgres://tandem:secret@db/t?sslmode=yes", "ssl_mode"),
            ("postgres:secret", "names no database"),
        ] {
            let message = check_url(url).expect_err(url).to_string();
            assert!(message.contains(reason), "{url}: {message}");
            assert!(!message.contains("secret"), "{url}: {message}");
        }
    }
}
