//! `tandem lab controller`: tells agents what to do, by a scenario, and shows a page about it.
//!
//! Agents connect by WebSocket ([`protocol`]). A scenario is divided among them; each call is given to the agent of its caller when it is due,
//! and how late that was is measured: until the command was written, and until its confirmation was back. A run whose agents vanish, whose
//! commands were late, or whose clock jumped says so instead of giving response times.

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
const MOST_PAGES: usize = 64;
/// Bounds of its connections: agents and pages keep theirs.
const LIMITS: Limits = Limits {
    connections: 4_096,
    per_peer: 2_048,
    header_timeout: Duration::from_secs(10),
    lifetime: None,
};

/// All that the controller's tasks have in common.
#[derive(Debug)]
struct Controller {
    options: Arguments,
    scenarios: Scenarios,
    pages: Arc<Semaphore>,
    state: Mutex<State>,
}

/// Serves until the process is ended. `tell` hears where it listens, and what is missing.
///
/// # Errors
/// It cannot listen; the folder with scenarios cannot be read.
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

/// Who may use it.
fn guard(arguments: &Arguments) -> io::Result<Guard> {
    let Arguments {
        listen,
        host,
        token_file,
        ..
    } = arguments;
    if is_beyond_loopback(*listen) && token_file.is_none() {
        return Err(io::Error::other(format!(
            "--listen {listen}: other machines can reach this address: add --token-file, or listen on 127.0.0.1 or [::1]"
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

/// Opens the port and says what there is.
async fn listen(controller: &Controller, tell: &impl Fn(&str)) -> io::Result<TcpListener> {
    let Arguments {
        listen, scenarios, ..
    } = &controller.options;
    let list = controller.scenarios.list().map_err(|problem| {
        io::Error::other(format!(
            "{problem}; make it, or name another one with --scenarios"
        ))
    })?;
    let listener = TcpListener::bind(listen).await.map_err(|error| {
        io::Error::other(format!(
            "cannot listen on {listen}: {error}; stop what listens there, or take another --listen"
        ))
    })?;
    let address = listener.local_addr()?;
    let token = match controller.options.token_file {
        Some(_) => "?token=TOKEN",
        None => "",
    };
    tell(&format!(
        "http://{address}/{token} is the page; agents connect by --controller {address}"
    ));
    tell(&format!(
        "{} scenarios in {}",
        list.len(),
        scenarios.display()
    ));
    for problem in list.iter().flat_map(|entry| &entry.problems) {
        tell(&format!("cannot be run: {problem}"));
    }
    if !page::is_there() {
        tell(
            "the page was not built: `scripts/console` does it (npm), then build this program again",
        );
    }
    Ok(listener)
}

async fn serve(controller: Arc<Controller>, listener: TcpListener, guard: Guard) -> io::Result<()> {
    tokio::spawn(dispatcher::look_after(Arc::clone(&controller)));
    // Commands leave at once.
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
            pages: Arc::new(Semaphore::new(MOST_PAGES)),
            state: Mutex::default(),
        })
    }

    /// What it knows. Held for moments only.
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing is left half done by whoever panics with it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run; its number.
    fn start(
        self: &Arc<Self>,
        scenario: &str,
        ringing: Duration,
        talking: Duration,
    ) -> Result<u64, Refusal> {
        let (run, plan, started) = self.state().start(scenario, ringing, talking)?;
        dispatcher::start(self, run, plan, started).map_err(|error| {
            // Otherwise it would be under way for ever.
            let _ = self.state().stop();
            format!("no thread can be started for it: {error}")
        })?;
        Ok(run)
    }

    /// Commands of a run have been written to their agent's connection.
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
