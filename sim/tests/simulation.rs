//! Twenty thousand scenarios hold; and each way to break a promise is noticed.

use std::fmt::Write as _;
use std::io::Write as _;

use frigg_sim::mutation::Mutation;
use frigg_sim::run::{Failure, run_many};
use frigg_sim::scenario::Scenario;

const SCENARIOS: u64 = 20_000;

/// What a mutation is noticed by.
fn broken_promise(mutation: Mutation) -> &'static [&'static str] {
    match mutation {
        Mutation::AckBeforeSend | Mutation::AckAll | Mutation::IgnoreMaximumSize => &["lost"],
        Mutation::LoseDeadLetter => &["lost"],
        Mutation::FloorDelay | Mutation::FloorSchedule | Mutation::ShortHold => &["early"],
        Mutation::HopWithoutRetryAt | Mutation::TrustConflict => &["early"],
        Mutation::DropAttributes | Mutation::PlainSchedule | Mutation::UnescapedSchedule => &["changed"],
        Mutation::NoKeepAlive => &["doubled"],
        // Of two copies, the ledger may take the one that runs for the one that has to wait.
        Mutation::SendTwice => &["doubled", "early"],
        Mutation::ResendOnFifo => &["order"],
        Mutation::IgnoreCaps => &["caps"],
        Mutation::OpenGate | Mutation::ShortClosure => &["closed"],
        Mutation::CountGated | Mutation::ForgetHolds => &["counted", "caps"],
        Mutation::IgnoreDeadline => &["deadline"],
        Mutation::SpendLastReceive | Mutation::HidePastRetention => &["lost"],
        // Whichever of its rules the scenario meets first.
        Mutation::Frigg => &["early", "lost", "changed"],
    }
}

#[test]
fn nothing_is_lost_and_nothing_early() {
    let (failure, scenarios, runs) = run_many(0, SCENARIOS, None);
    if let Some(failure) = failure {
        panic!("{}", story(&failure));
    }
    assert_eq!(scenarios, SCENARIOS);
    // A simulation in which little happens shows little.
    assert!(runs > 3 * SCENARIOS, "{runs} runs of handlers");
}

#[test]
fn every_broken_promise_is_noticed() {
    let mut report = String::new();
    for mutation in Mutation::ALL {
        let (failure, scenarios, _) = run_many(0, SCENARIOS, Some(mutation));
        let Some(failure) = failure else {
            panic!("{mutation:?} went unnoticed in {scenarios} scenarios");
        };
        let _ = writeln!(
            report,
            "{mutation:?}: noticed in scenario {scenarios}: {}",
            failure.violation
        );
        let kind = failure.violation.split(':').next().unwrap_or_default();
        assert!(
            broken_promise(mutation).contains(&kind),
            "{mutation:?} was noticed for something else: {}",
            story(&failure)
        );
    }
    let _ = std::io::stderr().write_all(report.as_bytes());
}

#[test]
fn a_seed_tells_the_same_story_twice() {
    for seed in 0..50 {
        let scenario = Scenario::of(seed);
        let told = || frigg_sim::run::run(&scenario, None, true).trace;
        assert_eq!(told(), told(), "seed {seed}");
    }
}

fn story(failure: &Failure) -> String {
    format!(
        "{}\n{}\n\nseed {}: {}\nAgain: make sim TRACE={}",
        Scenario::of(failure.seed),
        failure.trace.join("\n"),
        failure.seed,
        failure.violation,
        failure.seed
    )
}
