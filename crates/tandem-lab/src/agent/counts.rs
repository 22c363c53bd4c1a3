//! What an agent has counted since it was last told to begin, and what it reports of that.

use crate::controller::protocol::{AgentReport, Distribution};
use crate::run::{Delay, Figures, Kind, Losses};

/// Counts of a run, and delays since the last report.
#[derive(Debug, Default)]
pub(super) struct Counts {
    report: AgentReport,
    /// Losses when the run began.
    before: u64,
    /// The last that was reported but for the delays.
    reported: Option<AgentReport>,
}

impl Counts {
    /// A run begins.
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

    /// Other phones are played.
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

    /// Calls were commanded.
    pub(super) fn commanded(&mut self, calls: usize) {
        self.report.commanded += calls as u64;
    }

    /// Calls failed before they began.
    pub(super) fn refused(&mut self, reason: &str, calls: u64) {
        if calls > 0 {
            *self.report.failed.entry(reason.to_owned()).or_default() += calls;
        }
    }

    /// Phones cannot be registered.
    pub(super) fn unregistered(&mut self, reason: &str, phones: u64) {
        let counted = self.report.unregistered.entry(reason.to_owned());
        *counted.or_default() += phones;
    }

    /// How many phones are registered now.
    pub(super) const fn set_registered(&mut self, phones: u32) {
        self.report.registered = phones;
    }

    /// A new round of registrations begins.
    pub(super) fn forget_unregistered(&mut self) {
        self.report.unregistered.clear();
    }

    /// What the phones have counted.
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
                // What called phones met: the call's caller counts how it ended.
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

    /// The report, if there is news; its delays are not told again.
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

    /// The report, whether there is news or not.
    pub(super) fn anyhow(&mut self) -> AgentReport {
        self.news().unwrap_or_else(|| self.report.clone())
    }
}

/// Adds the values of a delay. What was not reported for long is one list still: values are told apart to three digits, so it is bounded.
fn add(to: &mut Distribution, figures: &Figures, delay: Delay) {
    let recorded = figures.delay(delay).iter_recorded();
    to.extend(recorded.map(|value| (value.value_iterated_to(), value.count_at_value())));
    if to.len() > MOST_VALUES {
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

/// Values of a list beyond which equal ones are counted together.
const MOST_VALUES: usize = 4_096;

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
