//! Pacing below a known limit: when may the next call go out so that no window ever holds more than its limit?
//!
//! A [`Pace`] remembers the calls of the last window and lets the next one through when the oldest has left it. So a
//! burst of the whole limit goes at once and then nothing until the window is over: any window, wherever it starts,
//! holds at most the limit, and all of the limit can be used.
//!
//! Token buckets (`governor` and its kind) cannot promise both. A bucket that starts full and refills at limit ÷ window
//! lets up to twice the limit through in one window; made small enough not to, it leaves part of the limit unused: half
//! of it for 2 calls a second, a tenth for 10.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;

use crate::rate_limit::Window;

/// Calls this close together (a part of the window) are remembered as one entry, by the time of the last of them: a
/// window of 100,000 calls is remembered in some 256 entries, for at most one 256th of its rate.
const GRAIN: u32 = 256;

/// The calls that went out under one limit.
///
/// ```
/// use std::num::NonZeroU32;
/// use std::time::Duration;
/// use frigg_core::pacing::{Pace, take};
/// use frigg_core::rate_limit::Window;
///
/// let window = Window { limit: NonZeroU32::MIN, per: Duration::from_secs(10) };
/// let (mut all, mut acme) = (Pace::new(Window { limit: NonZeroU32::new(2).unwrap(), ..window }), Pace::new(window));
/// let now = "2026-09-28T12:00:00Z".parse()?;
/// assert_eq!(take(&mut [&mut all, &mut acme], now), Ok(()));
/// // The second call for acme waits, and takes nothing from the others.
/// assert_eq!(take(&mut [&mut all, &mut acme], now), Err("2026-09-28T12:00:10Z".parse()?));
/// assert_eq!(take(&mut [&mut all], now), Ok(()));
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pace {
    limit: u32,
    per: Duration,
    grain: Duration,
    calls: VecDeque<Calls>,
    count: u32,
}

/// Some calls within one grain.
#[derive(Debug, Clone, Copy)]
struct Calls {
    first: Timestamp,
    last: Timestamp,
    count: u32,
}

impl Pace {
    /// No calls yet.
    pub fn new(window: Window) -> Self {
        Pace {
            limit: window.limit.get(),
            per: window.per,
            grain: window.per / GRAIN,
            calls: VecDeque::new(),
            count: 0,
        }
    }

    /// Keeps a window for longer than it is: a 25th, at most 250 ms. The way to the provider does not take every call
    /// equally long, so calls that left in two windows can arrive in one.
    #[must_use]
    pub fn with_margin(mut self) -> Self {
        self.per += (self.per / 25).min(Duration::from_millis(250));
        self
    }

    /// The first moment, not before `now`, at which a call may go out. Nothing is taken.
    pub fn next_slot(&mut self, now: Timestamp) -> Timestamp {
        while let Some(oldest) = self.calls.front() {
            let ends = end(oldest.last, self.per);
            if ends > now {
                // Calls that are remembered together leave together.
                return if self.count < self.limit { now } else { ends };
            }
            self.count -= oldest.count;
            self.calls.pop_front();
        }
        now
    }

    /// Whether no call of the last window is remembered.
    pub fn is_idle(&mut self, now: Timestamp) -> bool {
        self.next_slot(now);
        self.calls.is_empty()
    }

    fn add(&mut self, now: Timestamp) {
        self.count += 1;
        match self.calls.back_mut() {
            Some(calls) if now <= end(calls.first, self.grain) => {
                // A clock that was set back must not make calls older than they are.
                calls.last = calls.last.max(now);
                calls.count += 1;
            }
            _ => self.calls.push_back(Calls {
                first: now,
                last: now,
                count: 1,
            }),
        }
    }
}

/// Takes a slot in every window, or in none: then `Err` says from when on all of them have one.
///
/// # Errors
/// The first moment at which the call may be tried again.
pub fn take(paces: &mut [&mut Pace], now: Timestamp) -> Result<(), Timestamp> {
    let slot = paces
        .iter_mut()
        .map(|pace| pace.next_slot(now))
        .max()
        .unwrap_or(now);
    if slot > now {
        return Err(slot);
    }
    paces.iter_mut().for_each(|pace| pace.add(now));
    Ok(())
}

