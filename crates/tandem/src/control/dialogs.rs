//! Searches the dialogs of all workers, and ends one. A request looks at one part of one worker's table at a time, so the worker serves
//! calls between the parts.
use super::asking::{DialogError, Position};
use super::running::Running;
use super::state::Control;
use sip_elements::trace::Selection;
use sip_elements::{DialogAction, DialogFilter, DialogOutcome, EndOutcome, FoundDialog, home_of};
use std::ops::Range;
use std::sync::Arc;

/// The bytes of texts after which a page ends. Its last part may exceed them by a megabyte.
const LARGEST_PAGE: usize = 8 << 20;

/// A dialog and where it is.
#[derive(Clone, Debug)]
pub(crate) struct PlacedDialog {
    pub(crate) worker: u16,
    pub(crate) dialog: FoundDialog,
}

impl PlacedDialog {
    /// The place after it.
    pub(crate) const fn next(&self) -> Position {
        Position {
            worker: self.worker,
            slot: self.dialog.id.slot().saturating_add(1),
        }
    }
}

/// Dialogs that a search has found.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) dialogs: Vec<PlacedDialog>,
    /// Where the search continues; `None` if all tables have been searched.
    pub(crate) next: Option<Position>,
    /// The bytes of the dialogs' texts.
    texts: usize,
}

impl Page {
    fn add(&mut self, worker: u16, found: Vec<FoundDialog>) {
        for dialog in found {
            self.texts += dialog.details.bytes;
            self.dialogs.push(PlacedDialog { worker, dialog });
        }
    }
}

impl Control {
    /// The dialogs that `filter` admits, beginning at a place: at most `most`. The page ends earlier if its texts are large or if the
    /// search takes long.
    ///
    /// # Errors
    /// [`DialogError`].
    pub(crate) async fn dialogs(
        &self,
        running: &Running,
        filter: DialogFilter,
        after: Position,
        most: usize,
    ) -> Result<Page, DialogError> {
        let workers = homes(&filter, running.workers.workers());
        let filter = Arc::new(filter);
        let mut page = Page::default();
        let mut asking = self.asking(running).await?;
        let mut place = after.max(first(workers.start));
        while place.worker < workers.end {
            let action = DialogAction::Show {
                filter: Arc::clone(&filter),
                most: most.saturating_sub(page.dialogs.len()),
            };
            let worker = place.worker;
            let outcome = asking.ask(place, action).await?;
            let (found, next) = asking.shown(worker, outcome)?;
            page.add(worker, found);
            place = match next {
                Some(slot) => Position { worker, slot },
                None => first(worker + 1),
            };
            let is_full = page.dialogs.len() >= most || page.texts >= LARGEST_PAGE;
            if is_full || asking.is_over() {
                page.next = (place.worker < workers.end).then_some(place);
                break;
            }
        }
        Ok(page)
    }

    /// The dialogs of a call, at most `most`.
    ///
    /// # Errors
    /// [`DialogError`].
    pub(crate) async fn dialogs_of_call(
        &self,
        running: &Running,
        call: Selection,
        most: usize,
    ) -> Result<Vec<PlacedDialog>, DialogError> {
        let filter = DialogFilter {
            about: Some(call),
            ..DialogFilter::default()
        };
        let from = Position::default();
        let page = self.dialogs(running, filter, from, most).await?;
        if page.next.is_some() && page.dialogs.len() < most {
            return Err(DialogError::Unfinished);
        }
        Ok(page.dialogs)
    }

