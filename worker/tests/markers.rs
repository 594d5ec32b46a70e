//! What a handler's error means, whatever it is wrapped in; and that it tells no secret.

#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::sync::Arc;

use anyhow::Context as _;
use frigg_worker::core::delivery::{AttributeValue, MessageAttribute};
use frigg_worker::core::marker::Permanent;
use frigg_worker::core::rate_limit::{RateLimited, Reason};
use frigg_worker::ports::{ScheduleRequest, ScheduleTarget, SendRequest};
use frigg_worker::{BoxError, Delivery, HandlerError, Job, Message, Raw};
use jiff::Timestamp;

fn retry_at() -> Timestamp {
    "2026-09-28T23:00:00Z".parse().unwrap()
}

fn limited() -> RateLimited {
    RateLimited::until(retry_at())
        .with_reason(Reason::Daily)
        .with_status(429)
}

/// A client's error for a 404, marked as its last source.
#[derive(Debug, thiserror::Error)]
#[error("status 404")]
struct NotFound(#[source] Permanent);

fn not_found() -> NotFound {
    NotFound(Permanent { status: Some(404) })
}

#[derive(Debug, thiserror::Error)]
enum Inner<E: StdError + 'static> {
    #[error(transparent)]
    Transparent(#[from] E),
}

#[derive(Debug, thiserror::Error)]
enum Middle<E: StdError + 'static> {
    #[error("the client failed")]
    Client(#[source] Inner<E>),
}

#[derive(Debug, thiserror::Error)]
enum Outer<E: StdError + 'static> {
    #[error(transparent)]
    Service(#[from] Middle<E>),
}

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct ThreeTransparent<E: StdError + 'static>(TwoTransparent<E>);
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct TwoTransparent<E: StdError + 'static>(Inner<E>);

/// By hand: `source()` is all that it offers.
#[derive(Debug)]
struct ByHand<E>(E);

impl<E> fmt::Display for ByHand<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sync failed")
    }
}

impl<E: StdError + 'static> StdError for ByHand<E> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

/// Hides what it holds.
#[derive(Debug, thiserror::Error)]
#[error("opaque")]
struct Hidden<E: fmt::Debug>(E);

/// `error` through `?`, in each wrapping that lets it through.
fn wrappings<E: StdError + Send + Sync + 'static>(error: fn() -> E) -> Vec<(&'static str, HandlerError)> {
    fn through<E: Into<HandlerError>>(error: E) -> HandlerError {
        let call = || -> Result<(), HandlerError> { Err(error.into()) };
        call().unwrap_err()
    }
    vec![
        (
            "bare, through ?",
            (|| -> Result<(), HandlerError> { Ok(Err(error())?) })().unwrap_err(),
        ),
        ("Box<E>", through(Box::new(error()))),
        ("Box<dyn Error>", through(BoxError::from(error()))),
        (
            "Box<dyn Error> through ?",
            (|| -> Result<(), HandlerError> { Ok(Err(BoxError::from(error()))?) })().unwrap_err(),
        ),
        ("Box in Box", through(BoxError::from(Box::new(ByHand(error()))))),
        ("Arc<E>", through(Arc::new(error()))),
        (
            "Arc<dyn Error>",
            through(ByHand(Arc::<dyn StdError + Send + Sync>::from(BoxError::from(
                error(),
            )))),
        ),
        ("anyhow", through(anyhow::Error::new(error()))),
        (
            "anyhow with context",
            through(anyhow::Error::new(error()).context("while syncing")),
        ),
        (
            "anyhow with two contexts",
            through(
                Err::<(), _>(error())
                    .context("while reading")
                    .context("while syncing")
                    .unwrap_err(),
            ),
        ),
        (
            "anyhow as Box<dyn Error>",
            through(BoxError::from(anyhow::Error::new(error()))),
        ),
        (
            "anyhow with context as Box<dyn Error>",
            through(BoxError::from(
                anyhow::Error::new(error()).context("while syncing"),
            )),
        ),
        (
            "anyhow of a wrapper",
            through(anyhow::Error::new(ByHand(error()))),
        ),
        ("transparent", through(Inner::from(error()))),
        (
            "transparent of transparent of transparent",
            through(ThreeTransparent(TwoTransparent(Inner::from(error())))),
        ),
        (
            "transparent of source of transparent",
            through(Outer::from(Middle::Client(Inner::from(error())))),
        ),
        (
            "the same in anyhow in a box",
            through(BoxError::from(anyhow::Error::new(Outer::from(Middle::Client(
                Inner::from(error()),
            ))))),
        ),
        ("io::Error::other", through(io::Error::other(error()))),
        (
            "io::Error::other of a wrapper",
            through(io::Error::other(ByHand(error()))),
        ),
        (
            "io::Error in io::Error",
            through(io::Error::other(io::Error::other(error()))),
        ),
        ("a struct with source()", through(ByHand(error()))),
        (
            "three structs with source()",
            through(ByHand(ByHand(ByHand(error())))),
        ),
    ]
}

