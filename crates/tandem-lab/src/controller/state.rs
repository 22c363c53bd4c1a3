//! What the controller knows: its agents, which phones they play, the run. Everything that changes it is in here.

use super::connection::{Outgoing, QUEUE};
use super::plan::{Candidate, Division, Plan};
use super::protocol::{AgentReport, FromController, MOST_CALLS};
use super::run::{Run, Status};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Agents that may be connected at a time.
const MOST_AGENTS: usize = 1_000;
/// Events that are shown.
const MOST_EVENTS: usize = 100;
/// From the command to start to the first call: agents hear of the run before.
const LEAD: Duration = Duration::from_millis(500);

/// All of it.
#[derive(Debug, Default)]
pub(super) struct State {
    /// By their names.
    pub(super) agents: BTreeMap<String, Agent>,
    pub(super) prepared: Option<Prepared>,
    /// The last one.
    pub(super) run: Option<Run>,
    /// What happened, the latest last.
    pub(super) events: VecDeque<Event>,
    last_number: u64,
}

/// An agent that is connected.
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
    registration: u64,
}

/// Something that people want to know.
#[derive(Clone, Debug, serde::Serialize)]
pub(super) struct Event {
    /// Milliseconds since 1970, by the wall clock.
    at_ms: u64,
    what: String,
}

/// Why something is not done; what to do about it.
pub(super) type Refusal = String;

