//! `tandem lab agent`: hundreds of phones in one process that do what a controller tells them over a WebSocket.
//!
//! The agent knows nothing of scenarios. It connects, says who it is and what state it is in, obeys, reports, and connects again when the
//! connection breaks; calls that are up go on meanwhile. Phones live on the load generator's threads ([`crate::run::Commanded`]).

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
use std::io;
use std::time::Duration;
use tandem_http::Token;
use tokio::runtime::Builder;

/// How long phones may take to deregister at the end.
const LEAVING: Duration = Duration::from_secs(10);

/// Plays phones until a signal ends it; then they deregister. `tell` hears what happens to the connection.
///
/// # Errors
/// The arguments make no sense, or signals cannot be received.
pub fn run(arguments: &Arguments, tell: impl Fn(&str)) -> io::Result<()> {
    let settings = arguments.settings()?;
    let name = arguments.name()?;
    let token = arguments.token_file.as_deref().map(Token::read_text);
    let token = token.transpose().map_err(io::Error::other)?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let controller = (&*arguments.controller, token.as_deref());
        let mut signals = Signals::open()?;
        let mut player = Player::new(settings, arguments.phones);
        tokio::select! {
            () = play(controller, &name, &mut player, &tell) => {}
            () = signals.next() => {}
        }
        tell("ending: phones deregister; a second signal ends at once");
        tokio::select! {
            left = player.leave(LEAVING) => {
                let left = left.unwrap_or_default();
                tell(&format!("{} phones deregistered, {} could not", left.succeeded, left.failed));
            }
            () = signals.next() => {}
        }
        Ok(())
    })
}

/// Obeys the controller, however often it goes and comes.
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
        tell(&format!("{problem}; trying again in {seconds:.1} s"));
        tokio::time::sleep(pause).await;
    }
}
