//! `tandem lab agent`: hundreds of phones in one process, commanded by a controller over a WebSocket.
//!
//! The agent knows nothing of scenarios. It connects, sends its name and state, executes commands and reports. When the connection breaks
//! it reconnects; calls in progress continue meanwhile. The phones run on the load generator's threads ([`crate::run::Commanded`]).

mod backoff;
mod counts;
mod options;
mod player;
mod registering;
mod session;
#[cfg(test)]
mod tests;

pub use options::Arguments;
pub(crate) use options::is_name;
#[cfg(test)]
pub(crate) use session::connect;

use crate::interrupt::Signals;
use backoff::Backoff;
use player::Player;
use std::time::Duration;
use tandem_http::Token;
use tokio::runtime::Builder;

/// How long the phones may take to deregister at the end.
const LEAVING: Duration = Duration::from_secs(10);

/// Plays phones until a signal arrives, then deregisters them. `tell` receives the events of the connection.
///
/// # Errors
/// The arguments are invalid, or signal handlers cannot be installed.
pub fn run(arguments: &Arguments, tell: impl Fn(&str)) -> anyhow::Result<()> {
    let settings = arguments.settings()?;
    let name = arguments.name()?;
    let token = arguments.token_file.as_deref().map(Token::read_text);
    let token = token.transpose()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let controller = (&*arguments.controller, token.as_deref());
        let mut signals = Signals::open()?;
        let mut player = Player::new(settings, arguments.phones);
        tokio::select! {
            () = play(controller, &name, &mut player, &tell) => {}
            () = signals.next() => {}
        }
        tell("shutting down: deregistering phones; a second signal exits at once");
        tokio::select! {
            left = player.leave(LEAVING) => {
                let left = left.unwrap_or_default();
                tell(&format!("{} phones deregistered, {} failed to", left.succeeded, left.failed));
            }
            () = signals.next() => {}
        }
        Ok(())
    })
}

/// Serves the controller, over as many connections as it takes.
async fn play(
    controller: (&str, Option<&str>),
    name: &str,
    player: &mut Player,
    tell: &impl Fn(&str),
) {
    let mut backoff = Backoff::default();
    loop {
        let problem = session::run(controller, name, player, &mut backoff, tell).await;
        let pause = backoff.next();
        let seconds = pause.as_secs_f64();
        tell(&format!("{problem}; retrying in {seconds:.1} s"));
        tokio::time::sleep(pause).await;
    }
}
