//! What happened to each message, put together from the provider's record and the functions' logs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::Timestamp;
use serde_json::Value;

use super::cast::path;
use crate::provider::{Call, Closed};

/// How a message waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Sent again with a delay.
    Delay,
    /// A one-time schedule sends it again.
    Schedule,
    /// Hidden in the queue.
    Visibility,
}

impl Tier {
    /// Its name in the worker's log.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Delay => "delay",
            Self::Schedule => "schedule",
            Self::Visibility => "visibility",
        }
    }
}

/// The tier that a line of the worker's log tells of: none for a line about something else.
#[must_use]
pub fn tier_of(line: &Value) -> Option<Tier> {
    match (line["eventName"].as_str()?, line["mechanism"].as_str()?) {
        ("frigg.worker.record_deferred", "delay") => Some(Tier::Delay),
        ("frigg.worker.record_deferred", "schedule") => Some(Tier::Schedule),
        ("frigg.worker.record_visibility_extended", _) => Some(Tier::Visibility),
        _ => None,
    }
}

/// A message that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// Its number.
    pub id: u32,
    /// Its account.
    pub account: String,
    /// When.
    pub at: Timestamp,
}

/// A call that a message's handler made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Seconds after the story's start.
    pub at: f64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// The provider served it.
    Done,
    /// The provider refused it.
    Limited {
        /// The time that it gave, in seconds after the story's start.
        until: f64,
        /// How the message waited; none when the log does not tell.
        tier: Option<Tier>,
    },
}

/// One message's story.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageStory {
    /// Its number.
    pub id: u32,
    /// Its account.
    pub account: String,
    /// Seconds after the story's start.
    pub sent: f64,
    /// Its calls, in order.
    pub steps: Vec<Step>,
    /// It is in the dead-letter queue.
    pub dead: bool,
}

impl MessageStory {
    /// When it was done.
    #[must_use]
    pub fn done(&self) -> Option<f64> {
        self.steps
            .iter()
            .find(|step| step.outcome == Outcome::Done)
            .map(|step| step.at)
    }

    /// The last time that the provider gave before it was done.
    #[must_use]
    pub fn asked_for(&self) -> Option<f64> {
        let told = self.steps.iter().take_while(|step| step.outcome != Outcome::Done);
        told.filter_map(|step| match step.outcome {
            Outcome::Limited { until, .. } => Some(until),
            Outcome::Done => None,
        })
        .last()
    }

    /// The ways in which it waited, in order; none where the log does not tell.
    pub fn tiers(&self) -> impl Iterator<Item = Option<Tier>> {
        self.steps.iter().filter_map(|step| match step.outcome {
            Outcome::Limited { tier, .. } => Some(tier),
            Outcome::Done => None,
        })
    }

    /// Whether any call came before the time that the call before it was told.
    #[must_use]
    pub fn early(&self) -> bool {
        self.steps.windows(2).any(|pair| match pair[0].outcome {
            Outcome::Limited { until, .. } => pair[1].at < until,
            Outcome::Done => false,
        })
    }
}

/// A stretch in which an account's calls were refused, in seconds after the story's start.
#[derive(Clone, Debug, PartialEq)]
pub struct Shade {
    /// Whose.
    pub account: String,
    /// Its beginning.
    pub from: f64,
    /// Its end.
    pub until: f64,
}

/// The whole run. Its start is when the first message was sent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// By number.
    pub messages: Vec<MessageStory>,
    /// When the provider was closed.
    pub closed: Vec<Shade>,
}

impl Story {
    /// Puts the story together. `lines` are the JSON lines of the functions' logs; `dead` the numbers of the messages in
    /// dead-letter queues.
    ///
    /// A call belongs to a message by its path, and to a log line by the id of the SQS message that made it: the worker
    /// sends it along as `x-request-id`.
    #[must_use]
    pub fn new(
        sent: &[Sent],
        calls: &[Call],
        closed: &[Closed],
        lines: &[Value],
        dead: &BTreeSet<u32>,
    ) -> Self {
        let Some(start) = sent.iter().map(|sent| sent.at).min() else {
            return Self::default();
        };
        let seconds = |at: Timestamp| at.duration_since(start).as_secs_f64();
        let mut tiers: BTreeMap<&str, VecDeque<Tier>> = BTreeMap::new();
        for line in lines {
            if let (Some(tier), Some(message_id)) = (tier_of(line), line["messageId"].as_str()) {
                tiers.entry(message_id).or_default().push_back(tier);
            }
        }
        let mut step = |call: &Call| {
            let outcome = match (call.accepted, call.retry_at) {
                (true, _) => Outcome::Done,
                (false, retry_at) => Outcome::Limited {
                    until: seconds(retry_at.unwrap_or(call.at)),
                    tier: call
                        .request_id
                        .as_deref()
                        .and_then(|id| tiers.get_mut(id)?.pop_front()),
                },
            };
            Step {
                at: seconds(call.at),
                outcome,
            }
        };
        let messages = sent.iter().map(|sent| {
            let path = path(&sent.account, sent.id);
            MessageStory {
                id: sent.id,
                account: sent.account.clone(),
                sent: seconds(sent.at),
                steps: calls
                    .iter()
                    .filter(|call| call.path == path)
                    .map(&mut step)
                    .collect(),
                dead: dead.contains(&sent.id),
            }
        });
        let messages = messages.collect();
        let shade = |closed: &Closed| Shade {
            account: closed.key.clone(),
            from: seconds(closed.from),
            until: seconds(closed.until),
        };
        Self {
            messages,
            closed: closed.iter().map(shade).collect(),
        }
    }

