//! Exports every sample and every message as lines of CSV or JSON.

use crate::capture::Moment;
use crate::decimal::Seconds;
use crate::message::Observed;
use crate::network::Path;
use crate::pairs::Pair;
use crate::servers::Direction;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path as FilePath, PathBuf};

/// The export files.
#[derive(Debug, Default)]
pub struct Exports {
    samples: Option<Lines>,
    messages: Option<Lines>,
}

impl Exports {
    /// Opens the requested files: CSV, or JSON lines if the name ends in `.json`, `.jsonl` or `.ndjson`.
    ///
    /// # Errors
    /// A file cannot be written, or has another extension.
    pub fn open(samples: Option<&FilePath>, messages: Option<&FilePath>) -> io::Result<Self> {
        Ok(Self {
            samples: samples.map(Lines::create).transpose()?,
            messages: messages.map(Lines::create).transpose()?,
        })
    }

    /// Writes a response time. `time` is in nanoseconds; `left`, `path` and `message` are those of the outgoing message.
    pub(crate) fn sample(
        &mut self,
        left: Moment,
        pair: &Pair,
        time: i64,
        path: &Path,
        message: &Observed<'_>,
    ) -> io::Result<()> {
        let Some(lines) = &mut self.samples else {
            return Ok(());
        };
        lines.number("frame", &left.frame);
        lines.number("time", &left.time);
        lines.number("first_frame", &pair.came.frame);
        lines.number("first_time", &pair.came.time);
        lines.number("seconds", &Seconds(time));
        lines.text("step", pair.step.name().as_bytes());
        lines.text("method", message.cseq.method.as_bytes());
        lines.number("status", &message.status.unwrap_or(0));
        lines.text("call_id", message.call_id);
        lines.number("cseq", &message.cseq.number);
        lines.path(path);
        lines.end()
    }

    /// Writes a message.
    pub(crate) fn message(
        &mut self,
        moment: Moment,
        direction: Direction,
        path: &Path,
        message: &Observed<'_>,
    ) -> io::Result<()> {
        let Some(lines) = &mut self.messages else {
            return Ok(());
        };
        lines.number("frame", &moment.frame);
        lines.number("time", &moment.time);
        lines.text("direction", direction.name().as_bytes());
        lines.number("status", &message.status.unwrap_or(0));
        lines.text("method", message.cseq.method.as_bytes());
        lines.text("call_id", message.call_id);
        lines.number("cseq", &message.cseq.number);
        lines.text("branch", message.branch);
        lines.path(path);
        lines.end()
    }

    /// Writes all buffered lines to the files.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let files = [&mut self.samples, &mut self.messages];
        files.into_iter().flatten().try_for_each(Lines::flush)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Json,
}

/// A file of lines with the same fields.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: BufWriter<File>,
    format: Format,
    /// The header line of CSV, until the first line has been written.
    names: Option<Vec<u8>>,
    /// The current line.
    line: Vec<u8>,
}

impl Lines {
    fn create(path: &FilePath) -> io::Result<Self> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        let format = match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("csv") => Format::Csv,
            Some("json" | "jsonl" | "ndjson") => Format::Json,
            _ => {
                let message = format!(
                    "{}: the name must end in .csv, or in .json, .jsonl or .ndjson for JSON lines",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        };
        let file = File::create(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            file: BufWriter::with_capacity(1 << 18, file),
            format,
            names: (format == Format::Csv).then(Vec::new),
            line: Vec::new(),
        })
    }

    fn path(&mut self, path: &Path) {
        self.text("transport", path.transport.name().as_bytes());
        self.display("source", &path.source);
        self.display("destination", &path.destination);
    }

    fn name(&mut self, name: &str) {
        let separator = if self.line.is_empty() { "" } else { "," };
        self.line.extend_from_slice(separator.as_bytes());
        match (self.format, &mut self.names) {
            (Format::Csv, Some(names)) => {
                names.extend_from_slice(separator.as_bytes());
                names.extend_from_slice(name.as_bytes());
            }
            (Format::Csv, None) => {}
            (Format::Json, _) => {
                let begin = if separator.is_empty() { "{" } else { "" };
                // Writing to a buffer cannot fail.
                let _ = write!(self.line, "{begin}\"{name}\":");
            }
        }
    }

    fn number(&mut self, name: &str, value: &dyn std::fmt::Display) {
        self.name(name);
        let _ = write!(self.line, "{value}");
    }

    /// Appends a value that needs no quotes in CSV.
    fn display(&mut self, name: &str, value: &dyn std::fmt::Display) {
        self.name(name);
        let quote = if self.format == Format::Json {
            "\""
        } else {
            ""
        };
        let _ = write!(self.line, "{quote}{value}{quote}");
    }

    /// Appends text of a peer. Invalid UTF-8 becomes replacement characters.
    fn text(&mut self, name: &str, value: &[u8]) {
        self.name(name);
        let value = String::from_utf8_lossy(value);
        match self.format {
            Format::Json => {
                let _ = serde_json::to_writer(&mut self.line, &value);
            }
            Format::Csv if value.contains([',', '"', '\r', '\n']) => {
                let _ = write!(self.line, "\"{}\"", value.replace('"', "\"\""));
            }
            Format::Csv => self.line.extend_from_slice(value.as_bytes()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.format == Format::Json {
            self.line.push(b'}');
        }
        self.line.push(b'\n');
        let mut written = Ok(());
        if let Some(mut names) = self.names.take() {
            names.push(b'\n');
            written = self.file.write_all(&names);
        }
        let written = written.and_then(|()| self.file.write_all(&self.line));
        self.line.clear();
        written.map_err(|error| cannot_write(&self.path, &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file
            .flush()
            .map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &FilePath, error: &io::Error) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("cannot write {}: {error}", path.display()),
    )
}
