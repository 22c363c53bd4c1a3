//! Reads a prefix table from a file or the database. It is replaced as a whole, or rejected as a whole with the wrong rows named.
use crate::config::{PrefixColumns, Prefixes};
use sip_routing::prefix::{BadRows, Builder, CsvReader, PrefixTable};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tandem_store::{InvalidName, PrefixSource, Store, StoreError};

/// How much of a file is read at once, in bytes.
const CHUNK: usize = 256 << 10;

/// Why a prefix table was not read.
#[derive(Debug, thiserror::Error)]
pub enum PrefixError {
    /// The file cannot be read.
    #[error("the prefixes in {} cannot be read: {error}", file.display())]
    File {
        /// As configured.
        file: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Rows are wrong.
    #[error("{place}: {rows}")]
    Rows {
        /// The file, or the table of the database.
        place: String,
        /// What the numbers of the rows count: lines of the file, or rows as the database returned them.
        counted: &'static str,
        /// The wrong rows.
        rows: BadRows,
    },
    /// A name that no table or column has.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The database.
    #[error(transparent)]
    Database(#[from] StoreError),
    /// The server stops.
    #[error("the prefixes were not read, because the server stops")]
    Stopped,
}

impl PrefixError {
    /// The error as lines for people: for wrong rows a heading, and a line for each.
    pub fn lines(&self) -> Vec<String> {
        let Self::Rows {
            place,
            counted,
            rows,
        } = self
        else {
            return vec![self.to_string()];
        };
        let each = rows.first().iter();
        let each = each.map(|row| format!("{place}, {counted} {}: {}", row.line, row.problem));
        let more = rows.count() - rows.first().len() as u64;
        let more = (more > 0).then(|| format!("{place}: {more} more are wrong"));
        each.chain(more).collect()
    }

    /// Whether a retry may succeed.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Database(error) if error.is_temporary())
    }
}

/// Reads a prefix table, whose rows may name these gateway groups. Without a source, it is empty. The tables of a Kamailio are not read
/// here, but with its gateways. The work is done on a blocking thread, except the reading of rows from the database.
///
/// # Errors
/// Why there is no table.
pub(crate) async fn read(
    prefixes: &Prefixes,
    groups: Vec<String>,
    store: &Store,
) -> Result<PrefixTable, PrefixError> {
    match prefixes {
        Prefixes::None | Prefixes::Kamailio(_) => Ok(PrefixTable::default()),
        Prefixes::File(source) => {
            let file = source.file.0.clone();
            let read = tokio::task::spawn_blocking(move || read_file(&file, &groups));
            read.await.map_err(|_| PrefixError::Stopped)?
        }
        Prefixes::Database(columns) => read_database(columns, &groups, store).await,
    }
}

/// Reads a CSV file. A million rows take about a second.
///
/// # Errors
/// Why there is no table.
pub(crate) fn read_file(path: &Path, groups: &[String]) -> Result<PrefixTable, PrefixError> {
    let failed = |error| PrefixError::File {
        file: path.to_owned(),
        error,
    };
    let mut builder = Builder::new(groups.iter().map(String::as_str));
    let mut reader = CsvReader::new();
    let mut file = File::open(path).map_err(failed)?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let length = file.read(&mut chunk).map_err(failed)?;
        let Some(read @ [_, ..]) = chunk.get(..length) else {
            break;
        };
        reader.read(read, &mut builder);
    }
    reader.finish(&mut builder);
    builder.build().map_err(|rows| PrefixError::Rows {
        place: path.display().to_string(),
        counted: "line",
        rows,
    })
}

async fn read_database(
    columns: &PrefixColumns,
    groups: &[String],
    store: &Store,
) -> Result<PrefixTable, PrefixError> {
    let callers = columns.callers_column.as_ref();
    let source = PrefixSource {
        table: columns.table.0.parse()?,
        callers: callers.map(|column| column.0.parse()).transpose()?,
        prefix: columns.prefix_column.0.parse()?,
        groups: columns.groups_column.0.parse()?,
    };
    let mut builder = Builder::new(groups.iter().map(String::as_str));
    let take = |row: &tandem_store::PrefixRow<'_>| {
        builder.row(row.number, row.callers, row.prefix, row.groups);
    };
    store.read_prefixes(&source, take).await?;
    let built = tokio::task::spawn_blocking(move || builder.build());
    let built = built.await.map_err(|_| PrefixError::Stopped)?;
    built.map_err(|rows| PrefixError::Rows {
        place: format!("table {}", source.table),
        counted: "row",
        rows,
    })
}
