//! The counters of an agent since the start of a run, and the reports made from them.

use crate::controller::protocol::{AgentReport, Distribution};
use crate::run::{Delay, Figures, Kind, Losses};

/// Counts of a run, and delays since the last report.
#[derive(Debug, Default)]
pub(super) struct Counts {
    report: AgentReport,
    /// Losses before the run began.
    before: u64,
    /// The last report sent, without its delays.
    reported: Option<AgentReport>,
}

impl Counts {
    /// Starts the counts of a run.
    pub(super) fn begin(&mut self, run: u64) {
        self.before += self.report.not_carried;
        self.report = AgentReport {
            run: Some(run),
            registration: self.report.registration,
            registered: self.report.registered,
            shared_registrations: self.report.shared_registrations,
            unregistered: std::mem::take(&mut self.report.unregistered),
            ..AgentReport::default()
        };
    }

    /// Starts the counts of a new set of phones.
    pub(super) fn other_phones(&mut self, registration: u64) {
        self.before = 0;
        self.report = AgentReport {
            run: self.report.run,
            registration: Some(registration),
            ..AgentReport::default()
        };
    }

    pub(super) const fn run(&self) -> Option<u64> {
        self.report.run
    }

    pub(super) const fn registered(&self) -> u32 {
        self.report.registered
    }

    pub(super) const fn in_progress(&self) -> u64 {
        self.report.in_progress
    }

    pub(super) fn commanded(&mut self, calls: usize) {
        self.report.commanded += calls as u64;
    }

    /// Counts calls that failed before they began.
    pub(super) fn refused(&mut self, reason: &str, calls: u64) {
        if calls > 0 {
            *self.report.failed.entry(reason.to_owned()).or_default() += calls;
        }
    }

    /// Counts phones that cannot be registered.
    pub(super) fn unregistered(&mut self, reason: &str, phones: u64) {
        let counted = self.report.unregistered.entry(reason.to_owned());
        *counted.or_default() += phones;
    }

    pub(super) const fn set_registered(&mut self, phones: u32) {
        self.report.registered = phones;
    }

    /// Resets the failed registrations, for a new round.
    pub(super) fn forget_unregistered(&mut self) {
        self.report.unregistered.clear();
    }

    /// Adds what the phones have counted.
    pub(super) fn add(&mut self, figures: &Figures, in_progress: usize, losses: Losses) {
        let calls = figures.ends(Kind::Call);
        let report = &mut self.report;
        report.in_progress = in_progress as u64;
        report.answered += figures.delay(Delay::Answer).len();
        report.succeeded += calls.succeeded;
        report.nonsense += figures.nonsense;
        report.unexpected += figures.late_messages;
        report.not_carried = (losses.kernel_drops + losses.not_sent).saturating_sub(self.before);
        for ((kind, reason), count) in &figures.failures {
            let failures = if *kind == Kind::Call.plural() {
                &mut report.failed
            } else if *kind == Kind::Register.plural() {
                &mut report.unregistered
            } else {
                // What callees saw is not a failed call here: the caller counts how the call ended.
                report.unexpected += count;
                continue;
            };
            *failures.entry(reason.clone()).or_default() += count;
        }
        add(
            &mut report.session_request_delay,
            figures,
            Delay::SessionRequest,
        );
        report.shared_registrations += figures.shared_registrations;
        add(&mut report.response_delay, figures, Delay::Response);
        add(&mut report.answer_delay, figures, Delay::Answer);
        add(&mut report.registration_delay, figures, Delay::Registration);
        add(&mut report.lateness, figures, Delay::Lateness);
        self.refused("too many in progress", calls.skipped);
    }

    /// The report, if anything changed. Its delays are not reported again.
    pub(super) fn news(&mut self) -> Option<AgentReport> {
        let report = AgentReport {
            session_request_delay: std::mem::take(&mut self.report.session_request_delay),
            response_delay: std::mem::take(&mut self.report.response_delay),
            answer_delay: std::mem::take(&mut self.report.answer_delay),
            registration_delay: std::mem::take(&mut self.report.registration_delay),
            lateness: std::mem::take(&mut self.report.lateness),
            ..self.report.clone()
        };
        let has_delays = !report.session_request_delay.is_empty()
            || !report.response_delay.is_empty()
            || !report.answer_delay.is_empty()
            || !report.registration_delay.is_empty()
            || !report.lateness.is_empty();
        if !has_delays && self.reported.as_ref() == Some(&self.report) {
            return None;
        }
        self.reported = Some(self.report.clone());
        Some(report)
    }

    /// The report, whether anything changed or not.
    pub(super) fn anyhow(&mut self) -> AgentReport {
        self.news().unwrap_or_else(|| self.report.clone())
    }
}

/// Adds the values of a delay. An unreported backlog still fits one list: values have three digits, so their number is bounded.
fn add(to: &mut Distribution, figures: &Figures, delay: Delay) {
    let recorded = figures.delay(delay).iter_recorded();
    to.extend(recorded.map(|value| (value.value_iterated_to(), value.count_at_value())));
    if to.len() > MAX_VALUES {
        to.sort_unstable();
        to.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 += later.1;
            }
            is_same
        });
    }
}

/// Length of a list beyond which equal values are merged.
const MAX_VALUES: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_of_the_run_and_only_news_is_reported() {
        let mut counts = Counts::default();
        assert!(counts.news().is_some(), "the first report");
        assert!(counts.news().is_none());
        counts.begin(7);
        counts.commanded(3);
        counts.refused("no such phone here", 1);
        let report = counts.news().expect("news");
        assert_eq!((report.run, report.commanded), (Some(7), 3));
        assert_eq!(report.failed["no such phone here"], 1);
        assert!(counts.news().is_none());
        assert_eq!(counts.anyhow().commanded, 3);
        counts.begin(8);
        assert_eq!(counts.anyhow().commanded, 0);
    }

    #[test]
    fn delays_are_reported_once() {
        let mut counts = Counts::default();
        counts.report.answer_delay = vec![(1_000, 2)];
        assert_eq!(counts.anyhow().answer_delay, [(1_000, 2)]);
        assert!(counts.anyhow().answer_delay.is_empty());
    }
}
