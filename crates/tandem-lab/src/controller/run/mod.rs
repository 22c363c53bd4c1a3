//! A run: its commands and their times, the agents' reports, and whether the figures can be trusted.

mod delays;
mod doubts;
mod report;
mod timeline;

pub(super) use report::{Draft, Report};
pub(super) use timeline::Point;

use super::plan::Plan;
use super::protocol::{AgentReport, Distribution};
use delays::{Delays, add, record};
use doubts::Doubts;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use timeline::Timeline;

/// How long calls may take to end after the last one began, beyond ringing and talking: the lifetime of a transaction.
const PATIENCE: Duration = Duration::from_secs(40);
/// Maximum number of distinct failure reasons.
const MAX_REASONS: usize = 100;

/// Status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    /// Calls are being started.
    Running,
    /// All calls have started; some are still in progress.
    Ending,
    /// The run was stopped; some calls are still in progress.
    Stopping,
    /// All calls have ended.
    Ended,
}

#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: u64,
    pub(super) scenario: String,
    pub(super) plan: Arc<Plan>,
    pub(super) status: Status,
    /// When its first call is due.
    pub(super) started: Instant,
    started_by_wall: SystemTime,
    ringing: Duration,
    talking: Duration,
    /// In the order of the plan's agents.
    players: Vec<Player>,
    delays: Delays,
    timeline: Timeline,
    doubts: Doubts,
    has_jumped: bool,
    remarks: Vec<String>,
    /// When the run stopped starting calls.
    ending: Option<Instant>,
    ended: Option<Instant>,
}

/// The state of one agent in the run.
#[derive(Debug)]
struct Player {
    name: String,
    /// Its connection; `None` after it has vanished.
    connection: Option<u64>,
    commanded: u64,
    lost: u64,
    last: AgentReport,
    /// Unconfirmed commands: the number of their batch, and their due times.
    unconfirmed: VecDeque<(u64, Vec<Instant>)>,
}

/// Counts of a run, over all agents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Calls that were due, including those of vanished agents.
    pub commanded: u64,
    /// Answered with a 2xx.
    pub answered: u64,
    /// Calls that ended normally.
    pub succeeded: u64,
    /// Calls that failed.
    pub failed: u64,
    /// Failed calls by status code or reason.
    pub failures: BTreeMap<String, u64>,
    /// Calls of vanished agents: whether they began, and how they ended, is unknown.
    pub lost: u64,
    /// Calls in progress.
    pub in_progress: u64,
}

impl Run {
    /// Starts a run. Its first call is due at `started`. `connections` are those of the agents.
    pub(super) fn new(
        (id, scenario, plan): (u64, String, Arc<Plan>),
        started: Instant,
        (ringing, talking): (Duration, Duration),
        connections: &[u64],
    ) -> Self {
        let players = plan.agents.iter().zip(connections);
        let players = players.map(|((name, _), connection)| Player {
            name: name.clone(),
            connection: Some(*connection),
            commanded: 0,
            lost: 0,
            last: AgentReport::default(),
            unconfirmed: VecDeque::new(),
        });
        Self {
            id,
            scenario,
            players: players.collect(),
            plan,
            status: Status::Running,
            started,
            started_by_wall: SystemTime::now() + started.saturating_duration_since(Instant::now()),
            ringing,
            talking,
            delays: Delays::default(),
            timeline: Timeline::default(),
            doubts: Doubts::default(),
            has_jumped: false,
            remarks: Vec::new(),
            ending: None,
            ended: None,
        }
    }

    /// The connection of the agent; `None` after it has vanished.
    pub(super) fn connection(&self, agent: usize) -> Option<u64> {
        self.players.get(agent)?.connection
    }

    /// Counts calls given to their agent's connection.
    pub(super) fn commanded(&mut self, agent: usize, batch: u64, dues: Vec<Instant>) {
        if let Some(player) = self.players.get_mut(agent) {
            player.commanded += dues.len() as u64;
            player.unconfirmed.push_back((batch, dues));
        }
    }

    /// Counts due calls of a vanished agent.
    pub(super) fn undeliverable(&mut self, agent: usize, calls: u64) {
        if let Some(player) = self.players.get_mut(agent) {
            player.commanded += calls;
            player.lost += calls;
        }
    }

    /// Records the lateness of commands that were written to a connection.
    pub(super) fn written(&mut self, dues: &[Instant], at: Instant) {
        for due in dues {
            let late = at.saturating_duration_since(*due);
            record(&mut self.delays.lateness, late);
            self.delays.lateness_table.record(late);
            self.timeline.late(late);
        }
    }

    /// Records the confirmation of a batch.
    pub(super) fn confirmed(&mut self, connection: u64, batch: u64, at: Instant) {
        let Some(player) = self.player(connection) else {
            return;
        };
        // Agents confirm batches in order.
        if player.unconfirmed.front().map(|(number, _)| *number) != Some(batch) {
            return;
        }
        let Some((_, dues)) = player.unconfirmed.pop_front() else {
            return;
        };
        for due in dues {
            record(
                &mut self.delays.confirmed,
                at.saturating_duration_since(due),
            );
        }
    }

