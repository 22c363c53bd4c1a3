//! What the errors of MySQL and MariaDB mean, and what to do about them.

use crate::backend::Fault;
use crate::network::{CHECK_SERVER, connection_fault};
use sqlx::Error;
use sqlx::mysql::MySqlDatabaseError;

const CHECK_PASSWORD: &str = "check user and password in database.url, and the user's host and rights on the server (CREATE USER, GRANT)";
const CREATE_DATABASE: &str =
    "create it (CREATE DATABASE), or correct the name in database.url; the user needs rights on it";
const GRANT: &str = "grant the user of database.url all rights on the database";
const NAME_PRIMARY: &str =
    "the server is read-only, as a replica is: name the primary server in database.url";
const CHECK_DISK: &str = "check the disk of the database server, and its log";
const RESTORE: &str = "see the log of the database server, and restore the database from a backup";
const CHECK_TLS: &str = "check ssl-mode and ssl-ca in database.url";
const RAISE_CONNECTIONS: &str =
    "raise max_connections of the database server, or lower database.connections";

/// Classifies an error by its number (<https://mariadb.com/kb/en/mariadb-error-code-reference/>).
pub(crate) fn fault(error: Error) -> Fault {
    match &error {
        Error::Database(said) => {
            let number = said
                .try_downcast_ref::<MySqlDatabaseError>()
                .map_or(0, MySqlDatabaseError::number);
            sorted(number, said.message().to_owned())
        }
        _ => connection_fault(error, CHECK_TLS),
    }
}

fn sorted(number: u16, problem: String) -> Fault {
    let refused = |problem, remedy| Fault::Refused { problem, remedy };
    let unwritable = |problem, remedy| Fault::Unwritable { problem, remedy };
    let away = |problem, remedy| Fault::Away { problem, remedy };
    match number {
        // A lock was not granted in time, a deadlock, a statement took too long.
        1205 | 1213 | 1969 | 3024 => Fault::Busy,
        1034 | 1194 | 1195 | 1712 => Fault::Corrupt {
            problem,
            remedy: RESTORE,
        },
        1045 | 1130 | 1698 => refused(problem, CHECK_PASSWORD),
        1044 | 1049 => refused(problem, CREATE_DATABASE),
        1142 | 1143 | 1227 => refused(problem, GRANT),
        1290 | 1792 | 1836 => unwritable(problem, NAME_PRIMARY),
        1021 | 1026 | 1030 | 1114 => unwritable(problem, CHECK_DISK),
        1040 | 1203 | 1226 => away(problem, RAISE_CONNECTIONS),
        // The server stops, or it has ended the session.
        1053 | 1077..=1080 | 1158..=1161 | 1317 | 1927 => away(problem, CHECK_SERVER),
        number => Fault::Other {
            problem: format!("{problem} (error {number})"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;

    #[test]
    fn errors_are_sorted_by_whose_fault_they_are() {
        for (number, expected) in [
            (1205, "busy"),
            (1213, "busy"),
            (1034, "damaged"),
            (1045, "cannot open"),
            (1049, "cannot open"),
            (1142, "cannot open"),
            (1290, "cannot write"),
            (1114, "cannot write"),
            (1040, "cannot reach"),
            (1053, "cannot reach"),
            (1146, "could not work"),
        ] {
            let fault = sorted(number, "said".to_owned());
            let error = StoreError::new("mysql://db/t", "work", fault);
            let message = error.to_string();
            assert!(message.contains(expected), "{number}: {message}");
            let retry = matches!(expected, "busy" | "cannot reach");
            assert_eq!(error.is_temporary(), retry, "{number}");
        }
    }
}