    /// The dialog with this identifier. All workers search at the same time.
    ///
    /// # Errors
    /// [`DialogError`], unless another worker has the dialog.
    pub(crate) async fn dialog(
        &self,
        running: &Running,
        id: u128,
    ) -> Result<Option<PlacedDialog>, DialogError> {
        let filter = Arc::new(DialogFilter {
            id: Some(id),
            ..DialogFilter::default()
        });
        let show = || DialogAction::Show {
            filter: Arc::clone(&filter),
            most: 1,
        };
        let mut asking = self.asking(running).await?;
        let mut problem = None;
        for worker in 0..running.workers.workers() {
            let asked = asking.put(first(worker), show()).await;
            problem = asked.err().or(problem);
        }
        while let Some((worker, answer)) = asking.answer().await {
            let asked = match answer.and_then(|outcome| asking.shown(worker, outcome)) {
                Ok((found, next)) => {
                    if let Some(dialog) = found.into_iter().next() {
                        return Ok(Some(PlacedDialog { worker, dialog }));
                    }
                    match next {
                        None => Ok(()),
                        Some(_) if asking.is_over() => Err(DialogError::Unfinished),
                        Some(slot) => asking.put(Position { worker, slot }, show()).await,
                    }
                }
                Err(error) => Err(error),
            };
            problem = asked.err().or(problem);
        }
        problem.map_or(Ok(None), Err)
    }

    /// Ends a dialog, with this value of Reason.
    ///
    /// # Errors
    /// [`DialogError`].
    pub(crate) async fn end_dialog(
        &self,
        running: &Running,
        placed: &PlacedDialog,
        reason: &Arc<[u8]>,
    ) -> Result<EndOutcome, DialogError> {
        let mut place = first(placed.worker);
        let mut asking = self.asking(running).await?;
        loop {
            let action = DialogAction::End {
                id: placed.dialog.id,
                reason: Arc::clone(reason),
            };
            match asking.ask(place, action).await? {
                DialogOutcome::Ended(EndOutcome::Continue(_)) if asking.is_over() => {
                    return Err(DialogError::Unfinished);
                }
                DialogOutcome::Ended(EndOutcome::Continue(next)) => place.slot = next,
                DialogOutcome::Ended(outcome) => return Ok(outcome),
                DialogOutcome::Shown { .. } => return Err(asking.silent(place.worker)),
            }
        }
    }
}

/// The workers that may have such dialogs: the home of a Call-ID, or all.
fn homes(filter: &DialogFilter, workers: u16) -> Range<u16> {
    match &filter.about {
        Some(Selection::Call(call_id)) => {
            let home = home_of(call_id, workers);
            home..home + 1
        }
        _ => 0..workers,
    }
}