    /// Takes an agent's report.
    pub(super) fn report(&mut self, connection: u64, report: &AgentReport) {
        if report.run != Some(self.id) || self.status == Status::Ended {
            return;
        }
        let Some(player) = self.player(connection) else {
            return;
        };
        player.last = AgentReport {
            session_request_delay: Distribution::new(),
            response_delay: Distribution::new(),
            answer_delay: Distribution::new(),
            registration_delay: Distribution::new(),
            lateness: Distribution::new(),
            ..report.clone()
        };
        self.timeline.delays(&report.response_delay);
        add(
            &mut self.delays.session_request,
            &report.session_request_delay,
        );
        add(&mut self.delays.response, &report.response_delay);
        add(&mut self.delays.answer, &report.answer_delay);
        add(&mut self.delays.in_agent, &report.lateness);
    }

    /// Handles the end of an agent's connection.
    pub(super) fn vanished(&mut self, connection: u64, why: &str, at: Instant) {
        if self.status == Status::Ended {
            return;
        }
        let seconds = at.saturating_duration_since(self.started).as_secs_f64();
        let Some(player) = self.player(connection) else {
            return;
        };
        let in_progress = player.in_progress();
        player.lost += in_progress;
        player.connection = None;
        player.unconfirmed.clear();
        let name = player.name.clone();
        self.doubts.add(format!(
            "agent {name} vanished {seconds:.1} s after the start ({why}) with {in_progress} calls in progress: these and all its remaining calls are counted as lost"
        ));
    }

    /// Notes that all calls have been commanded.
    pub(super) fn all_commanded(&mut self, at: Instant) {
        if self.status == Status::Running {
            self.status = Status::Ending;
            self.ending = Some(at);
        }
    }

    /// Stops the run. Returns whether it was running.
    pub(super) fn stop(&mut self, at: Instant) -> bool {
        let is_running = matches!(self.status, Status::Running | Status::Ending);
        if is_running {
            if self.status == Status::Running {
                let seconds = at.saturating_duration_since(self.started).as_secs_f64();
                self.remarks.push(format!(
                    "stopped after {seconds:.1} s, when {} of {} calls had been commanded",
                    self.totals().commanded,
                    self.plan.calls.len()
                ));
            }
            self.status = Status::Stopping;
            self.ending = Some(at);
        }
        is_running
    }

    /// Checks whether the run has ended. Call this several times a second.
    pub(super) fn look(&mut self, now: Instant) {
        if self.status == Status::Ended || now < self.started {
            return;
        }
        let wall = SystemTime::now().duration_since(self.started_by_wall);
        let steady = now.saturating_duration_since(self.started);
        if !self.has_jumped
            && let Some(jump) = doubts::jump(steady, wall.map_err(|error| error.duration()))
        {
            self.has_jumped = true;
            self.doubts.add(jump);
        }
        let totals = self.totals();
        self.timeline.look(steady, &totals, false);
        let Some(ending) = self.ending else { return };
        let patience = self.ringing + self.talking + PATIENCE;
        let is_over = totals.in_progress == 0 && self.players.iter().all(Player::has_confirmed);
        if is_over || now.saturating_duration_since(ending) > patience {
            self.end(now, &totals);
        }
    }

    fn end(&mut self, now: Instant, totals: &Totals) {
        if totals.in_progress > 0 {
            self.doubts.add(format!(
                "{} calls did not end within {} s: their agents did not report an outcome",
                totals.in_progress,
                (self.ringing + self.talking + PATIENCE).as_secs()
            ));
        }
        for player in self
            .players
            .iter()
            .filter(|player| player.connection.is_some())
        {
            if player.last.commanded != player.commanded {
                self.doubts.add(format!(
                    "agent {} was sent {} calls but reports {}",
                    player.name, player.commanded, player.last.commanded
                ));
            }
        }
        let steady = now.saturating_duration_since(self.started);
        self.timeline.look(steady, totals, true);
        self.ended = Some(now);
        self.status = Status::Ended;
    }

    /// Counts over all agents.
    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for player in &self.players {
            let failed = player.failed();
            totals.commanded += player.commanded;
            totals.answered += player.last.answered;
            totals.succeeded += player.last.succeeded;
            totals.failed += failed;
            totals.lost += player.lost;
            totals.in_progress += player.in_progress();
            for (reason, count) in &player.last.failed {
                let is_known = totals.failures.contains_key(reason);
                let reason = if is_known || totals.failures.len() < MAX_REASONS {
                    reason
                } else {
                    "other reasons"
                };
                *totals.failures.entry(reason.to_owned()).or_default() += count;
            }
        }
        totals
    }

    pub(super) const fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    fn player(&mut self, connection: u64) -> Option<&mut Player> {
        self.players
            .iter_mut()
            .find(|player| player.connection == Some(connection))
    }
}

impl Player {
    fn failed(&self) -> u64 {
        self.last.failed.values().sum()
    }

    fn in_progress(&self) -> u64 {
        // Agents may report arbitrary numbers.
        let ended = self.last.succeeded.saturating_add(self.failed());
        self.commanded
            .saturating_sub(self.lost)
            .saturating_sub(ended)
    }

    fn has_confirmed(&self) -> bool {
        self.unconfirmed.is_empty()
    }
}