#[test]
fn a_limit_is_found_in_every_wrapping() {
    for (wrapping, error) in wrappings(limited) {
        assert!(error.is_rate_limited(), "{wrapping}");
        assert!(!error.is_permanent(), "{wrapping}");
        let limit = error.limit().unwrap();
        assert_eq!(limit.retry_at, Some(retry_at()), "{wrapping}");
        assert_eq!(
            (limit.reason, error.status()),
            (Reason::Daily, Some(429)),
            "{wrapping}"
        );
        assert!(
            error.to_string().contains("rate limited (daily)"),
            "{wrapping}: {error}"
        );
    }
}

#[test]
fn a_permanent_mark_is_found_in_every_wrapping() {
    for (wrapping, error) in wrappings(not_found) {
        assert!(error.is_permanent(), "{wrapping}");
        assert!(!error.is_rate_limited(), "{wrapping}");
        assert_eq!(error.status(), Some(404), "{wrapping}");
    }
}

#[test]
fn an_ordinary_error_is_tried_again() {
    for (wrapping, error) in wrappings(|| io::Error::from(io::ErrorKind::TimedOut)) {
        assert!(!error.is_permanent() && !error.is_rate_limited(), "{wrapping}");
        assert_eq!((error.limit(), error.status()), (None, None), "{wrapping}");
    }
    let text: HandlerError = "a text".into();
    assert!(!text.is_permanent() && !text.is_rate_limited());
    // Where nothing leads to the mark, nothing is found.
    let hidden: HandlerError = Hidden(limited()).into();
    assert!(!hidden.is_rate_limited());
}

#[test]
fn the_callers_word_and_the_marks() {
    // What is said, whether it is permanent, and whether it is a limit.
    let rows = [
        (
            "permanent(limit)",
            HandlerError::permanent(limited()),
            true,
            false,
        ),
        (
            "permanent(ordinary)",
            HandlerError::permanent("no such contact"),
            true,
            false,
        ),
        (
            "retryable(permanent)",
            HandlerError::retryable(not_found()),
            false,
            false,
        ),
        (
            "retryable(limit)",
            HandlerError::retryable(limited()),
            false,
            true,
        ),
        (
            "a limit under a permanent mark",
            ByHand(LimitedNotFound(limited())).into(),
            false,
            true,
        ),
    ];
    for (row, error, permanent, limit) in rows {
        assert_eq!(
            (error.is_permanent(), error.is_rate_limited()),
            (permanent, limit),
            "{row}"
        );
        assert_eq!(error.limit().is_some(), limit, "{row}");
    }
}

/// A provider's 403 that is a limit.
#[derive(Debug, thiserror::Error)]
#[error("status 403")]
struct LimitedNotFound(#[source] RateLimited);

#[test]
fn an_error_is_one_line_without_repetitions() {
    let error: HandlerError = anyhow::Error::new(ByHand(limited()))
        .context("while syncing")
        .into();
    let text = "while syncing: the sync failed: rate limited (daily), not before 2026-09-28T23:00:00.000Z";
    assert_eq!(error.to_string(), text);
    assert_eq!(format!("{error:?}"), format!("HandlerError(Marked: {text})"));
}

/// Bodies and values of attributes are in no text that could reach a log.
#[test]
fn nothing_prints_a_body_or_an_attribute() {
    const SECRET: &str = "s3cr3t";
    let attribute = |value| MessageAttribute {
        data_type: "String".to_owned(),
        value,
    };
    let attributes = HashMap::from([
        (
            "text".to_owned(),
            attribute(AttributeValue::Text(SECRET.to_owned())),
        ),
        (
            "bytes".to_owned(),
            attribute(AttributeValue::Binary(SECRET.as_bytes().to_vec())),
        ),
    ]);
    let mut copy = SendRequest::new(SECRET, 0);
    copy.attributes = attributes.clone();
    let mut delivery = Delivery::default();
    delivery.message_attributes = attributes;
    let schedule = ScheduleRequest {
        name: "n".to_owned(),
        group: "g".to_owned(),
        at: retry_at(),
        region: "eu-west-1".to_owned(),
        target: ScheduleTarget::SendMessage,
        role_arn: "r".to_owned(),
        input: SECRET.to_owned(),
        dead_letter_arn: None,
    };
    let undecoded = <u32 as Message>::decode(&format!("{SECRET:?}")).unwrap_err();
    let unwrapped: HandlerError = undecoded.clone().into();
    for text in [
        format!("{copy:?}"),
        format!("{schedule:?}"),
        format!("{delivery:?}"),
        format!("{:?}", Job::new(Raw(SECRET.to_owned()), delivery.clone())),
        format!("{undecoded:?} {undecoded}"),
        format!("{unwrapped:?} {unwrapped}"),
    ] {
        assert!(!text.contains(SECRET), "{text}");
        // Nor byte by byte.
        assert!(!text.contains("115, 51"), "{text}");
    }
}
