//! The JSON report of a run: its figures, or the reasons to withhold them.

use super::delays::Delays;
use super::doubts;
use super::{MAX_REASONS, Run, Status, Totals};
use crate::run::DelaySummary;
use serde::Serialize;
use std::time::{Instant, SystemTime};

/// The response to `GET /report`.
#[derive(Clone, Debug, Serialize)]
pub(in crate::controller) struct Report {
    pub(in crate::controller) run: u64,
    pub(in crate::controller) scenario: String,
    pub(in crate::controller) status: Status,
    /// Start by the controller's wall clock, in milliseconds since 1970.
    pub(in crate::controller) started_ms: u64,
    /// Seconds from the start to now, or to the end of the run.
    pub(in crate::controller) seconds: f64,
    /// Seconds from the first call of the scenario to the last.
    pub(in crate::controller) scenario_seconds: f64,
    pub(in crate::controller) scheduled: u64,
    #[serde(flatten)]
    pub(in crate::controller) totals: Totals,
    pub(in crate::controller) ringing_ms: u64,
    pub(in crate::controller) talking_ms: u64,
    /// In microseconds.
    pub(in crate::controller) command_lateness: DelaySummary,
    /// Commands later than each bound in milliseconds, but not later than the next bound.
    pub(in crate::controller) command_lateness_above_ms: Vec<(f64, u64)>,
    pub(in crate::controller) command_confirmed: DelaySummary,
    pub(in crate::controller) agent_lateness: DelaySummary,
    /// `null` if the run cannot be trusted.
    pub(in crate::controller) session_request_delay: Option<DelaySummary>,
    /// From a call's command to the first 1xx other than 100, or the 2xx; challenge included.
    pub(in crate::controller) response_delay: Option<DelaySummary>,
    pub(in crate::controller) answer_delay: Option<DelaySummary>,
    pub(in crate::controller) trusted: bool,
    pub(in crate::controller) doubts: Vec<String>,
    pub(in crate::controller) remarks: Vec<String>,
}

/// A snapshot of the data for a report. It is quick to take, so that no command waits while percentiles are computed.
#[derive(Debug)]
pub(in crate::controller) struct Draft {
    report: Report,
    delays: Delays,
}

impl Draft {
    /// Computes the report. This takes a while.
    pub(in crate::controller) fn finish(self) -> Report {
        let Self { mut report, delays } = self;
        report.command_lateness = DelaySummary::of(&delays.lateness);
        report.command_lateness_above_ms = delays.lateness_table.rows();
        report.command_confirmed = DelaySummary::of(&delays.confirmed);
        report.agent_lateness = DelaySummary::of(&delays.in_agent);
        report.doubts.extend(doubts::of_lateness(
            &report.command_lateness,
            &report.command_confirmed,
            &report.agent_lateness,
        ));
        report.trusted = report.doubts.is_empty();
        if report.trusted {
            let measured = |delays| Some(DelaySummary::of(delays)).filter(|delay| delay.count > 0);
            report.session_request_delay = measured(&delays.session_request);
            report.response_delay = measured(&delays.response);
            report.answer_delay = measured(&delays.answer);
        }
        report
    }
}

impl Run {
    /// A snapshot for a report.
    pub(in crate::controller) fn draft(&self, now: Instant) -> Draft {
        let started = self.started_by_wall.duration_since(SystemTime::UNIX_EPOCH);
        let until = self.ended.unwrap_or(now);
        let mut doubts = self.doubts.words();
        doubts.extend(self.doubts_of_agents());
        let report = Report {
            run: self.id,
            scenario: self.scenario.clone(),
            status: self.status,
            started_ms: started.unwrap_or_default().as_millis() as u64,
            seconds: until.saturating_duration_since(self.started).as_secs_f64(),
            scenario_seconds: self.plan.duration().as_secs_f64(),
            scheduled: self.plan.calls.len() as u64,
            totals: self.totals(),
            ringing_ms: self.ringing.as_millis() as u64,
            talking_ms: self.talking.as_millis() as u64,
            command_lateness: DelaySummary::default(),
            command_lateness_above_ms: Vec::new(),
            command_confirmed: DelaySummary::default(),
            agent_lateness: DelaySummary::default(),
            session_request_delay: None,
            response_delay: None,
            answer_delay: None,
            trusted: false,
            doubts,
            remarks: self.all_remarks(),
        };
        Draft {
            report,
            delays: self.delays.clone(),
        }
    }

    fn doubts_of_agents(&self) -> Vec<String> {
        let lost = self
            .players
            .iter()
            .filter(|player| player.last.not_carried > 0);
        let lost = lost.map(|player| {
            format!(
                "agent {} lost {} messages on its own machine (dropped by the kernel, or not sent): increase its --ports, or raise net.core.rmem_max",
                player.name, player.last.not_carried
            )
        });
        lost.take(MAX_REASONS).collect()
    }

    fn all_remarks(&self) -> Vec<String> {
        let players = self.players.iter();
        let nonsense: u64 = players.clone().map(|player| player.last.nonsense).sum();
        let mut remarks = self.remarks.clone();
        let unexpected = players.map(|player| player.last.unexpected).sum::<u64>();
        if unexpected > 0 {
            remarks.push(format!(
                "the phones received {unexpected} unexpected messages: the server sent duplicates, responded very late, or responded to the wrong phone"
            ));
        }
        let shared = self
            .players
            .iter()
            .map(|player| player.last.shared_registrations);
        let shared: u64 = shared.sum();
        if shared > 0 {
            remarks.push(format!(
                "the server has other contacts for {shared} of the phones, from an earlier run or from other phones: calls fork to them"
            ));
        }
        if nonsense > 0 {
            remarks.push(format!(
                "the phones received {nonsense} messages that are not valid SIP: check what the server sends"
            ));
        }
        if self.timeline.is_full() {
            remarks.push("the plots are truncated: the run has too many seconds".into());
        }
        remarks
    }
}
