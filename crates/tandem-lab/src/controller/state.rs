//! State of the controller: its agents, their phones, and the run. All changes to the state are in this module.

use super::connection::{Outgoing, QUEUE};
use super::plan::Plan;
use super::protocol::{AgentReport, FromController};
use super::run::{Run, Status};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of connected agents.
const MAX_AGENTS: usize = 1_000;
/// Maximum number of events shown.
const MAX_EVENTS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct State {
    /// By name.
    pub(super) agents: BTreeMap<String, Agent>,
    pub(super) prepared: Option<Prepared>,
    /// The current or last run.
    pub(super) run: Option<Run>,
    /// Recent events, the latest last.
    pub(super) events: VecDeque<Event>,
    last_number: u64,
}

/// A connected agent.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) connection: u64,
    outgoing: Sender<Outgoing>,
    pub(super) address: SocketAddr,
    pub(super) most_phones: u32,
    pub(super) report: AgentReport,
}

/// A scenario whose phones have been told to register.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) scenario: String,
    pub(super) plan: Arc<Plan>,
    pub(super) registration: u64,
}

/// An event for the page.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Event {
    /// Milliseconds since 1970, by the wall clock.
    at_ms: u64,
    what: String,
}

/// Why a command was rejected, and what to do about it.
pub(super) type Refusal = String;

impl State {
    /// Admits an agent after its hello. Returns the number of its connection and its queue of messages.
    ///
    /// # Errors
    /// The name is in use, or there are too many agents.
    pub(super) fn admit(
        &mut self,
        name: &str,
        address: SocketAddr,
        most_phones: u32,
        report: AgentReport,
    ) -> Result<(u64, Receiver<Outgoing>), Refusal> {
        if self.agents.contains_key(name) {
            return Err(format!(
                "an agent named {name} is already connected: give each its own --name"
            ));
        }
        if self.agents.len() >= MAX_AGENTS {
            return Err(format!(
                "{MAX_AGENTS} agents are already connected, the maximum"
            ));
        }
        let (outgoing, receiver) = channel(QUEUE);
        let connection = self.next_number();
        let state = if report.in_progress > 0 {
            // This controller does not count the agent's earlier calls.
            let _ = outgoing.try_send(Outgoing::Message(FromController::Stop));
            format!(
                " with {} calls in progress, which it must end",
                report.in_progress
            )
        } else {
            String::new()
        };
        self.event(format!(
            "agent {name} connected from {}: room for {most_phones} phones{state}",
            address.ip()
        ));
        let agent = Agent {
            connection,
            outgoing,
            address,
            most_phones,
            report,
        };
        self.agents.insert(name.to_owned(), agent);
        Ok((connection, receiver))
    }

    /// Handles the end of a connection, or ends it.
    pub(super) fn gone(&mut self, connection: u64, why: &str) {
        let name = self
            .agents
            .iter()
            .find(|(_, agent)| agent.connection == connection);
        let Some(name) = name.map(|(name, _)| name.clone()) else {
            return;
        };
        self.agents.remove(&name);
        self.event(format!("agent {name} has disconnected: {why}"));
        if let Some(run) = &mut self.run {
            run.vanished(connection, why, Instant::now());
        }
        let plays = |prepared: &Prepared| {
            prepared
                .plan
                .agents
                .iter()
                .any(|(player, _)| *player == name)
        };
        if self.prepared.as_ref().is_some_and(plays) {
            self.prepared = None;
        }
    }

    /// Takes an agent's report.
    pub(super) fn report(&mut self, connection: u64, report: AgentReport) {
        let agent = self
            .agents
            .values_mut()
            .find(|agent| agent.connection == connection);
        if let Some(run) = &mut self.run {
            run.report(connection, &report);
        }
        if let Some(agent) = agent {
            agent.report = report;
        }
    }

    /// Number of phones registered for a scenario.
    pub(super) fn registered(&self, prepared: &Prepared) -> u64 {
        let reports = self.reports(prepared);
        reports.map(|report| u64::from(report.registered)).sum()
    }

    /// Failed registrations by reason.
    pub(super) fn unregistered(&self, prepared: &Prepared) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        for report in self.reports(prepared) {
            for (reason, count) in &report.unregistered {
                *reasons.entry(reason.clone()).or_default() += count;
            }
        }
        reasons
    }

    /// The agents' reports about the registration of a scenario's phones.
    pub(super) fn reports(&self, prepared: &Prepared) -> impl Iterator<Item = &AgentReport> {
        let registration = prepared.registration;
        let agents = self.agents.values();
        agents.filter_map(move |agent| {
            (agent.report.registration == Some(registration)).then_some(&agent.report)
        })
    }

    pub(super) fn check_idle(&self) -> Result<(), Refusal> {
        match &self.run {
            Some(run) if run.status != Status::Ended => Err(format!(
                "a run of {} is in progress: stop it, or wait until it ends",
                run.scenario
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn say(&mut self, connection: u64, outgoing: Outgoing) {
        let agent = self
            .agents
            .values()
            .find(|agent| agent.connection == connection);
        if agent.is_some_and(|agent| !agent.send(outgoing)) {
            self.gone(connection, "it has stopped reading");
        }
    }

    pub(super) fn say_all(&mut self, message: &FromController) {
        let connections: Vec<u64> = self.agents.values().map(|agent| agent.connection).collect();
        for connection in connections {
            self.say(connection, Outgoing::Message(message.clone()));
        }
    }

    pub(super) fn event(&mut self, what: String) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.events.push_back(Event {
            at_ms: since_epoch.unwrap_or_default().as_millis() as u64,
            what,
        });
    }

    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Agent {
    /// Sends a message to the agent. Returns whether its queue had room.
    pub(super) fn send(&self, outgoing: Outgoing) -> bool {
        self.outgoing.try_send(outgoing).is_ok()
    }
}
