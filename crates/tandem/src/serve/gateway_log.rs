//! Logs changes of the states of gateways.
//!
//! The workers change the states, and write why into the gateway. This task compares states every second, so that no worker logs, and a
//! gateway that flaps makes no more than one line in ten seconds.
use super::upkeep::ticks;
use crate::control::{Control, Running};
use sip_routing::gateway::{Cause, Gateway, Gateways, State};
use sip_transport::Time;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// How often the states are compared.
const LOOK: Duration = Duration::from_secs(1);
/// The shortest time between two lines about a gateway.
const PAUSE: Duration = Duration::from_secs(10);
/// The maximum number of lines about gateways in one look.
const MOST: usize = 20;

/// Logs changes while the server runs.
pub(super) fn log(control: Arc<Control>, running: Arc<Running>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let (mut ticks, mut states) = (ticks(LOOK), States::default());
        loop {
            ticks.tick().await;
            let policy = running.policy.load_full();
            states.look(&policy.gateways, control.clock.now(), write);
        }
    })
}

fn write(line: Line<'_>) {
    match line {
        Line::Changed(change) => {
            let Changed {
                gateway,
                from,
                to,
                cause,
                others,
            } = change;
            let (from, to) = (from.name(), to.name());
            let because = cause.map_or("its rest is over", Cause::text);
            if to == State::Inactive.name() {
                warn!(%gateway, from, to, others, "gateway: {because}");
            } else {
                info!(%gateway, from, to, others, "gateway: {because}");
            }
        }
        Line::More(count) => warn!("{count} other gateways changed their state"),
    }
}

/// What a look found.
#[derive(Debug, PartialEq, Eq)]
enum Line<'g> {
    Changed(Changed<'g>),
    /// So many further gateways.
    More(usize),
}

/// A change of a state.
#[derive(Debug, PartialEq, Eq)]
struct Changed<'g> {
    gateway: &'g str,
    from: State,
    to: State,
    /// `None`: a rest is over.
    cause: Option<Cause>,
    /// Changes in between that have no line.
    others: u64,
}

/// What the log says about each gateway.
#[derive(Debug, Default)]
struct States(HashMap<Box<str>, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    state: State,
    /// Changes and rests until then.
    changes: u64,
    logged_at: Option<Time>,
}

impl Default for Known {
    fn default() -> Self {
        Self {
            state: State::Unprobed,
            changes: 0,
            logged_at: None,
        }
    }
}

impl States {
    /// Writes a line for each gateway whose state is another one than the log says.
    fn look(&mut self, gateways: &Gateways, now: Time, mut write: impl FnMut(Line<'_>)) {
        let mut lines = 0_usize;
        for gateway in gateways.gateways() {
            if !self.0.contains_key(gateway.name()) {
                self.0.insert(gateway.name().into(), Known::default());
            }
            let Some(known) = self.0.get_mut(gateway.name()) else {
                continue;
            };
            if let Some(change) = known.follow(gateway, now) {
                lines += 1;
                if lines <= MOST {
                    write(Line::Changed(change));
                }
            }
        }
        if lines > MOST {
            write(Line::More(lines - MOST));
        }
        if self.0.len() > gateways.gateways().len() {
            self.0.retain(|name, _| gateways.gateway(name).is_some());
        }
    }
}

impl Known {
    fn follow<'g>(&mut self, gateway: &'g Gateway, now: Time) -> Option<Changed<'g>> {
        let (state, statistics) = (gateway.state(now), gateway.view(now).statistics);
        let paused = self.logged_at.is_some_and(|at| now < at + PAUSE);
        if state == self.state || paused {
            return None;
        }
        let changes = statistics.state_changes + statistics.rests;
        // The end of a rest is no change of its own.
        let is_new = changes != self.changes;
        let change = Changed {
            gateway: gateway.name(),
            from: self.state,
            to: state,
            cause: statistics.cause.filter(|_| is_new),
            others: changes.saturating_sub(self.changes + 1),
        };
        *self = Self {
            state,
            changes,
            logged_at: Some(now),
        };
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sip_message::Uri;
    use sip_routing::gateway::{Descriptions, GatewayDescription, Outcome};
    use sip_transport::selection::Destination;

    const START: Time = Time::from_unix_seconds(1_800_000_000);

