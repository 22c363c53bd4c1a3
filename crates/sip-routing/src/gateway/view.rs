//! What operators see of a gateway.

use super::health::State;
use super::registration::RegistrationView;
use super::server::Gateway;
use super::statistics::Statistics;
use sip_transport::Time;
use sip_transport::selection::Destination;

/// A gateway at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayView<'g> {
    /// Its name.
    pub name: &'g str,
    /// Where it is.
    pub destination: &'g Destination,
    /// Its state.
    pub state: State,
    /// Consecutive misses; 0 if it is inactive.
    pub misses: u8,
    /// Consecutive answers of an inactive gateway; 0 if it is not inactive.
    pub answers: u8,
    /// The end of the rest that it asked for.
    pub rests_until: Option<Time>,
    /// When the next probe is due.
    pub next_probe: Option<Time>,
    /// Calls that hold a place.
    pub live_calls: u64,
    /// The maximum number of calls.
    pub max_calls: Option<u32>,
    /// The user name that answers its challenges.
    pub username: Option<&'g str>,
    /// Our registration there, if it requires one.
    pub registration: Option<RegistrationView<'g>>,
    /// What was counted.
    pub statistics: Statistics,
}

impl Gateway {
    /// The gateway at this moment.
    pub fn view(&self, now: Time) -> GatewayView<'_> {
        let word = self.health.word();
        let (misses, answers) = if word.is_inactive() {
            (0, word.run)
        } else {
            (word.run, 0)
        };
        GatewayView {
            name: self.name(),
            destination: self.destination(),
            state: self.state(now),
            misses,
            answers,
            rests_until: word.rests_until(now),
            next_probe: self.next_probe(),
            live_calls: self.live_calls(),
            max_calls: self.description.max_calls,
            username: self.credential().map(|it| &*it.username),
            registration: self.registration_view(now),
            statistics: self.state.calls.counters.read(),
        }
    }
}
