//! Why a table cannot be read.

use super::rows::RowError;
use crate::backend::Fault;
use sqlx::Error;

/// For a table or a column that is not there, or may not be read.
const CHECK_NAMES: &str = "check the configured names of the table and its columns, which are those of the database with upper and lower case, and grant its \
     user SELECT on the table";
/// For a row that cannot be right.
const BAD_ROW: &str = "correct the rows, or name a view without them";

/// The fault of an error while a table is read. `names_it` says whether an answer of the database is about the names in the statement;
/// `other` sorts the rest.
pub(crate) fn reading(
    error: Error,
    names_it: impl Fn(&dyn sqlx::error::DatabaseError) -> bool,
    other: impl Fn(Error) -> Fault,
) -> Fault {
    match &error {
        Error::Decode(problem) if problem.is::<RowError>() => Fault::Table {
            problem: problem.to_string(),
            remedy: BAD_ROW,
        },
        Error::Database(said) if names_it(&**said) => Fault::Table {
            problem: said.message().to_owned(),
            remedy: CHECK_NAMES,
        },
        _ => other(error),
    }
}
