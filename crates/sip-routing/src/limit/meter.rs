//! What is measured for one identity, such as a trunk or a source address: its live calls and its bucket, 16 bytes in all.
//!
//! The bounds are arguments. A reload changes them; the meter stays.

use super::calls::{Calls, NotEntered};
use super::rate::Bucket;
use super::{Bounds, Excess};
use sip_transport::Time;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Meter {
    calls: Calls,
    bucket: Bucket,
}

/// A live call that counts towards a limit. Dropping it gives the place back.
#[derive(Debug)]
pub struct Place(Arc<Meter>);

/// A place, and how many calls were live when it was taken, itself included.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) place: Place,
    pub(super) live: u32,
}

impl Meter {
    /// Creates a meter with one live call.
    pub(super) fn entered() -> Entered {
        let meter = Self {
            calls: Calls::entered(),
            bucket: Bucket::default(),
        };
        Entered {
            place: Place(Arc::new(meter)),
            live: 1,
        }
    }

    /// Takes a place if less than `maximum` calls are live.
    pub(super) fn enter(self: &Arc<Self>, maximum: u32) -> Result<Entered, NotEntered> {
        let live = self.calls.enter(maximum)?;
        Ok(Entered {
            place: Place(Arc::clone(self)),
            live,
        })
    }

    pub(super) fn live(&self) -> u32 {
        self.calls.live()
    }

    /// Whether the meter takes no more calls, because it has left its table.
    pub(super) fn is_retired(&self) -> bool {
        self.calls.is_retired()
    }

    /// Retires the meter if it has no live call and its bucket is full, so that a new one would behave alike.
    pub(super) fn retire_if_idle(&self, bounds: &Bounds, now: Time) -> bool {
        let is_full = || {
            bounds
                .rate
                .is_none_or(|rate| self.bucket.is_full(&rate, now))
        };
        self.calls.retire_if(is_full)
    }
}

impl Place {
    /// Charges the call. Only the owner of a place may charge: see [`Calls::retire_if`].
    pub(super) fn charge(&self, bounds: &Bounds, now: Time) -> Result<(), Excess> {
        match &bounds.rate {
            Some(rate) if !self.0.bucket.admit(rate, now) => Err(Excess::Rate),
            _ => Ok(()),
        }
    }

    /// Takes the charge back.
    pub(super) fn refund(&self, bounds: &Bounds) {
        if let Some(rate) = &bounds.rate {
            self.0.bucket.refund(rate);
        }
    }

    pub(super) fn meter(&self) -> &Arc<Meter> {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.calls.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_takes_16_bytes_and_a_place_8() {
        assert_eq!(size_of::<Meter>(), 16);
        assert_eq!(size_of::<Place>(), 8);
        assert_eq!(size_of::<Option<Place>>(), 8);
    }

    #[test]
    fn a_call_that_was_charged_while_a_sweep_looked_is_not_forgotten() {
        let meter = Arc::new(Meter::default());
        // What another worker does between the two looks of a sweep.
        let is_retired = meter.calls.retire_if(|| {
            drop(meter.enter(1).expect("a place"));
            true
        });
        assert!(!is_retired && !meter.is_retired());
    }
}
