//! Tables and views that others have made: Tandem only reads them.
//!
//! ```text
//! PrefixSource ─────┐
//! DispatcherSource ─┴─▶ Select ─▶ Backend::rows ─▶ texts of a row ─▶ PrefixRow, DispatcherRow
//!    names                          SQL of a dialect    bounded
//! ```
//!
//! Names are those of the database, with upper and lower case, and are quoted in SQL. Every column is read as a text, so its type does not
//! matter; an absent value is an empty text. Rows are streamed, and values and the number of rows have bounds: a table with more is
//! rejected as a whole.

mod dispatcher;
mod fault;
mod name;
mod prefixes;
mod rows;
mod select;

pub use dispatcher::{DispatcherRow, DispatcherSource};
pub use name::{ColumnName, InvalidName, TableName};
pub use prefixes::{PrefixRow, PrefixSource};

pub(crate) use fault::reading;
pub(crate) use rows::{VisitRow, each_row};
pub(crate) use select::{Dialect, Select};
