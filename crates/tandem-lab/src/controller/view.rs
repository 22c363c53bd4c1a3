//! What the page is shown.

use super::Controller;
use super::plan::Division;
use super::run::{Draft, Point, Report, Status};
use super::state::{Event, Prepared, State};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// All of it but the scenarios.
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
    /// Number of the first of the points that follow.
    points_from: usize,
    points: Vec<Point>,
    events: Vec<Event>,
}

/// What is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// Nothing.
    Idle,
    /// Phones register.
    Registering,
    /// All have been answered, some with a refusal.
    Incomplete,
    /// All phones are registered.
    Registered,
    /// Calls begin.
    Running,
    /// Calls end.
    Ending,
}

#[derive(Debug, Serialize)]
struct AgentView {
    name: String,
    address: String,
    most_phones: u32,
    /// Of the scenario that is prepared.
    phones: usize,
    registered: u32,
    in_progress: u64,
}

#[derive(Debug, Serialize)]
struct PreparedView {
    scenario: String,
    phones: usize,
    registered: u64,
    /// Registrations that failed, by reason.
    unregistered: BTreeMap<String, u64>,
}

impl View {
    /// As things stand; points of the run `run` from place `from` on, or all of them where it is another run.
    pub(super) fn new(controller: &Controller, (run, from): (u64, usize)) -> Self {
        let (mut view, draft) = Self::draft(controller, (run, from));
        view.run = draft.map(Draft::finish);
        view
    }

    /// All but the run's figures: those take a while, and nobody is to wait for them.
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

    /// The run that is shown, and how many of its points are now known to whoever sees this.
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
