//! A run for programs and for the page: its figures, or why there are none.

use super::doubts;
use super::{MOST_REASONS, Run, Status, Totals};
use crate::run::DelaySummary;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Instant, SystemTime};

/// A run for programs: what `GET /report` answers.
#[derive(Clone, Debug, Serialize)]
pub(in crate::controller) struct Report {
    pub(in crate::controller) run: u64,
    pub(in crate::controller) scenario: String,
    pub(in crate::controller) status: Status,
    /// By the controller's wall clock, in milliseconds since 1970.
    pub(in crate::controller) started_ms: u64,
    /// Seconds since the start, until now or until all was over.
    pub(in crate::controller) seconds: f64,
    /// Seconds from the first call of the scenario to the last.
    pub(in crate::controller) scenario_seconds: f64,
    pub(in crate::controller) scheduled: u64,
    #[serde(flatten)]
    pub(in crate::controller) totals: Totals,
    pub(in crate::controller) ringing_ms: u64,
    pub(in crate::controller) talking_ms: u64,
    /// Microseconds.
    pub(in crate::controller) command_lateness: DelaySummary,
    /// How many commands were later than so many milliseconds, but no later than the next bound.
    pub(in crate::controller) command_lateness_above_ms: Vec<(f64, u64)>,
    pub(in crate::controller) command_confirmed: DelaySummary,
    pub(in crate::controller) agent_lateness: DelaySummary,
    /// `null` where the run cannot be trusted.
    pub(in crate::controller) session_request_delay: Option<DelaySummary>,
    pub(in crate::controller) answer_delay: Option<DelaySummary>,
    pub(in crate::controller) trusted: bool,
    pub(in crate::controller) doubts: Vec<String>,
    pub(in crate::controller) remarks: Vec<String>,
}

/// Bounds of the table of lateness, in microseconds.
const BOUNDS: [u64; 7] = [0, 1_000, 2_000, 5_000, 10_000, 50_000, 200_000];

impl Run {
    /// For programs and for the page.
    pub(in crate::controller) fn to_report(&self, now: Instant) -> Report {
        let command_lateness = DelaySummary::of(&self.delays.lateness);
        let command_confirmed = DelaySummary::of(&self.delays.confirmed);
        let agent_lateness = DelaySummary::of(&self.delays.in_agent);
        let mut doubts = self.doubts.words();
        doubts.extend(doubts::of_lateness(
            &command_lateness,
            &command_confirmed,
            &agent_lateness,
        ));
        doubts.extend(self.doubts_of_agents());
        let trusted = doubts.is_empty();
        let measured = |delays| {
            trusted
                .then(|| DelaySummary::of(delays))
                .filter(|delay| delay.count > 0)
        };
        let started = self.started_by_wall.duration_since(SystemTime::UNIX_EPOCH);
        Report {
            run: self.id,
            scenario: self.scenario.clone(),
            status: self.status,
            started_ms: started.unwrap_or_default().as_millis() as u64,
            seconds: self
                .ended
                .unwrap_or(now)
                .saturating_duration_since(self.started)
                .as_secs_f64(),
            scenario_seconds: self.plan.duration().as_secs_f64(),
            scheduled: self.plan.calls.len() as u64,
            totals: self.totals(),
            ringing_ms: self.ringing.as_millis() as u64,
            talking_ms: self.talking.as_millis() as u64,
            command_lateness,
            command_lateness_above_ms: table(&self.delays.lateness),
            command_confirmed,
            agent_lateness,
            session_request_delay: measured(&self.delays.session_request),
            answer_delay: measured(&self.delays.answer),
            trusted,
            doubts,
            remarks: self.all_remarks(),
        }
    }

    fn doubts_of_agents(&self) -> Vec<String> {
        let lost = self
            .players
            .iter()
            .filter(|player| player.last.not_carried > 0);
        let lost = lost.map(|player| {
            format!(
                "agent {} lost {} messages on its own machine (kernel drops, or not sent): give it more --ports, or raise net.core.rmem_max",
                player.name, player.last.not_carried
            )
        });
        lost.take(MOST_REASONS).collect()
    }

    fn all_remarks(&self) -> Vec<String> {
        let players = self.players.iter();
        let nonsense: u64 = players.clone().map(|player| player.last.nonsense).sum();
        let mut remarks = self.remarks.clone();
        let unexpected = players.map(|player| player.last.unexpected).sum::<u64>();
        if unexpected > 0 {
            remarks.push(format!(
                "{unexpected} messages came to the phones that nobody waited for: the server repeats itself, is very late, or answers somebody else"
            ));
        }
        if nonsense > 0 {
            remarks.push(format!(
                "{nonsense} messages came to the phones that are no SIP: look at what the server sends"
            ));
        }
        if self.timeline.is_full() {
            remarks.push("the plots end here: no more seconds of a run are kept".into());
        }
        remarks
    }
}

fn table(histogram: &Histogram<u64>) -> Vec<(f64, u64)> {
    let ends = BOUNDS.into_iter().skip(1).chain([u64::MAX]);
    let rows = BOUNDS.into_iter().zip(ends).map(|(from, until)| {
        let from_value = if from == 0 { 0 } else { from + 1 };
        (
            from as f64 / 1e3,
            histogram.count_between(from_value, until),
        )
    });
    rows.collect()
}