    fn gateways(names: &[String], misses: u8) -> Gateways {
        let uri = Uri::parse(b"sip:192.0.2.1").expect("a URI");
        let destination = Destination::of_uri(&uri).expect("a destination");
        let describe = |name: &String| {
            let mut gateway = GatewayDescription::new(name, destination.clone());
            gateway.health.misses = misses;
            gateway.health.answers = 1;
            gateway
        };
        let descriptions = Descriptions {
            gateways: names.iter().map(describe).collect(),
            groups: Vec::new(),
        };
        Gateways::new(descriptions, None).expect("gateways")
    }

    fn at(seconds: u64) -> Time {
        START + Duration::from_secs(seconds)
    }

    /// The lines of a look.
    fn look(states: &mut States, gateways: &Gateways, seconds: u64) -> Vec<String> {
        let mut lines = Vec::new();
        states.look(gateways, at(seconds), |line| {
            lines.push(match line {
                Line::Changed(it) => format!(
                    "{} {} {} {} {}",
                    it.gateway,
                    it.from.name(),
                    it.to.name(),
                    it.cause.map_or("over", Cause::text),
                    it.others
                ),
                Line::More(count) => format!("{count} more"),
            });
        });
        lines
    }

    #[test]
    fn each_change_has_a_line_with_its_cause() {
        let gateways = gateways(&["a".to_owned()], 1);
        let gateway = &gateways.gateways()[0];
        let mut states = States::default();
        assert_eq!(look(&mut states, &gateways, 0), [""; 0]);
        gateway.probed(Outcome::status(200), at(1));
        assert_eq!(
            look(&mut states, &gateways, 1),
            ["a unprobed active it answers OPTIONS 0"]
        );
        assert_eq!(look(&mut states, &gateways, 2), [""; 0]);
        gateway.call_ended(Outcome::TransportError, at(20));
        assert_eq!(
            look(&mut states, &gateways, 20),
            ["a active inactive calls could not be sent 0"]
        );
        gateway.probed(Outcome::status(200), at(40));
        gateway.disable(at(41));
        assert_eq!(
            look(&mut states, &gateways, 41),
            ["a inactive disabled by an operator 1"]
        );
    }

    #[test]
    fn the_end_of_a_rest_has_a_line_too() {
        let gateways = gateways(&["a".to_owned()], 2);
        let gateway = &gateways.gateways()[0];
        let mut states = States::default();
        gateway.probed(Outcome::status(200), at(0));
        look(&mut states, &gateways, 0);
        let rest = Outcome::Response {
            status: 503,
            retry_after: Some(Duration::from_secs(30)),
        };
        gateway.probed(rest, at(20));
        let line = look(&mut states, &gateways, 20);
        assert_eq!(line, ["a active resting 503 with Retry-After 0"]);
        assert_eq!(look(&mut states, &gateways, 49), [""; 0]);
        let line = look(&mut states, &gateways, 51);
        assert_eq!(line, ["a resting active over 0"]);
    }

    #[test]
    fn a_gateway_that_flaps_has_one_line_in_ten_seconds() {
        let gateways = gateways(&["a".to_owned()], 1);
        let gateway = &gateways.gateways()[0];
        let (mut states, mut lines) = (States::default(), Vec::new());
        for second in 0..100 {
            let outcome = if second % 2 == 0 {
                Outcome::Timeout
            } else {
                Outcome::status(200)
            };
            gateway.probed(outcome, at(second));
            lines.extend(look(&mut states, &gateways, second));
        }
        assert!((2..=10).contains(&lines.len()), "{lines:#?}");
        assert!(
            lines[1].ends_with(" 10") || lines[1].ends_with(" 9"),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_look_that_finds_many_changes_writes_some_and_counts_the_others() {
        let names: Vec<String> = (0..50).map(|number| format!("g{number}")).collect();
        let all = gateways(&names, 1);
        for gateway in all.gateways() {
            gateway.probed(Outcome::Timeout, START);
        }
        let mut states = States::default();
        let lines = look(&mut states, &all, 0);
        assert_eq!((lines.len(), lines[20].as_str()), (21, "30 more"));
        assert_eq!(look(&mut states, &all, 11), [""; 0]);
        let fewer = gateways(&names[..1], 1);
        look(&mut states, &fewer, 12);
        assert_eq!(states.0.len(), 1);
    }
}
