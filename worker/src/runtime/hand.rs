//! How many messages a polling worker takes in hand.

use std::time::Duration;

/// Messages that one receive brings at most.
pub(crate) const BATCH: usize = 10;
/// Receives under way at once, each with a connection.
const MOST_RECEIVES: usize = 16;
/// However fast the handlers are, no more messages than this many times the slots are in hand.
const MOST_AHEAD: u32 = 10;

/// What is in hand, and what is on its way. A message in hand has a free slot, so that none waits while its visibility
/// timeout runs down; but where handlers are through before a receive could bring the next messages, slots would stand
/// empty meanwhile, and so many are fetched ahead as are worked off in that time.
#[derive(Debug)]
pub(crate) struct Hand {
    slots: usize,
    /// Received, and not through with.
    held: usize,
    /// Asked for by receives that are under way.
    asked: usize,
    receives: usize,
    /// One while the queue has little; each full answer allows one more.
    receives_allowed: usize,
    full_receive_took: Duration,
    batch_took: Duration,
}

impl Hand {
    pub(crate) fn new(slots: usize) -> Hand {
        Hand {
            slots,
            held: 0,
            asked: 0,
            receives: 0,
            receives_allowed: 1,
            full_receive_took: Duration::ZERO,
            batch_took: Duration::MAX,
        }
    }

    /// Begins a receive for so many messages, when there is room for them.
    pub(crate) fn ask(&mut self) -> Option<usize> {
        let room = self.capacity().saturating_sub(self.held + self.asked).min(BATCH);
        if room == 0 || self.receives >= self.receives_allowed {
            return None;
        }
        self.receives += 1;
        self.asked += room;
        Some(room)
    }

    /// A receive for `asked` messages brought `got` of them, after `took`.
    pub(crate) fn received(&mut self, asked: usize, got: usize, took: Duration) {
        self.receives -= 1;
        self.asked -= asked;
        self.held += got;
        if got == BATCH {
            self.receives_allowed = (self.receives_allowed + 1).min(MOST_RECEIVES);
            self.full_receive_took = took;
        } else if got < asked {
            self.receives_allowed = 1;
        }
    }

    /// The handlers of `count` messages are through; they took `took`.
    pub(crate) fn through(&mut self, count: usize, took: Duration) {
        self.held -= count;
        self.batch_took = took;
    }

    fn capacity(&self) -> usize {
        let ahead = self.full_receive_took.as_nanos() / self.batch_took.as_nanos().max(1);
        let times = u32::try_from(ahead)
            .unwrap_or(u32::MAX)
            .saturating_add(1)
            .min(MOST_AHEAD);
        self.slots.saturating_mul(times as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn slow_handlers_hold_what_there_are_slots_for() {
        let mut hand = Hand::new(25);
        assert_eq!(
            (hand.ask(), hand.ask()),
            (Some(10), None),
            "one receive until it brings something"
        );
        hand.received(10, 10, 8 * MS);
        assert_eq!((hand.ask(), hand.ask(), hand.ask()), (Some(10), Some(5), None));
        hand.received(10, 10, 8 * MS);
        hand.received(5, 5, 8 * MS);
        assert_eq!(hand.ask(), None, "every slot is taken");
        hand.through(10, 9 * MS);
        assert_eq!((hand.ask(), hand.ask()), (Some(10), None));
    }

    #[test]
    fn fast_handlers_have_the_next_messages_fetched() {
        let mut hand = Hand::new(10);
        hand.ask();
        hand.received(10, 10, 8 * MS);
        hand.through(10, 2 * MS);
        assert_eq!(
            (hand.ask(), hand.ask(), hand.ask()),
            (Some(10), Some(10), None),
            "one more with each full answer"
        );
        hand.received(10, 10, 8 * MS);
        hand.received(10, 10, 8 * MS);
        assert_eq!(
            (hand.ask(), hand.ask(), hand.ask(), hand.ask()),
            (Some(10), Some(10), Some(10), None),
            "50 in all"
        );
        for _ in 0..3 {
            hand.received(10, 0, 8 * MS);
        }
        assert_eq!(
            (hand.ask(), hand.ask()),
            (Some(10), None),
            "an empty queue is asked by one"
        );
        hand.through(10, 80 * MS);
        assert_eq!(
            hand.ask(),
            None,
            "a slow batch ends it: 10 are in hand, 10 asked for"
        );
    }

    #[test]
    fn what_is_held_is_bounded() {
        let mut hand = Hand::new(10);
        hand.ask();
        hand.received(10, 10, Duration::from_secs(9));
        hand.through(10, Duration::ZERO);
        while let Some(asked) = hand.ask() {
            hand.received(asked, asked, Duration::from_secs(9));
        }
        assert_eq!(hand.held, 100);
    }
}
