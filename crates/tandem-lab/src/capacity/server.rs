//! The server under test, started under a limit or already running.

use super::cgroup::{CpuLimit, Group};
use crate::process::Processes;
use anyhow::{anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a started server may take to respond.
const STARTING: Duration = Duration::from_secs(60);
/// The same for a server that is already running.
const ANSWERING: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Server {
    child: Option<Child>,
    /// Process id of the server.
    process: Option<u32>,
    group: Option<Group>,
}

/// Resources that the server has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// How long the limit throttled the server.
    pub(crate) throttled: Duration,
}

impl Usage {
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }
}

impl Server {
    /// Starts the server with a shell command line, under the limit from its first instruction.
    pub(crate) fn start(command: &str, limit: Option<CpuLimit>) -> anyhow::Result<Self> {
        let group = limit.map(Group::new).transpose()?;
        let mut shell = Command::new("sh");
        match &group {
            Some(group) => shell
                .arg("-c")
                .arg(format!("echo $$ >\"$0\" && exec {command}"))
                .arg(group.entrance()),
            None => shell.arg("-c").arg(format!("exec {command}")),
        };
        // In our own process group, so that Ctrl-C ends the server as well.
        let child = shell.stdin(Stdio::null()).spawn()?;
        Ok(Self {
            process: Some(child.id()),
            child: Some(child),
            group,
        })
    }

    /// A server that is already running, with its process id if known.
    pub(crate) fn found(process: Option<u32>, limit: Option<CpuLimit>) -> anyhow::Result<Self> {
        process.map(Processes::family).transpose()?;
        let mut group = limit.map(Group::new).transpose()?;
        if let (Some(process), Some(group)) = (process, &mut group) {
            let family = Processes::family(process)?;
            for member in family.running() {
                group
                    .take(member)
                    .map_err(|error| anyhow!("--pid {process}: cannot limit it: {error}"))?;
            }
        }
        Ok(Self {
            child: None,
            process,
            group,
        })
    }

    /// Waits until the server responds.
    pub(crate) fn wait_until_ready(
        &mut self,
        at: SocketAddr,
        is_stream: bool,
    ) -> anyhow::Result<()> {
        let patience = self.child.as_ref().map_or(ANSWERING, |_| STARTING);
        let until = Instant::now() + patience;
        while !answers(at, is_stream) {
            if let Some(status) = self
                .child
                .as_mut()
                .map(Child::try_wait)
                .transpose()?
                .flatten()
            {
                bail!("the server exited before it responded ({status}); see its output above");
            }
            if Instant::now() > until {
                let seconds = patience.as_secs();
                bail!("{at} did not respond to OPTIONS within {seconds} seconds");
            }
        }
        Ok(())
    }

    pub(crate) fn usage(&self) -> anyhow::Result<Option<Usage>> {
        let Some(process) = self.process else {
            return Ok(None);
        };
        Ok(Some(Usage {
            cpu: Processes::family(process)?.cpu_time()?,
            throttled: match &self.group {
                Some(group) => group.throttled()?.time,
                None => Duration::ZERO,
            },
        }))
    }

    /// Waits until the server has finished the work of the last trial.
    pub(crate) fn wait_until_idle(&self) -> anyhow::Result<()> {
        let Some(process) = self.process else {
            sleep(Duration::from_secs(2));
            return Ok(());
        };
        Processes::family(process)?.wait_until_idle()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // After an exit, another process may have the same number.
        let runs = matches!(child.try_wait(), Ok(None));
        let family = runs
            .then(|| Processes::family(child.id()))
            .and_then(Result::ok);
        if runs {
            signal([child.id()], Signal::TERM);
        }
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(20));
        }
        // Its descendants, even if they are orphans by now.
        signal(family.iter().flat_map(Processes::running), Signal::KILL);
        let _ = child.wait();
        signal(self.group.iter().flat_map(Group::processes), Signal::KILL);
    }
}

/// Signals the processes that are still running.
fn signal(processes: impl IntoIterator<Item = u32>, signal: Signal) {
    let processes = processes.into_iter().map(u32::cast_signed);
    for process in processes.filter_map(Pid::from_raw) {
        let _ = kill_process(process, signal);
    }
}

/// Whether a response arrives within a tenth of a second.
fn answers(at: SocketAddr, is_stream: bool) -> bool {
    const MOMENT: Duration = Duration::from_millis(100);
    let asked = || -> anyhow::Result<bool> {
        if is_stream {
            return Ok(TcpStream::connect_timeout(&at, MOMENT).is_ok());
        }
        let own = if at.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(own)?;
        socket.connect(at)?;
        socket.set_read_timeout(Some(MOMENT))?;
        let own = socket.local_addr()?;
        let request = format!(
            "OPTIONS sip:{at} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-ready-{port};rport\r\nMax-Forwards: 70\r\n\
             From: <sip:lab@{own}>;tag=ready\r\nTo: <sip:{at}>\r\nCall-ID: ready-{port}@{own}\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n",
            port = own.port()
        );
        socket.send(request.as_bytes())?;
        Ok(socket.recv(&mut [0; 4096]).is_ok())
    };
    let answered = asked().unwrap_or(false);
    if !answered {
        sleep(MOMENT);
    }
    answered
}
