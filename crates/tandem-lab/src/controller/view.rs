//! The state that the page shows.

use super::Controller;
use super::plan::Division;
use super::run::{Draft, Point, Report, Status};
use super::state::{Event, Prepared, State};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// The state, without the scenarios.
#[derive(Debug, Serialize)]
pub(super) struct View {
    version: &'static str,
    division: Division,
    /// Defaults of the page's fields.
    ringing_ms: u64,
    talking_ms: u64,
    phase: Phase,
    agents: Vec<AgentView>,
    prepared: Option<PreparedView>,
    run: Option<Report>,
    /// Index of the first point below.
    points_from: usize,
    points: Vec<Point>,
    events: Vec<Event>,
}

/// What the controller is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Idle,
    /// Phones are registering.
    Registering,
    /// All registrations have ended, some of them rejected.
    Incomplete,
    /// All phones are registered.
    Registered,
    /// Calls are being started.
    Running,
    /// Calls are ending.
    Ending,
}

#[derive(Debug, Serialize)]
struct AgentView {
    name: String,
    address: String,
    most_phones: u32,
    /// In the prepared scenario.
    phones: usize,
    registered: u32,
    in_progress: u64,
}

#[derive(Debug, Serialize)]
struct PreparedView {
    scenario: String,
    phones: usize,
    registered: u64,
    /// Failed registrations by reason.
    unregistered: BTreeMap<String, u64>,
}

impl View {
    /// The current state. It includes the points of the run `run` from index `from` on, or all points if the run is another one.
    pub(super) fn new(controller: &Controller, (run, from): (u64, usize)) -> Self {
        let (mut view, draft) = Self::draft(controller, (run, from));
        view.run = draft.map(Draft::finish);
        view
    }

    /// All but the run's figures: computing them takes a while, and must not hold the lock.
    fn draft(controller: &Controller, (run, from): (u64, usize)) -> (Self, Option<Draft>) {
        let state = controller.state();
        let current = state.run.as_ref();
        let is_known = current.is_some_and(|current| current.id == run);
        let from = if is_known { from } else { 0 };
        let points = current.map(|run| run.timeline().points(from).to_vec());
        let view = Self {
            version: env!("CARGO_PKG_VERSION"),
            division: controller.options.division,
            ringing_ms: controller.options.ringing.as_millis() as u64,
            talking_ms: controller.options.talking.as_millis() as u64,
            phase: phase(&state),
            agents: agents(&state),
            prepared: state.prepared.as_ref().map(|prepared| PreparedView {
                scenario: prepared.scenario.clone(),
                phones: prepared.plan.phones(),
                registered: state.registered(prepared),
                unregistered: state.unregistered(prepared),
            }),
            run: None,
            points_from: from,
            points: points.unwrap_or_default(),
            events: state.events.iter().cloned().collect(),
        };
        (view, current.map(|run| run.draft(Instant::now())))
    }

    /// The run that is shown, and the number of its points that the client now has.
    pub(super) fn seen(&self) -> (u64, usize) {
        let run = self.run.as_ref().map_or(0, |run| run.run);
        (run, self.points_from + self.points.len())
    }
}

fn phase(state: &State) -> Phase {
    match state.run.as_ref().map(|run| run.status) {
        Some(Status::Running) => return Phase::Running,
        Some(Status::Ending | Status::Stopping) => return Phase::Ending,
        Some(Status::Ended) | None => {}
    }
    let Some(prepared) = &state.prepared else {
        return Phase::Idle;
    };
    let phones = prepared.plan.phones() as u64;
    let registered = state.registered(prepared);
    if registered >= phones {
        return Phase::Registered;
    }
    let refused: u64 = state.unregistered(prepared).values().sum();
    if registered + refused >= phones {
        Phase::Incomplete
    } else {
        Phase::Registering
    }
}

fn agents(state: &State) -> Vec<AgentView> {
    let phones_of = |name: &str| {
        let agents = |prepared: &Prepared| {
            let agents = prepared.plan.agents.iter();
            agents
                .filter(|(player, _)| player == name)
                .map(|(_, phones)| phones.len())
                .sum()
        };
        state.prepared.as_ref().map_or(0, agents)
    };
    let agents = state.agents.iter().map(|(name, agent)| AgentView {
        name: name.clone(),
        address: agent.address.ip().to_string(),
        most_phones: agent.most_phones,
        phones: phones_of(name),
        registered: agent.report.registered,
        in_progress: agent.report.in_progress,
    });
    agents.collect()
}
