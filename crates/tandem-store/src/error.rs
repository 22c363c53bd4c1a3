//! Errors of the store, classified by whose fault they are. Each message says what is wrong, where, and how to fix it.
//!
//! A `remedy` is the part of the message that says how to fix it, where that depends on the database.

use crate::backend::Fault;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The configured URL can't be used.
    #[error("invalid database URL \"{url}\": {problem}; write it as {form}")]
    Url {
        /// As configured, without secrets.
        url: String,
        /// What is wrong with it.
        problem: String,
        /// The right form.
        form: &'static str,
    },
    /// The database can't be opened or created: a missing directory, missing permissions, a wrong password.
    #[error("cannot open the database {url}: {problem}; {remedy}")]
    Open {
        /// As configured.
        url: String,
        /// The message of the operating system or the database.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The database does not exist and must not be created.
    #[error("the database {url} does not exist: {problem}; {remedy}")]
    NoDatabase {
        /// As configured.
        url: String,
        /// Where the store looked for it.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The file is damaged, or is not a database.
    #[error("the database {url} is damaged or not a database: {problem}; {remedy}")]
    Corrupt {
        /// As configured.
        url: String,
        /// The message of the database.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The tables belong to another program or another version.
    #[error("the database {url} does not match this version of tandem: {problem}; {remedy}")]
    Schema {
        /// As configured.
        url: String,
        /// What does not match.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Another process acts as this node on the database. Nothing was written.
    #[error(
        "another server uses the database {url}: {problem}; stop that server, or give this one a name (node.name) or a database (database.url) of its own"
    )]
    InUse {
        /// As configured.
        url: String,
        /// Who holds the name of the node.
        problem: String,
    },
    /// The database no longer has the reservation of this server's name. Nothing was written.
    #[error(
        "the node name of this server is not reserved in the database {url}: another server has taken it, or table node_epoch was changed; \
         the server reserves it again, but if another one has it, stop one of them"
    )]
    NameTaken {
        /// As configured.
        url: String,
    },
    /// Another process or connection held the database for longer than the timeout. A retry helps.
    #[error(
        "the database {url} is busy: another program holds it locked for too long; retry, and look for programs that keep it open"
    )]
    Busy {
        /// As configured.
        url: String,
    },
    /// The server of the database does not answer. A retry helps when it is back.
    #[error("cannot reach the database {url}: {problem}; {remedy}")]
    Away {
        /// As configured, without secrets.
        url: String,
        /// The message of the operating system or the database.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The database can be read, but not written: full disk, read-only file system, I/O error.
    #[error("cannot write to the database {url}: {problem}; {remedy}")]
    Unwritable {
        /// As configured.
        url: String,
        /// The message of the database.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The subscriber to add already exists.
    #[error("{address} already exists")]
    Exists {
        /// `username@domain`.
        address: String,
    },
    /// The subscriber to change does not exist.
    #[error("no such subscriber: {address}")]
    Missing {
        /// `username@domain`.
        address: String,
    },
    /// The operating system gave no random numbers.
    #[error(
        "cannot get random numbers from the operating system: {problem}; the server does not start, because nonces would not be secure"
    )]
    Random {
        /// The message of the operating system.
        problem: String,
    },
    /// A table or view that others have made can't be read: a wrong name, a missing right, a row that cannot be right.
    #[error("cannot read the table {table} of the database {url}: {problem}; {remedy}")]
    Table {
        /// As configured.
        url: String,
        /// As configured.
        table: String,
        /// The message of the database, or what is wrong with a row.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A statement failed for any other reason: a bug of this program, or tables that were changed by hand.
    #[error("could not {doing} in the database {url}: {problem}")]
    Query {
        /// As configured.
        url: String,
        /// The operation that failed.
        doing: &'static str,
        /// The message of the database.
        problem: String,
    },
}

impl StoreError {
    /// Whether a retry of the same call may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Away { .. })
    }

    /// The error of an operation on an open database.
    pub(crate) fn new(url: &str, doing: &'static str, fault: Fault) -> Self {
        let url = url.to_owned();
        match fault {
            Fault::Busy => Self::Busy { url },
            Fault::Away { problem, remedy } => Self::Away {
                url,
                problem,
                remedy,
            },
            Fault::Refused { problem, remedy } => Self::Open {
                url,
                problem,
                remedy,
            },
            Fault::Corrupt { problem, remedy } => Self::Corrupt {
                url,
                problem,
                remedy,
            },
            Fault::Unwritable { problem, remedy } => Self::Unwritable {
                url,
                problem,
                remedy,
            },
            Fault::NameTaken => Self::NameTaken { url },
            Fault::Table { problem, .. } | Fault::Other { problem } => Self::Query {
                url,
                doing,
                problem,
            },
        }
    }
}
