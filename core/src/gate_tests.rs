use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap()
}

fn window(limit: u32, ms: u64) -> Window {
    Window {
        limit: NonZeroU32::new(limit).unwrap(),
        per: Duration::from_millis(ms),
    }
}

fn closure(ms: i64, window: Option<Window>) -> Closure {
    Closure {
        until: at(ms),
        reason: Reason::Burst,
        module: Some("crm".to_owned()),
        window,
    }
}

fn slot(line: Line, from: i64, before: i64, gap_ms: u64) -> Reservation {
    Reservation {
        line,
        from: at(from),
        before: at(before),
        gap: Duration::from_millis(gap_ms),
    }
}

#[test]
fn the_later_time_wins_and_keeps_the_window() {
    let mut gate = Gate::default();
    assert!(gate.close(&closure(5_000, Some(window(10, 1_000)))));
    assert!(!gate.close(&closure(4_000, None)), "never shortened");
    assert!(!gate.close(&closure(5_000, None)), "nothing to write");
    assert_eq!(
        (gate.closed(at(4_999)), gate.closed(at(5_000))),
        (Some(at(5_000)), None)
    );
    assert!(gate.close(&Closure {
        reason: Reason::Daily,
        ..closure(9_000, None)
    }));
    assert_eq!(
        (gate.reason, gate.window),
        (Reason::Daily, Some(window(10, 1_000)))
    );
}

#[test]
fn a_gap_is_a_twentieth_longer_than_the_window_needs() {
    for (limit, ms, want_us) in [
        (10, 1_000, 105_264),
        (1, 1_000, 1_052_632),
        (100, 10_000, 105_264),
        (19, 20, 1_109),
    ] {
        assert_eq!(
            gap(window(limit, ms)),
            Duration::from_micros(want_us),
            "{limit} in {ms} ms"
        );
    }
    assert_eq!(gap(window(1, u64::MAX)), Duration::from_micros(u64::MAX));
}

/// However late within their leeway calls begin, no window holds more than its limit.
#[test]
fn leeway_is_less_than_what_the_gap_leaves() {
    for window in [
        window(1, 1_000),
        window(10, 1_000),
        window(100, 10_000),
        window(19, 20),
    ] {
        let calls = window.limit.get();
        let late_then_on_time = SignedDuration::try_from(gap(window) * calls).unwrap() - leeway(window);
        assert!(
            late_then_on_time > SignedDuration::try_from(window.per).unwrap(),
            "{window:?}"
        );
    }
}

#[test]
fn who_passes() {
    let w = window(10, 1_000);
    let open = Gate::default();
    let closed = Gate {
        closed_until: Some(at(1_000)),
        ..Gate::default()
    };
    let lined = Gate {
        next_return: Some(at(1_000)),
        window: Some(w),
        ..closed.clone()
    };
    let unknown = Gate {
        window: None,
        ..lined.clone()
    };
    use Pace::{Shared, WhenLimited};
    use Passage::{Closed, Go, Queue, Take};
    for (gate, now, returns, known, pace, want) in [
        (&open, 0, false, None, WhenLimited, Go),
        (&open, 0, false, Some(w), WhenLimited, Go),
        (&open, 0, false, Some(w), Shared, Take(w)),
        (&open, 0, false, None, Shared, Go),
        (&closed, 999, true, Some(w), Shared, Closed(at(1_000))),
        (&closed, 1_000, true, Some(w), WhenLimited, Go),
        (
            &Gate {
                closed_until: None,
                ..lined.clone()
            },
            999,
            false,
            None,
            WhenLimited,
            Queue(w),
        ),
        (
            &Gate {
                closed_until: None,
                ..lined.clone()
            },
            999,
            true,
            None,
            WhenLimited,
            Take(w),
        ),
        (
            &Gate {
                closed_until: None,
                ..unknown.clone()
            },
            999,
            true,
            None,
            WhenLimited,
            Go,
        ),
        // A message may be late for the last slot.
        (&lined, 10_999, false, None, WhenLimited, Queue(w)),
        (&lined, 11_000, false, None, WhenLimited, Go),
        (&lined, 11_000, false, Some(window(1, 5)), Shared, Take(w)),
    ] {
        assert_eq!(
            gate.pass(at(now), returns, known, pace),
            want,
            "{gate:?} {now} {returns} {known:?} {pace:?}"
        );
    }
}

