//! `tandem lab controller`: commands agents according to a scenario, and serves a page about it.
//!
//! Agents connect by WebSocket ([`protocol`]). The controller divides a scenario among them and sends each call to the agent of its
//! caller when it is due. It measures how late that was: until the command was written, and until its confirmation was back. If agents
//! vanish, commands are late or the clock jumps, the run reports the reason and withholds its response times.

mod connection;
mod dispatcher;
mod options;
mod orders;
mod page;
mod plan;
pub mod protocol;
mod run;
mod scenarios;
mod state;
#[cfg(test)]
mod tests;
mod view;
mod web;

pub use options::Arguments;
pub use plan::Division;

use axum::serve::ListenerExt;
use scenarios::Scenarios;
use state::{Refusal, State};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tandem_http::{Guard, Limits, Token, is_beyond_loopback};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::Semaphore;

/// Threads: commands leave on time while pages are served.
const THREADS: usize = 2;
/// Pages that may be open at a time.
const MAX_PAGES: usize = 64;
/// Limits of its connections; those of agents and pages last.
const LIMITS: Limits = Limits {
    connections: 4_096,
    per_peer: 2_048,
    header_timeout: Duration::from_secs(10),
    lifetime: None,
};

/// State that all tasks of the controller share.
#[derive(Debug)]
struct Controller {
    options: Arguments,
    scenarios: Scenarios,
    pages: Arc<Semaphore>,
    state: Mutex<State>,
}

/// Serves until the process ends. `tell` receives the address and what is missing.
///
/// # Errors
/// The controller cannot listen, or the scenario folder cannot be read.
pub fn run(arguments: &Arguments, tell: impl Fn(&str)) -> io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let guard = guard(arguments)?;
        let controller = Controller::new(arguments.clone());
        let listener = listen(&controller, &tell).await?;
        serve(controller, listener, guard).await
    })
}

/// Access control: allowed hosts and the token.
fn guard(arguments: &Arguments) -> io::Result<Guard> {
    let Arguments {
        listen,
        host,
        token_file,
        ..
    } = arguments;
    if is_beyond_loopback(*listen) && token_file.is_none() {
        return Err(io::Error::other(format!(
            "--listen {listen}: this address is reachable from other machines: add --token-file FILE, or listen on 127.0.0.1 or [::1]"
        )));
    }
    let token = token_file.as_deref().map(Token::read).transpose();
    Ok(Guard {
        hosts: host.iter().map(|name| name.to_ascii_lowercase()).collect(),
        token: token.map_err(io::Error::other)?,
        pages: true,
        body_timeout: Duration::from_secs(60),
        ..Guard::new(web::LARGEST_SCENARIO)
    })
}

/// Opens the port and reports what is available.
async fn listen(controller: &Controller, tell: &impl Fn(&str)) -> io::Result<TcpListener> {
    let Arguments {
        listen, scenarios, ..
    } = &controller.options;
    let list = controller.scenarios.list().map_err(|problem| {
        io::Error::other(format!(
            "{problem}; create it, or name another folder with --scenarios"
        ))
    })?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        io::Error::other(format!(
            "cannot listen on {listen}: {error}; stop the program that uses it, or choose another address with --listen"
        ))
    })?;
    let address = listener.local_addr()?;
    let token = match controller.options.token_file {
        Some(_) => "?token=TOKEN",
        None => "",
    };
    tell(&format!(
        "page: http://{address}/{token}; connect agents with --controller {address}"
    ));
    tell(&format!(
        "{} scenarios in {}",
        list.len(),
        scenarios.display()
    ));
    for problem in list.iter().flat_map(|entry| &entry.problems) {
        tell(&format!("unusable scenario: {problem}"));
    }
    if !page::is_there() {
        tell(
            "the page was not built: run `scripts/console` (needs npm), then build this program again",
        );
    }
    Ok(listener)
}

async fn serve(controller: Arc<Controller>, listener: TcpListener, guard: Guard) -> io::Result<()> {
    tokio::spawn(dispatcher::look_after(Arc::clone(&controller)));
    // Send commands without delay.
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    let counts = Arc::default();
    tandem_http::serve(listener, web::router(controller), guard, LIMITS, counts).await;
    Ok(())
}

impl Controller {
    fn new(options: Arguments) -> Arc<Self> {
        Arc::new(Self {
            scenarios: Scenarios::new(options.scenarios.clone(), options.division),
            options,
            pages: Arc::new(Semaphore::new(MAX_PAGES)),
            state: Mutex::default(),
        })
    }

    /// The shared state. Hold the lock only briefly.
    fn state(&self) -> MutexGuard<'_, State> {
        // No panic leaves the state inconsistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run and returns its number.
    fn start(
        self: &Arc<Self>,
        scenario: &str,
        ringing: Duration,
        talking: Duration,
    ) -> Result<u64, Refusal> {
        let (run, plan, started) = self.state().start(scenario, ringing, talking)?;
        dispatcher::start(self, run, plan, started).map_err(|error| {
            // Otherwise the run would never end.
            let _ = self.state().stop();
            format!("cannot start a thread for the run: {error}")
        })?;
        Ok(run)
    }

    /// Notes that commands of a run have been written to an agent's connection.
    fn written(&self, run: u64, dues: &[Instant], at: Instant) {
        if let Some(current) = self
            .state()
            .run
            .as_mut()
            .filter(|current| current.id == run)
        {
            current.written(dues, at);
        }
    }
}