impl State {
    /// An agent has said hello. The number of its connection, and what it is to be told.
    ///
    /// # Errors
    /// Its name is taken; there are too many.
    pub(super) fn admit(
        &mut self,
        name: &str,
        address: SocketAddr,
        most_phones: u32,
        report: AgentReport,
    ) -> Result<(u64, Receiver<Outgoing>), Refusal> {
        if self.agents.contains_key(name) {
            return Err(format!(
                "an agent called {name} is connected already: give each its own --name"
            ));
        }
        if self.agents.len() >= MOST_AGENTS {
            return Err(format!("{MOST_AGENTS} agents are connected already"));
        }
        let (outgoing, receiver) = channel(QUEUE);
        let connection = self.next_number();
        let state = if report.in_progress > 0 {
            // Whatever it is at, nobody here counts that.
            let _ = outgoing.try_send(Outgoing::Message(FromController::Stop));
            format!(
                " with {} calls in progress, which it is told to end",
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

    /// A connection has ended, or is to end.
    pub(super) fn gone(&mut self, connection: u64, why: &str) {
        let name = self
            .agents
            .iter()
            .find(|(_, agent)| agent.connection == connection);
        let Some(name) = name.map(|(name, _)| name.clone()) else {
            return;
        };
        self.agents.remove(&name);
        self.event(format!("agent {name} is gone: {why}"));
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

    /// An agent tells what has happened.
    pub(super) fn report(&mut self, connection: u64, report: AgentReport) {
        let agent = self
            .agents
            .values_mut()
            .find(|agent| agent.connection == connection);
        if let Some(agent) = agent {
            agent.report = report.clone();
        }
        if let Some(run) = &mut self.run {
            run.report(connection, report);
        }
    }

    /// Divides a scenario among the agents and has all its phones register.
    ///
    /// # Errors
    /// A run is under way; agents have no room; the scenario does not suit the division.
    pub(super) fn register(
        &mut self,
        scenario: &str,
        calls: &[super::plan::Call],
        division: Division,
        per_second: u32,
    ) -> Result<(), Refusal> {
        self.check_idle()?;
        let agents: Vec<Candidate> = self
            .agents
            .iter()
            .map(|(name, agent)| Candidate {
                name: name.clone(),
                most_phones: agent.most_phones,
            })
            .collect();
        let plan = Plan::new(calls, &agents, division)?;
        let registration = self.next_number();
        let share = (per_second / plan.agents.len().max(1) as u32).max(1);
        let mut told = Vec::new();
        for (name, phones) in &plan.agents {
            let message = FromController::Register {
                registration,
                phones: phones.clone(),
                per_second: share,
            };
            told.extend(
                self.agents
                    .get(name)
                    .map(|agent| (agent.connection, agent.send(Outgoing::Message(message)))),
            );
        }
        self.event(format!(
            "{scenario}: {} phones of {} agents register",
            plan.phones(),
            plan.agents.len()
        ));
        self.prepared = Some(Prepared {
            scenario: scenario.to_owned(),
            plan: Arc::new(plan),
            registration,
        });
        for (connection, is_told) in told {
            if !is_told {
                self.gone(connection, "it reads nothing any more");
            }
        }
        Ok(())
    }

    /// Begins a run of the scenario whose phones are registered. Its number, and when its first call is due.
    ///
    /// # Errors
    /// Another run is under way; phones are not registered; agents have calls.
    pub(super) fn start(
        &mut self,
        scenario: &str,
        ringing: Duration,
        talking: Duration,
    ) -> Result<(u64, Arc<Plan>, Instant), Refusal> {
        self.check_idle()?;
        let prepared = self
            .prepared
            .as_ref()
            .filter(|prepared| prepared.scenario == scenario);
        let Some(prepared) = prepared else {
            return Err(format!(
                "the phones of {scenario} are not registered: register first (again, when agents came or went)"
            ));
        };
        let (registered, phones) = (self.registered(prepared), prepared.plan.phones() as u64);
        if registered < phones {
            return Err(format!(
                "{registered} of {phones} phones are registered: wait, or see why others are not"
            ));
        }
        let mut connections = Vec::new();
        for (name, _) in &prepared.plan.agents {
            let Some(agent) = self.agents.get(name) else {
                return Err(format!("agent {name} is gone: register again"));
            };
            if agent.report.in_progress > 0 {
                return Err(format!(
                    "agent {name} still has {} calls in progress: wait until they have ended",
                    agent.report.in_progress
                ));
            }
            connections.push(agent.connection);
        }
        let plan = Arc::clone(&prepared.plan);
        // Runs of another controller before this one had other numbers.
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let before = self.run.as_ref().map_or(0, |run| run.id);
        let id = (since_epoch.unwrap_or_default().as_millis() as u64).max(before + 1);
        let started = Instant::now() + LEAD;
        let message = FromController::Begin {
            run: id,
            ringing_ms: ringing.as_millis() as u64,
            talking_ms: talking.as_millis() as u64,
        };
        self.run = Some(Run::new(
            (id, scenario.to_owned(), Arc::clone(&plan)),
            started,
            (ringing, talking),
            &connections,
        ));
        self.event(format!("{scenario}: {} calls begin", plan.calls.len()));
        for connection in connections {
            self.say(connection, Outgoing::Message(message.clone()));
        }
        Ok((id, plan, started))
    }

    /// No call begins any more, and all that are up end.
    ///
    /// # Errors
    /// Nothing is under way.
    pub(super) fn stop(&mut self) -> Result<(), Refusal> {
        let was_running = self
            .run
            .as_mut()
            .is_some_and(|run| run.stop(Instant::now()));
        let was_registering = self
            .prepared
            .as_ref()
            .is_some_and(|prepared| self.registered(prepared) < prepared.plan.phones() as u64);
        if was_running {
            self.event("stopped".into());
            self.say_all(&FromController::Stop);
        } else if was_registering {
            self.event("registering is stopped".into());
            self.prepared = None;
            let registration = self.next_number();
            self.say_all(&FromController::Register {
                registration,
                phones: Vec::new(),
                per_second: 1,
            });
        } else {
            return Err("nothing is under way".into());
        }
        Ok(())
    }

    /// Gives calls that are due to their agents: calls of a plan from place `from` on to before `until`. Whether the run goes on.
    pub(super) fn dispatch(&mut self, run: u64, (from, until): (usize, usize)) -> bool {
        let Some(of) = self
            .run
            .as_mut()
            .filter(|of| of.id == run && of.status == Status::Running)
        else {
            return false;
        };
        let plan = Arc::clone(&of.plan);
        let started = of.started;
        let mut batches: BTreeMap<usize, (Vec<(u32, u32)>, Vec<Instant>)> = BTreeMap::new();
        for planned in plan.calls.get(from..until).unwrap_or_default() {
            let (calls, dues) = batches.entry(planned.agent).or_default();
            calls.push((planned.call.caller, planned.call.callee));
            dues.push(started + planned.call.at);
        }
        let mut deaf = Vec::new();
        for (agent, (calls, dues)) in batches {
            for (calls, dues) in calls.chunks(MOST_CALLS).zip(dues.chunks(MOST_CALLS)) {
                let batch = self.next_number();
                let Some(of) = &mut self.run else {
                    return false;
                };
                let Some(connection) = of.connection(agent) else {
                    of.undeliverable(agent, calls.len() as u64);
                    continue;
                };
                of.commanded(agent, batch, dues.to_vec());
                let message = FromController::Call {
                    batch,
                    calls: calls.to_vec(),
                };
                let outgoing = Outgoing::Calls {
                    run,
                    message,
                    dues: dues.to_vec(),
                };
                let agent = self
                    .agents
                    .values()
                    .find(|agent| agent.connection == connection);
                if !agent.is_some_and(|agent| agent.send(outgoing)) {
                    deaf.push(connection);
                }
            }
        }
        for connection in deaf {
            self.gone(connection, "it reads nothing any more");
        }
        true
    }

    /// Phones that are registered for a scenario.
    pub(super) fn registered(&self, prepared: &Prepared) -> u64 {
        let reports = self.reports(prepared);
        reports.map(|report| u64::from(report.registered)).sum()
    }

    /// Registrations that have failed, by reason.
    pub(super) fn unregistered(&self, prepared: &Prepared) -> BTreeMap<String, u64> {
        let mut reasons = BTreeMap::new();
        for report in self.reports(prepared) {
            for (reason, count) in &report.unregistered {
                *reasons.entry(reason.clone()).or_default() += count;
            }
        }
        reasons
    }

    /// Reports of agents about the registration of a scenario's phones.
    pub(super) fn reports(&self, prepared: &Prepared) -> impl Iterator<Item = &AgentReport> {
        let registration = prepared.registration;
        let agents = self.agents.values();
        agents.filter_map(move |agent| {
            (agent.report.registration == Some(registration)).then_some(&agent.report)
        })
    }

    fn check_idle(&self) -> Result<(), Refusal> {
        match &self.run {
            Some(run) if run.status != Status::Ended => Err(format!(
                "a run of {} is under way: stop it, or wait for its end",
                run.scenario
            )),
            _ => Ok(()),
        }
    }

    fn say(&mut self, connection: u64, outgoing: Outgoing) {
        let agent = self
            .agents
            .values()
            .find(|agent| agent.connection == connection);
        if agent.is_some_and(|agent| !agent.send(outgoing)) {
            self.gone(connection, "it reads nothing any more");
        }
    }

    fn say_all(&mut self, message: &FromController) {
        let connections: Vec<u64> = self.agents.values().map(|agent| agent.connection).collect();
        for connection in connections {
            self.say(connection, Outgoing::Message(message.clone()));
        }
    }

    pub(super) fn event(&mut self, what: String) {
        if self.events.len() == MOST_EVENTS {
            self.events.pop_front();
        }
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.events.push_back(Event {
            at_ms: since_epoch.unwrap_or_default().as_millis() as u64,
            what,
        });
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Agent {
    /// Whether there was room for it.
    fn send(&self, outgoing: Outgoing) -> bool {
        self.outgoing.try_send(outgoing).is_ok()
    }
}