    /// When the last thing happened, in seconds after the start.
    #[must_use]
    pub fn length(&self) -> f64 {
        let steps = self.messages.iter().flat_map(|message| &message.steps);
        steps.map(|step| step.at).fold(0.0, f64::max)
    }
}

/// What it comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Messages that were done.
    pub done: usize,
    /// Messages that were not, or are in a dead-letter queue.
    pub lost: usize,
    /// Messages that ran before a time that they were told.
    pub early: usize,
    /// Messages that were done more than once, which a queue may do.
    pub repeated: usize,
    /// Calls that the provider got.
    pub calls: usize,
    /// Calls that it refused.
    pub refused: usize,
}

impl Totals {
    /// Adds up a story.
    #[must_use]
    pub fn of(story: &Story) -> Self {
        let mut totals = Self::default();
        for message in &story.messages {
            let done = message
                .steps
                .iter()
                .filter(|step| step.outcome == Outcome::Done)
                .count();
            totals.done += usize::from(done > 0);
            totals.lost += usize::from(done == 0 || message.dead);
            totals.early += usize::from(message.early());
            totals.repeated += usize::from(done > 1);
            totals.calls += message.steps.len();
            totals.refused += message.steps.len() - done;
        }
        totals
    }

    /// Nothing was lost, and nothing ran early.
    #[must_use]
    pub fn all_is_well(&self) -> bool {
        self.lost == 0 && self.early == 0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::clock::Clock;

    pub(in crate::demo) fn at(seconds: f64) -> Timestamp {
        Clock::manual(Timestamp::UNIX_EPOCH).at(Duration::from_secs_f64(seconds))
    }

    fn call(id: u32, seconds: f64, message_id: &str, retry_at: Option<f64>) -> Call {
        Call {
            key: "burst".to_owned(),
            method: "GET".to_owned(),
            path: path("burst", id),
            request_id: Some(message_id.to_owned()),
            at: at(seconds),
            since_start: Duration::from_secs_f64(seconds),
            accepted: retry_at.is_none(),
            status: if retry_at.is_none() { 200 } else { 429 },
            retry_after: retry_at.map(|_| 1),
            retry_at: retry_at.map(at),
            policy: None,
        }
    }

    fn sent(id: u32) -> Sent {
        Sent {
            id,
            account: "burst".to_owned(),
            at: at(100.0),
        }
    }

    fn deferred(message_id: &str, mechanism: &str) -> Value {
        json!({ "eventName": "frigg.worker.record_deferred", "messageId": message_id, "mechanism": mechanism })
    }

    fn hidden(message_id: &str) -> Value {
        let event = "frigg.worker.record_visibility_extended";
        json!({ "eventName": event, "messageId": message_id, "mechanism": "visibility" })
    }

    #[test]
    fn calls_and_log_lines_meet_by_the_id_of_the_message_that_made_them() {
        let calls = [
            call(1, 101.0, "a", Some(110.0)),
            call(2, 101.0, "b", Some(180.0)),
            call(1, 111.0, "a2", Some(190.0)),
            call(2, 181.0, "b", Some(185.0)),
            call(2, 185.0, "b", None),
            call(1, 190.5, "a3", None),
        ];
        let lines = [
            deferred("a", "delay"),
            hidden("b"),
            json!({ "eventName": "frigg.worker.record_succeeded", "messageId": "b" }),
            hidden("b"),
            deferred("a2", "schedule"),
        ];
        let story = Story::new(&[sent(1), sent(2)], &calls, &[], &lines, &BTreeSet::new());
        let tiers = |index: usize| story.messages[index].tiers().collect::<Vec<_>>();
        assert_eq!(tiers(0), [Some(Tier::Delay), Some(Tier::Schedule)]);
        assert_eq!(tiers(1), [Some(Tier::Visibility), Some(Tier::Visibility)]);
        assert_eq!(
            (story.messages[0].asked_for(), story.messages[0].done()),
            (Some(90.0), Some(90.5))
        );
        assert_eq!(story.length(), 90.5);
        let totals = Totals {
            done: 2,
            calls: 6,
            refused: 4,
            ..Totals::default()
        };
        assert_eq!(Totals::of(&story), totals);
        assert!(totals.all_is_well());
    }

    #[test]
    fn a_call_before_the_told_time_is_early_and_a_message_without_a_served_call_is_lost() {
        let calls = [
            call(1, 101.0, "a", Some(110.0)),
            call(1, 109.9, "a2", None),
            call(2, 101.0, "b", Some(105.0)),
        ];
        let story = Story::new(&[sent(1), sent(2), sent(3)], &calls, &[], &[], &BTreeSet::new());
        let totals = Totals::of(&story);
        assert_eq!((totals.done, totals.lost, totals.early), (1, 2, 1));
        assert!(!totals.all_is_well());
        assert_eq!(
            story.messages[0].tiers().collect::<Vec<_>>(),
            [None],
            "no log line, no tier"
        );
    }

    #[test]
    fn a_dead_message_is_lost_even_when_it_was_done() {
        let story = Story::new(
            &[sent(1)],
            &[call(1, 101.0, "a", None)],
            &[],
            &[],
            &BTreeSet::from([1]),
        );
        assert_eq!((Totals::of(&story).done, Totals::of(&story).lost), (1, 1));
    }
}
