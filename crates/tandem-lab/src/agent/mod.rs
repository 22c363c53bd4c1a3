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

use backoff::Backoff;
use player::Player;
use std::io;
use tokio::runtime::Builder;

/// Plays phones until the process is ended. `tell` hears what happens to the connection.
///
/// # Errors
/// The arguments make no sense.
pub fn run(arguments: &Arguments, tell: impl Fn(&str)) -> io::Result<()> {
    let settings = arguments.settings()?;
    let name = arguments.name()?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut player = Player::new(settings, arguments.phones);
        let mut backoff = Backoff::default();
        loop {
            let end = session::run(
                &arguments.controller,
                &name,
                &mut player,
                &mut backoff,
                &tell,
            );
            let problem = end.await;
            let pause = backoff.next();
            let seconds = pause.as_secs_f64();
            tell(&format!("{problem}; trying again in {seconds:.1} s"));
            tokio::time::sleep(pause).await;
        }
    })
}
