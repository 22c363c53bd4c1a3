//! User commands (register, start, stop) and the messages that they send to agents; each call when it is due.

use super::connection::Outgoing;
use super::plan::{Call, Candidate, Division, Plan};
use super::protocol::{FromController, MAX_CALLS};
use super::run::{Run, Status};
use super::state::{Prepared, Refusal, State};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Delay from the start command to the first call, so that agents learn of the run first.
const LEAD: Duration = Duration::from_millis(500);

impl State {
    /// Divides a scenario among the agents and registers all its phones.
    ///
    /// # Errors
    /// A run is in progress, the agents have no room, or the scenario does not suit the division.
    pub(super) fn register(
        &mut self,
        scenario: &str,
        calls: &[Call],
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
            "{scenario}: registering {} phones of {} agents",
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
                self.gone(connection, "it has stopped reading");
            }
        }
        Ok(())
    }

    /// Starts a run of the scenario whose phones are registered. Returns its number and when its first call is due.
    ///
    /// # Errors
    /// Another run is in progress, phones are not registered, or agents still have calls.
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
                "the phones of {scenario} are not registered: register them first (again after agents connect or disconnect)"
            ));
        };
        let (registered, phones) = (self.registered(prepared), prepared.plan.phones() as u64);
        if registered < phones {
            return Err(format!(
                "only {registered} of {phones} phones are registered: wait, or check the failed registrations"
            ));
        }
        let mut connections = Vec::new();
        for (name, _) in &prepared.plan.agents {
            let Some(agent) = self.agents.get(name) else {
                return Err(format!("agent {name} has disconnected: register again"));
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
        // Avoids the run numbers of an earlier controller.
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
        self.event(format!("{scenario}: starting {} calls", plan.calls.len()));
        for connection in connections {
            self.say(connection, Outgoing::Message(message.clone()));
        }
        Ok((id, plan, started))
    }

    /// Starts no more calls, and ends all calls in progress.
    ///
    /// # Errors
    /// Nothing is in progress.
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
            self.event("registration stopped".into());
            self.prepared = None;
            let registration = self.next_number();
            self.say_all(&FromController::Register {
                registration,
                phones: Vec::new(),
                per_second: 1,
            });
        } else {
            return Err("nothing is in progress".into());
        }
        Ok(())
    }

    /// Sends due calls to their agents: those of the plan from index `from` up to `until`. Returns whether the run goes on.
    pub(super) fn dispatch(&mut self, run: u64, (from, until): (usize, usize)) -> bool {
        let current = self.run.as_ref();
        let Some(current) =
            current.filter(|current| current.id == run && current.status == Status::Running)
        else {
            return false;
        };
        let mut batches: BTreeMap<usize, Batch> = BTreeMap::new();
        for planned in current.plan.calls.get(from..until).unwrap_or_default() {
            let batch = batches.entry(planned.agent).or_default();
            batch.calls.push((planned.call.caller, planned.call.callee));
            batch.dues.push(current.started + planned.call.at);
        }
        for (agent, batch) in batches {
            let parts = batch
                .calls
                .chunks(MAX_CALLS)
                .zip(batch.dues.chunks(MAX_CALLS));
            for (calls, dues) in parts {
                self.command(run, agent, calls, dues);
            }
        }
        true
    }

    fn command(&mut self, run: u64, agent: usize, calls: &[(u32, u32)], dues: &[Instant]) {
        let batch = self.next_number();
        let Some(of) = &mut self.run else { return };
        let Some(connection) = of.connection(agent) else {
            return of.undeliverable(agent, calls.len() as u64);
        };
        of.commanded(agent, batch, dues.to_vec());
        let message = FromController::Call {
            batch,
            calls: calls.to_vec(),
        };
        let dues = dues.to_vec();
        self.say(connection, Outgoing::Calls { run, message, dues });
    }
}

/// Calls of one agent that are due together, with their due times.
#[derive(Debug, Default)]
struct Batch {
    calls: Vec<(u32, u32)>,
    dues: Vec<Instant>,
}
