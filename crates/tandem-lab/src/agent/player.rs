//! The phones of an agent: which ones it plays, the commands for them, and their counts.

use super::counts::Counts;
use super::registering::Registering;
use crate::controller::protocol::{AgentReport, FromAgent, PROTOCOL, WIDEST};
use crate::run::{CallShape, Commanded, Commander, Counted, Figures, Kind, Losses, Settings};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, spawn_blocking};

/// How long phones may take to deregister when other phones replace them. The controller waits for a report meanwhile.
const CHANGING: Duration = Duration::from_secs(2);

/// The phones and counts of an agent. They outlive connections to the controller.
pub(super) struct Player {
    settings: Settings,
    most_phones: u32,
    phones: Option<Phones>,
    telling: Option<JoinHandle<Told>>,
    counts: Counts,
}

/// The current phones.
struct Phones {
    commander: Commander,
    /// `None` while their counts are being collected.
    commanded: Option<Commanded>,
    registering: Registering,
    /// First and last phone number.
    range: (u32, u32),
}

type Told = (Commanded, anyhow::Result<(Figures, usize, Losses)>);

impl Player {
    pub(super) fn new(settings: Settings, most_phones: u32) -> Self {
        Self {
            settings,
            most_phones,
            phones: None,
            telling: None,
            counts: Counts::default(),
        }
    }

    /// The greeting: name and state.
    pub(super) fn hello(&self, name: &str) -> FromAgent {
        FromAgent::Hello {
            protocol: PROTOCOL,
            name: name.to_owned(),
            most_phones: self.most_phones,
            run: self.counts.run(),
            registered: self.counts.registered(),
            in_progress: self.counts.in_progress(),
        }
    }

    /// Registers these phones and plays no others. If the set is unchanged, the phones keep their sockets.
    pub(super) async fn register(&mut self, registration: u64, phones: Vec<u32>, per_second: u32) {
        self.counts.other_phones(registration);
        let registering = Registering::new(
            phones.clone(),
            per_second,
            self.settings.expires,
            Instant::now(),
        );
        let (Some(first), Some(last)) = (phones.iter().min(), phones.iter().max()) else {
            let _ = self.leave(CHANGING).await;
            return;
        };
        let range = (*first, *last);
        if let Some(playing) = self
            .phones
            .as_mut()
            .filter(|playing| playing.range == range)
        {
            playing.registering = registering;
            return;
        }
        if range.1 - range.0 >= WIDEST || phones.len() > self.most_phones as usize {
            let reason = format!("more than {} phones, or too far apart", self.most_phones);
            let _ = self.leave(CHANGING).await;
            return self.counts.unregistered(&reason, phones.len() as u64);
        }
        // The old sockets close before new ones open.
        let _ = self.leave(CHANGING).await;
        let mut settings = self.settings.clone();
        settings.subscribers.first = range.0;
        settings.subscribers.count = range.1 - range.0 + 1;
        settings.workers = settings
            .workers
            .min(u16::try_from(settings.subscribers.count).unwrap_or(u16::MAX));
        match Commanded::start(&settings) {
            Ok(commanded) => {
                self.phones = Some(Phones {
                    commander: commanded.commander(),
                    commanded: Some(commanded),
                    registering,
                    range,
                });
            }
            Err(error) => {
                let reason = format!("phones cannot be played: {error}");
                self.counts.unregistered(&reason, phones.len() as u64);
            }
        }
    }

    /// Ends all calls, deregisters all phones and closes their sockets. Returns how many deregistered, and how many failed to.
    pub(super) async fn leave(&mut self, within: Duration) -> Option<Counted> {
        let telling = self.telling.take();
        let mut phones = self.phones.take()?;
        if let Some(telling) = telling {
            phones.commanded = telling.await.ok().map(|(commanded, _)| commanded);
        }
        let commanded = phones.commanded?;
        let leaving = spawn_blocking(move || commanded.leave(within));
        leaving.await.ok()?.ok()
    }

    /// Starts a run.
    pub(super) fn begin(&mut self, run: u64, ringing: Duration, talking: Duration) {
        self.counts.begin(run);
        if let Some(phones) = &self.phones {
            phones.commander.shape(CallShape { ringing, talking });
        }
    }

    /// Begins calls. `read` is when their command was read.
    pub(super) fn call(&mut self, calls: &[(u32, u32)], read: Instant) {
        self.counts.commanded(calls.len());
        let told = calls.iter().filter(|(caller, callee)| {
            self.phones
                .as_ref()
                .is_some_and(|phones| phones.commander.call(*caller, *callee, read))
        });
        let refused = calls.len() - told.count();
        self.counts
            .refused("no such phone here, or too busy", refused as u64);
    }

    pub(super) fn stop(&self) {
        if let Some(phones) = &self.phones {
            phones.commander.hang_up();
        }
    }

    /// Does what is due: registrations and, with `ask`, a request for the phones' counts.
    pub(super) fn work(&mut self, ask: bool) {
        let Some(phones) = &mut self.phones else {
            return;
        };
        let waited = phones.registering.is_waiting();
        let due = phones.registering.due(Instant::now()).to_vec();
        if !waited && !due.is_empty() {
            self.counts.forget_unregistered();
        }
        let told = due
            .iter()
            .filter(|phone| phones.commander.register(**phone));
        let refused = (due.len() - told.count()) as u64;
        if refused > 0 {
            phones.registering.ended(0, refused);
            self.counts.unregistered("too busy", refused);
        }
        if ask
            && self.telling.is_none()
            && let Some(mut commanded) = phones.commanded.take()
        {
            self.telling = Some(spawn_blocking(move || {
                let told = commanded.tell();
                let losses = commanded.losses();
                (
                    commanded,
                    told.map(|(figures, in_progress)| (figures, in_progress, losses)),
                )
            }));
        }
    }

    /// Counts what happened while there was no connection.
    pub(super) async fn catch_up(&mut self) {
        self.work(true);
        if self.telling.is_some() {
            self.told().await;
        }
    }

    /// Whether registrations are outstanding.
    pub(super) fn is_registering(&self) -> bool {
        self.phones
            .as_ref()
            .is_some_and(|phones| phones.registering.is_waiting())
    }

    /// Waits for the counts that were requested, and adds them. Never completes if none were requested.
    pub(super) async fn told(&mut self) {
        let Some(telling) = &mut self.telling else {
            return std::future::pending().await;
        };
        let told = telling.await;
        self.telling = None;
        let (Ok((commanded, told)), Some(phones)) = (told, &mut self.phones) else {
            return;
        };
        phones.commanded = Some(commanded);
        let Ok((figures, in_progress, losses)) = told else {
            return self.counts.refused("a thread of phones says nothing", 1);
        };
        let ends = figures.ends(Kind::Register);
        phones.registering.ended(ends.succeeded, ends.failed);
        self.counts.set_registered(phones.registering.registered());
        let calls = in_progress.saturating_sub(phones.registering.outstanding());
        self.counts.add(&figures, calls, losses);
    }

    /// The report, if anything changed.
    pub(super) fn news(&mut self) -> Option<AgentReport> {
        self.counts.news()
    }

    /// The report.
    pub(super) fn report(&mut self) -> AgentReport {
        self.counts.anyhow()
    }
}