/// Past the end of the calendar there is no slot any more.
fn end(at: Timestamp, per: Duration) -> Timestamp {
    at.checked_add(per).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use proptest::prelude::*;

    use super::*;

    fn window(limit: u32, ms: u64) -> Window {
        let limit = NonZeroU32::new(limit).unwrap();
        let per = Duration::from_millis(ms);
        Window { limit, per }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).unwrap()
    }

    /// The most calls in any half-open window.
    fn most(calls: &[Timestamp], per: Duration) -> usize {
        (0..calls.len())
            .map(|first| {
                calls[first..]
                    .iter()
                    .take_while(|call| **call < calls[first] + per)
                    .count()
            })
            .max()
            .unwrap_or_default()
    }

    proptest! {
        #[test]
        fn no_window_holds_more_than_its_limit(
            limits in prop::collection::vec((1_u32..40, 1_u64..20_000), 1..4),
            gaps in prop::collection::vec(0_i64..3_000, 1..300),
        ) {
            let mut paces: Vec<Pace> = limits.iter().map(|(limit, ms)| Pace::new(window(*limit, *ms))).collect();
            let (mut now, mut calls) = (at(0), Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap as u64);
                // Half of the callers wait for their slot, the others go away.
                let mut all: Vec<&mut Pace> = paces.iter_mut().collect();
                match take(&mut all, now) {
                    Ok(()) => calls.push(now),
                    Err(slot) if gap % 2 == 0 => {
                        now = slot;
                        prop_assert_eq!(take(&mut all, now), Ok(()));
                        calls.push(now);
                    }
                    Err(slot) => prop_assert!(slot > now),
                }
            }
            for (limit, ms) in limits {
                prop_assert!(most(&calls, Duration::from_millis(ms)) <= limit as usize);
            }
        }

        #[test]
        fn under_pressure_nearly_all_of_the_limit_is_used(
            limit in 1_u32..600, ms in 1_000_u64..100_000, work_us in 0_u64..50,
        ) {
            let window = window(limit, ms);
            let mut pace = Pace::new(window).with_margin();
            let (mut now, mut calls) = (at(0), 0_u32);
            let windows = 8;
            while now < at(0) + window.per * windows {
                match take(&mut [&mut pace], now) {
                    Ok(()) => calls += 1,
                    Err(slot) => now = slot,
                }
                now += Duration::from_micros(work_us);
            }
            let allowed = f64::from(limit) * f64::from(windows);
            prop_assert!(f64::from(calls) >= 0.95 * allowed, "{calls} of {allowed}");
        }
    }

    #[test]
    fn a_large_window_is_remembered_in_few_entries() {
        let mut pace = Pace::new(window(100_000, 86_400_000));
        for ms in 0..200_000 {
            let _ = take(&mut [&mut pace], at(ms * 500));
        }
        assert!(pace.calls.len() <= 260, "{}", pace.calls.len());
        assert!(!pace.is_idle(at(100_000_000)));
        assert!(pace.is_idle(at(400_000_000)));
    }

    #[test]
    fn a_clock_that_is_set_back_lets_nothing_through_early() {
        let mut pace = Pace::new(window(1, 1_000));
        assert_eq!(take(&mut [&mut pace], at(10_000)), Ok(()));
        assert_eq!(take(&mut [&mut pace], at(9_000)), Err(at(11_000)));
    }

    #[test]
    fn one_customers_limit_takes_nothing_from_the_others() {
        // requester-18, laravel/framework#61449
        let (mut app, mut a, mut b) = (
            Pace::new(window(2, 10_000)),
            Pace::new(window(1, 10_000)),
            Pace::new(window(1, 10_000)),
        );
        assert_eq!(take(&mut [&mut app, &mut a], at(0)), Ok(()));
        assert_eq!(take(&mut [&mut app, &mut a], at(1_000)), Err(at(10_000)));
        assert_eq!(take(&mut [&mut app, &mut a], at(2_000)), Err(at(10_000)));
        assert_eq!(take(&mut [&mut app, &mut b], at(6_000)), Ok(()));
        assert_eq!(app.count, 2);
    }
}
