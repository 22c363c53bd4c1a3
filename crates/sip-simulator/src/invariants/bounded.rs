//! Nothing grows without bound: tables stay within their limits, one message causes only few others, questions do not
//! pile up, and a worker does not wake up without end.
use crate::observe::{
    Bounds, Cause, Census, Facts, HostFacts, Invariant, Observation, Step, Violation, violation,
};
use sip_transport::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest datagram that UDP carries.
const LONGEST: usize = 65_507;
/// A worker spins if it has more idle wake-ups than this in one [`WINDOW`].
const MAX_WAKE_UPS: u32 = 1_000;
const WINDOW: Duration = Duration::from_secs(10);

/// The rule.
#[derive(Debug, Default)]
pub struct Bounded {
    /// Idle wake-ups of each worker since the start of its window.
    wake_ups: BTreeMap<(usize, usize), (Time, u32)>,
    /// The tables before the step.
    last: BTreeMap<(usize, usize), Census>,
}

impl Invariant for Bounded {
    fn name(&self) -> &'static str {
        "bounded"
    }

    fn observe(
        &mut self,
        facts: &Facts,
        now: Time,
        observation: &Observation<'_>,
    ) -> Result<(), Violation> {
        let complaint = match *observation {
            Observation::Ran {
                host,
                worker,
                step,
                census,
                outstanding,
            } => {
                let Some(facts) = facts.hosts.get(host) else {
                    return Ok(());
                };
                let bounds = &facts.bounds;
                let place = (host, worker);
                let complaint = tables(bounds, &census)
                    .or_else(|| self.batch(place, bounds, step, &census))
                    .or_else(|| questions(facts, outstanding))
                    .or_else(|| self.spins(place, now, step, &census));
                complaint.map(|what| format!("worker {worker} of host{host}: {what}"))
            }
            Observation::Bindings { host, account } => {
                let most = facts
                    .hosts
                    .get(host)
                    .map_or(u64::MAX, |host| host.bounds.bindings);
                (account.live > most)
                    .then(|| format!("host{host}: {} bindings, at most {most}", account.live))
            }
            Observation::Crashed { host } => {
                self.last.retain(|(other, _), _| *other != host);
                None
            }
            _ => None,
        };
        complaint.map_or(Ok(()), |what| Err(violation(self.name(), what, None)))
    }
}

fn tables(bounds: &Bounds, census: &Census) -> Option<String> {
    let tables = [
        ("server transactions", census.servers.live, bounds.servers),
        ("client transactions", census.clients.live, bounds.clients),
        ("response contexts", census.contexts.live, bounds.contexts),
        ("dialogs", census.dialogs.live, bounds.dialogs),
        ("parked requests", census.parked, bounds.parked),
    ];
    let full = tables.into_iter().find(|(_, live, most)| live > most);
    full.map(|(table, live, most)| format!("{live} {table}, at most {most}"))
}

/// Each parked request has one open question, and each response context may have one for a name.
fn questions(facts: &HostFacts, outstanding: usize) -> Option<String> {
    let outstanding = u64::try_from(outstanding).unwrap_or(u64::MAX);
    let names = if facts.relays {
        facts.bounds.contexts
    } else {
        0
    };
    let most = facts.bounds.parked.saturating_add(names);
    (outstanding > most).then(|| format!("{outstanding} questions wait, at most {most}"))
}

impl Bounded {
    fn batch(
        &self,
        place: (usize, usize),
        bounds: &Bounds,
        step: Step,
        census: &Census,
    ) -> Option<String> {
        let transactions = |census: &Census| census.servers.live + census.clients.live;
        let live = transactions(census);
        let last = self.last.get(&place).copied().unwrap_or_default();
        let before = transactions(&last);
        if step.longest > LONGEST {
            return Some(format!(
                "a message of {} bytes, at most {LONGEST}",
                step.longest
            ));
        }
        // Timers may make every transaction retransmit, and end every dialog. Any other event concerns one call.
        let timers = if step.cause == Cause::Deadline {
            before.max(live) + census.contexts.live + last.dialogs.live
        } else {
            0
        };
        let most = bounds.fan_out.saturating_mul(
            usize::try_from(timers)
                .unwrap_or(usize::MAX)
                .saturating_add(1),
        );
        (step.sent > most).then(|| {
            format!(
                "{} messages sent at once ({:?}), at most {most}",
                step.sent, step.cause
            )
        })
    }

    /// A wake-up is idle if nothing is sent and nothing ends. A coarse timer wheel may cause some.
    fn spins(
        &mut self,
        place: (usize, usize),
        now: Time,
        step: Step,
        census: &Census,
    ) -> Option<String> {
        let before = self.last.insert(place, *census);
        if step.cause != Cause::Deadline || step.sent > 0 || before != Some(*census) {
            return None;
        }
        let (since, count) = self.wake_ups.entry(place).or_insert((now, 0));
        if now.saturating_since(*since) > WINDOW {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        (*count > MAX_WAKE_UPS)
            .then(|| format!("woke in vain {count} times within {} s", WINDOW.as_secs()))
    }
}
