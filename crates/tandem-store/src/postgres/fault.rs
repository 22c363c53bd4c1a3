//! What the errors of PostgreSQL mean, and what to do about them.

use crate::backend::Fault;
use crate::network::{CHECK_SERVER, connection_fault};
use sqlx::Error;

const CHECK_PASSWORD: &str =
    "check user and password in database.url, and pg_hba.conf of the server";
const CREATE_DATABASE: &str =
    "create it (createdb -O USER DATABASE), or correct the name in database.url";
const GRANT: &str = "grant the user of database.url all rights on the database and its tables";
const NAME_PRIMARY: &str = "the server is a read-only standby, or its disk protects itself: name the primary server in database.url";
const CHECK_DISK: &str = "check disk and memory of the database server, and its log";
const RESTORE: &str = "see the log of the database server, and restore the database from a backup";
const CHECK_TLS: &str = "check sslmode and sslrootcert in database.url";
const RAISE_CONNECTIONS: &str =
    "raise max_connections of the database server, or lower database.connections";

/// Classifies an error by its SQLSTATE (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
pub(crate) fn fault(error: Error) -> Fault {
    match &error {
        Error::Database(said) => {
            let code = said.code().unwrap_or_default();
            sorted(&code, said.message().to_owned())
        }
        _ => connection_fault(error, CHECK_TLS),
    }
}

fn sorted(code: &str, problem: String) -> Fault {
    let refused = |problem, remedy| Fault::Refused { problem, remedy };
    let unwritable = |problem, remedy| Fault::Unwritable { problem, remedy };
    match code {
        // A lock was not granted in time, a deadlock, a statement took too long.
        "55P03" | "40001" | "40P01" | "57014" => Fault::Busy,
        "XX001" | "XX002" => Fault::Corrupt {
            problem,
            remedy: RESTORE,
        },
        "28000" | "28P01" => refused(problem, CHECK_PASSWORD),
        "3D000" => refused(problem, CREATE_DATABASE),
        "42501" => refused(problem, GRANT),
        "25006" => unwritable(problem, NAME_PRIMARY),
        "53100" | "53200" | "58030" => unwritable(problem, CHECK_DISK),
        "53300" => Fault::Away {
            problem,
            remedy: RAISE_CONNECTIONS,
        },
        // Class 08: the connection; class 57P: the server stops, starts or has crashed; 25P03: a transaction waited for too long.
        code if code.starts_with("08") || code.starts_with("57P") || code == "25P03" => {
            Fault::Away {
                problem,
                remedy: CHECK_SERVER,
            }
        }
        code => Fault::Other {
            problem: format!("{problem} (SQLSTATE {code})"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreError;

    #[test]
    fn errors_are_sorted_by_whose_fault_they_are() {
        for (code, expected) in [
            ("40P01", "busy"),
            ("55P03", "busy"),
            ("XX001", "damaged"),
            ("28P01", "cannot open"),
            ("3D000", "cannot open"),
            ("42501", "cannot open"),
            ("25006", "cannot write"),
            ("53100", "cannot write"),
            ("53300", "cannot reach"),
            ("57P01", "cannot reach"),
            ("08006", "cannot reach"),
            ("42P01", "could not work"),
        ] {
            let error = StoreError::new("postgres://db/t", "work", sorted(code, "said".to_owned()));
            let message = error.to_string();
            assert!(message.contains(expected), "{code}: {message}");
            let retry = matches!(expected, "busy" | "cannot reach");
            assert_eq!(error.is_temporary(), retry, "{code}");
        }
    }
}
