//! A server stack in a process of its own. The program starts itself again and exchanges lines of JSON with it.
//!
//! ```text
//! parent                          child
//!   the cell                  ▶
//!                             ◀   its addresses, or why it has none
//!   begin                     ▶   notes its CPU time
//!                             ◀   begun
//!   end                       ▶
//!                             ◀   its counts and CPU time; ends
//! ```
//! The child exits when its input ends.

use super::Cell;
use super::side::Counts;
use crate::process::own_cpu_time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// The program to start for a separate server stack; it must call [`serve`].
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of the program.
    pub path: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

#[derive(Serialize, Deserialize)]
enum Request {
    Begin,
    End,
}

type Started = Result<Vec<SocketAddr>, String>;

#[derive(Serialize, Deserialize)]
struct Ended {
    counts: Counts,
    cpu: Duration,
}

/// The parent's end.
pub(super) struct Remote {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    addresses: Vec<SocketAddr>,
}

impl Remote {
    pub(super) fn start(cell: &Cell, program: &Program) -> io::Result<Self> {
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the server stack's process has no pipes"));
        };
        let mut remote = Self {
            child,
            input,
            output: BufReader::new(output),
            addresses: Vec::new(),
        };
        write_line(&mut remote.input, cell)?;
        remote.addresses = read_line::<Started>(&mut remote.output)?.map_err(io::Error::other)?;
        Ok(remote)
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    pub(super) fn begin(&mut self) -> io::Result<()> {
        write_line(&mut self.input, &Request::Begin)?;
        read_line(&mut self.output)
    }

    pub(super) fn end(mut self) -> io::Result<(Counts, Duration)> {
        write_line(&mut self.input, &Request::End)?;
        let Ended { counts, cpu } = read_line(&mut self.output)?;
        Ok((counts, cpu))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // The process may have exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the child, on its standard input and output.
///
/// # Errors
/// Input and output are not connected to a parent.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let cell: Cell = read_line(&mut input)?;
    sip_runtime::raise_descriptor_limit();
    let side = match super::server::start(&cell) {
        Ok(side) => side,
        Err(error) => return write_line(&mut output, &Started::Err(error.to_string())),
    };
    write_line(&mut output, &Started::Ok(side.addresses()))?;
    let mut begun = own_cpu_time();
    loop {
        match read_line(&mut input)? {
            Request::Begin => {
                begun = own_cpu_time();
                write_line(&mut output, &())?;
            }
            Request::End => {
                let cpu = own_cpu_time().saturating_sub(begun);
                let counts = side.end()?;
                return write_line(&mut output, &Ended { counts, cpu });
            }
        }
    }
}

fn write_line(into: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    into.write_all(&line)?;
    into.flush()
}

fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<T> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_str(&line)?)
}