/// Where the table of a worker begins.
const fn first(worker: u16) -> Position {
    Position { worker, slot: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::gated::{Fixture, found, run};
    use super::*;
    use std::time::Duration;
    use tokio::time::sleep;

    /// More than a test needs.
    const LONG: Duration = Duration::from_secs(20);

    fn of_call(call_id: &[u8]) -> DialogFilter {
        DialogFilter {
            about: Some(Selection::Call(call_id.into())),
            ..DialogFilter::default()
        }
    }

    fn shown(found: Vec<FoundDialog>, next: Option<u32>) -> DialogOutcome {
        DialogOutcome::Shown { found, next }
    }

    /// How many dialogs a list has, and where it continues.
    async fn list(
        fixture: &Fixture,
        filter: DialogFilter,
        most: usize,
    ) -> Result<(usize, Option<Position>), DialogError> {
        let (control, from) = (&fixture.control, Position::default());
        let page = control.dialogs(&fixture.running, filter, from, most).await;
        page.map(|page| (page.dialogs.len(), page.next))
    }

    #[test]
    fn a_worker_that_does_not_answer_is_named_and_a_late_answer_is_no_answer() {
        run(async {
            let fixture = Fixture::start().await;
            fixture.answer(7, DialogOutcome::Ended(EndOutcome::Gone));
            for (filter, worker) in [
                (DialogFilter::default(), 0),
                (of_call(b"a"), home_of(b"a", 2)),
                (of_call(b"b"), home_of(b"b", 2)),
            ] {
                let silent = DialogError::Silent { worker, workers: 2 };
                assert!(
                    silent
                        .to_string()
                        .starts_with(&format!("worker {worker} of 2 "))
                );
                assert_eq!(list(&fixture, filter, 10).await, Err(silent));
            }
        });
    }

    #[test]
    fn a_worker_whose_inbox_stays_full_is_named() {
        run(async {
            let fixture = Fixture::start().await;
            let [gate, _] = &fixture.gates;
            let held = gate.write().await;
            fixture.fill_first_inbox().await;
            let (worker, workers) = (0, 2);
            let undelivered = DialogError::Undelivered { worker, workers };
            let listed = list(&fixture, DialogFilter::default(), 10).await;
            assert_eq!(listed, Err(undelivered));
            drop(held);
        });
    }

    #[test]
    fn one_request_at_a_time_occupies_the_workers() {
        run(async {
            let fixture = Fixture::start().await;
            let asking = fixture.control.asking(&fixture.running).await;
            let listed = list(&fixture, DialogFilter::default(), 10).await;
            assert_eq!(listed, Err(DialogError::Busy));
            drop(asking.expect("the first one"));
        });
    }

    #[test]
    fn a_long_search_succeeds_if_each_answer_comes_in_time() {
        run(async {
            let fixture = Fixture::start().await.with_patience(Duration::from_secs(2));
            let answers = async {
                for (number, next) in [(1, Some(1_024)), (2, Some(2_048)), (3, None)] {
                    sleep(Duration::from_millis(800)).await;
                    fixture.answer(number, shown(Vec::new(), next));
                }
            };
            let listed = list(&fixture, of_call(b"a"), 10);
            let (listed, ()) = tokio::join!(listed, answers);
            assert_eq!(listed, Ok((0, None)));
        });
    }

    #[test]
    fn a_list_that_takes_too_long_ends_with_where_it_continues() {
        run(async {
            let fixture = Fixture::start().await.with_patience(Duration::ZERO);
            fixture.answer(1, shown(vec![found(1, 10)], Some(1_024)));
            let (worker, slot) = (0, 1_024);
            let listed = list(&fixture, DialogFilter::default(), 10).await;
            assert_eq!(listed, Ok((1, Some(Position { worker, slot }))));
        });
    }

    #[test]
    fn a_search_for_a_call_that_takes_too_long_says_so() {
        run(async {
            let fixture = Fixture::start().await.with_patience(Duration::ZERO);
            fixture.answer(1, shown(vec![found(1, 10)], Some(1_024)));
            let call = Selection::Call((*b"a").into());
            let (control, running) = (&fixture.control, &fixture.running);
            let found = control.dialogs_of_call(running, call, 64).await;
            assert_eq!(found.map(|found| found.len()), Err(DialogError::Unfinished));
        });
    }

    #[test]
    fn a_page_with_large_texts_ends_with_where_it_continues() {
        run(async {
            let fixture = Fixture::start().await.with_patience(LONG);
            for number in 1..=9_u32 {
                let part = (0..128).map(|id| found(id, 8 << 10));
                let next = Some(1_024 * number);
                fixture.answer(number.into(), shown(part.collect(), next));
            }
            let (worker, slot) = (0, 8 * 1_024);
            let listed = list(&fixture, DialogFilter::default(), 10_000).await;
            assert_eq!(listed, Ok((8 * 128, Some(Position { worker, slot }))));
        });
    }

    #[test]
    fn all_workers_look_for_an_id_at_once_so_one_that_is_silent_delays_no_other() {
        run(async {
            let fixture = Fixture::start().await.with_patience(LONG);
            // The second worker has it in the second part of its table.
            fixture.answer(2, shown(Vec::new(), Some(1_024)));
            fixture.answer(3, shown(vec![found(42, 10)], None));
            let dialog = fixture.control.dialog(&fixture.running, 42).await;
            let dialog = dialog.expect("an answer").expect("a dialog");
            assert_eq!((dialog.worker, dialog.dialog), (1, found(42, 10)));
        });
    }

    #[test]
    fn an_id_that_a_silent_worker_may_have_is_not_unknown() {
        run(async {
            let fixture = Fixture::start().await;
            fixture.answer(2, shown(Vec::new(), None));
            let dialog = fixture.control.dialog(&fixture.running, 42).await;
            let (worker, workers) = (0, 2);
            let silent = DialogError::Silent { worker, workers };
            assert_eq!(dialog.map(|dialog| dialog.is_some()), Err(silent));
        });
    }
}