#[test]
fn a_line_that_is_full_gives_no_slot_and_loses_none() {
    let mut gate = Gate::default();
    for want in [Some(0), Some(600), None, None] {
        assert_eq!(gate.reserve(&slot(Line::Call, 0, 1_000, 600)), want.map(at));
    }
    assert_eq!(gate.reserve(&slot(Line::Call, 0, 1_201, 600)), Some(at(1_200)));
    assert_eq!(gate.next_return, None, "the lines are apart");
    let end = Gate {
        next_call: Some(Timestamp::MAX),
        ..Gate::default()
    }
    .reserve(&Reservation {
        before: Timestamp::MAX,
        ..slot(Line::Call, 0, 0, 1)
    });
    assert_eq!(end, None, "the end of the calendar");
}

proptest! {
    /// Whatever the order in which workers with clocks of their own ask: no slot twice, none too near to another, none
    /// before it was asked for, and the latest closure stands.
    #[test]
    fn slots_are_apart_and_closures_are_never_shortened(
        (limit, ms) in (1_u32..200, 1_000_u64..20_000),
        steps in prop::collection::vec((0_i64..100, any::<bool>(), -2_000_i64..2_000, 0_i64..60_000), 1..300),
    ) {
        let (window, mut gate, mut now) = (window(limit, ms), Gate::default(), 0);
        let (mut latest, mut slots) = (None, [Vec::new(), Vec::new()]);
        for (gap_ms, closes, skew, wait) in steps {
            now += gap_ms;
            let local = now + skew;
            if closes {
                gate.close(&closure(local + wait, None));
                latest = latest.max(Some(at(local + wait)));
                prop_assert_eq!(gate.closed_until, latest);
                continue;
            }
            let (line, index) = if wait % 2 == 0 { (Line::Return, 0) } else { (Line::Call, 1) };
            let asked = Reservation { gap: gap(window), before: Timestamp::MAX, ..slot(line, local, 0, 0) };
            let slot = gate.reserve(&asked).unwrap();
            prop_assert!(slot >= at(local));
            slots[index].push(slot);
        }
        for slots in slots {
            for pair in slots.windows(2) {
                prop_assert!(pair[1].duration_since(pair[0]) >= SignedDuration::try_from(gap(window)).unwrap());
            }
            // So no window holds more than its limit.
            for (first, slot) in slots.iter().enumerate() {
                let inside = slots[first..].iter().take_while(|other| **other < *slot + window.per).count();
                prop_assert!(inside <= limit as usize, "{} in a window of {}", inside, limit);
            }
        }
    }

    /// A backlog takes no more than a twentieth longer than the limit needs.
    #[test]
    fn a_backlog_keeps_95_percent_of_the_rate((limit, ms) in (1_u32..200, 1_000_u64..20_000), n in 100_u32..2_000) {
        let (window, mut gate) = (window(limit, ms), Gate::default());
        let asked = Reservation { gap: gap(window), before: Timestamp::MAX, ..slot(Line::Return, 0, 0, 0) };
        let last = (0..n).map(|_| gate.reserve(&asked).unwrap()).last().unwrap();
        let ideal = f64::from(n - 1) * window.per.as_secs_f64() / f64::from(limit);
        let took = last.duration_since(at(0)).as_secs_f64();
        prop_assert!(took >= ideal && took <= ideal / 0.95 + f64::from(n) * 1e-6, "{} for {}", took, ideal);
    }
}
