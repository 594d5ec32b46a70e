//! Faults of a runtime that does not exist: each breaks a promise, and the simulation has to notice.
//!
//! They are made between the real runtime and the model, where its calls go through, or in the settings that it is given.

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A record is acknowledged before its copy is sent, and the copy is not.
    AckBeforeSend,
    /// A delay is rounded down.
    FloorDelay,
    /// A schedule's time is rounded down.
    FloorSchedule,
    /// A message is hidden for less than the wait.
    ShortHold,
    /// A hop does not say until when.
    HopWithoutRetryAt,
    /// A copy loses its attributes.
    DropAttributes,
    /// A schedule sends the body only.
    PlainSchedule,
    /// `<` goes to the scheduler as it is.
    UnescapedSchedule,
    /// A copy is sent twice.
    SendTwice,
    /// A FIFO queue is taken for a standard one.
    ResendOnFifo,
    /// The caps are not looked at.
    IgnoreCaps,
    /// The batch does not end before its deadline.
    IgnoreDeadline,
    /// A polled message is not kept hidden.
    NoKeepAlive,
    /// A dead letter is acknowledged, and was not sent.
    LoseDeadLetter,
    /// A schedule of the same name is taken for this one.
    TrustConflict,
    /// The last receive is not known: a deferral spends it.
    SpendLastReceive,
    /// The queue's retention is not known: a message is hidden past it.
    HidePastRetention,
    /// Everything is acknowledged, also what failed.
    AckAll,
    /// The queue's own limit on a message is not known.
    IgnoreMaximumSize,
    /// A process does not see that the gate is closed.
    OpenGate,
    /// The gate opens too soon.
    ShortClosure,
    /// A record that was not let in is counted as a deferral.
    CountGated,
    /// What was hidden for a limit is taken for a message that never was.
    ForgetHolds,
    /// Frigg's rules, which leave some of the promises out.
    Frigg,
}

impl Mutation {
    /// Every one.
    pub const ALL: [Mutation; 24] = [
        Mutation::AckBeforeSend,
        Mutation::FloorDelay,
        Mutation::FloorSchedule,
        Mutation::ShortHold,
        Mutation::HopWithoutRetryAt,
        Mutation::DropAttributes,
        Mutation::PlainSchedule,
        Mutation::UnescapedSchedule,
        Mutation::SendTwice,
        Mutation::ResendOnFifo,
        Mutation::IgnoreCaps,
        Mutation::IgnoreDeadline,
        Mutation::NoKeepAlive,
        Mutation::LoseDeadLetter,
        Mutation::TrustConflict,
        Mutation::SpendLastReceive,
        Mutation::HidePastRetention,
        Mutation::AckAll,
        Mutation::IgnoreMaximumSize,
        Mutation::OpenGate,
        Mutation::ShortClosure,
        Mutation::CountGated,
        Mutation::ForgetHolds,
        Mutation::Frigg,
    ];
}
