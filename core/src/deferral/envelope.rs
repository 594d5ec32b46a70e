//! The `_frigg` envelope: taken out of a body, read, and put back; the body's other bytes stay as they are.
//!
//! The body is spliced as text and never re-serialised: key order, number spelling, escapes and duplicate keys are the
//! sender's. A body that is no JSON object travels inside the envelope, as `{"_frigg":{…,"body":"<text>"}}`, and comes
//! out again byte for byte.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::sync::OnceLock;

use jiff::{SignedDuration, Timestamp};
use memchr::memmem;
use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::Limits;
use crate::time;

const KEY: &str = "_frigg";
/// What the runtime writes under it, beside a wrapped `body`.
const OWN: [&str; 5] = ["deferrals", "gated", "firstDeferredAt", "deferralId", "retryAt"];
/// The schedule's `MaximumEventAgeInSeconds`, which the runtime asks for.
const SCHEDULE_EVENT_AGE: SignedDuration = SignedDuration::from_secs(3600);
/// Two clocks that disagree by more than this are not treated as honest.
const CLOCK_SKEW: SignedDuration = SignedDuration::from_secs(60);

/// What an envelope said. All absent for a message that was never deferred.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Envelope {
    /// How often the message was put back.
    pub deferrals: u32,
    /// How often it was put back before its handler ran, because its key was closed. Not among the deferrals.
    pub gated: u32,
    /// When it was first put back.
    pub first_deferred_at: Option<Timestamp>,
    /// The id that stays through all deferrals.
    pub deferral_id: Option<String>,
    /// Not before this moment.
    pub retry_at: Option<Timestamp>,
}

/// What a stamp writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counters {
    /// How often the message was put back for a limit that it met itself, this time included. 0 is left out.
    pub deferrals: u32,
    /// How often it was put back because its key was closed, this time included. 0 is left out.
    pub gated: u32,
    /// When it was first put back.
    pub first_deferred_at: Timestamp,
    /// The id that stays through all deferrals: the first message's id.
    pub deferral_id: Option<String>,
    /// Not before this moment; `None` leaves it out, as Frigg does.
    pub retry_at: Option<Timestamp>,
}

/// Why an envelope was ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EnvelopeFault {
    /// `_frigg` is no JSON object.
    NoObject,
    /// A member has a value that the runtime never writes.
    Malformed(&'static str),
    /// It belongs to an earlier life of the message: it was redriven from a dead-letter queue, say.
    Stale,
}

impl fmt::Display for EnvelopeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnvelopeFault::NoObject => f.write_str("_frigg is not a JSON object"),
            EnvelopeFault::Malformed(member) => write!(f, "_frigg.{member} is malformed"),
            EnvelopeFault::Stale => {
                f.write_str("the message was sent after the envelope's deferral had to be over")
            }
        }
    }
}

/// How an envelope is judged.
#[derive(Debug, Clone, Copy)]
pub enum Reading {
    /// Member by member, as Frigg does: one that cannot be read is absent, the others count.
    Frigg,
    /// As a whole: if one member is malformed, forged or stale, the envelope is absent.
    Strict {
        /// The moment of reading.
        now: Timestamp,
        /// When SQS took the message.
        sent_at: Option<Timestamp>,
        /// The caps, which bound what a member can say.
        limits: Limits,
    },
}

/// A message's body without its envelope, and the envelope.
#[derive(Clone)]
pub struct Body {
    raw: String,
    /// `raw` without its envelope, where it had one.
    stripped: Option<String>,
    /// Found out when it is first asked for: only a message that is put back has to know.
    form: OnceLock<Form>,
    envelope: Envelope,
    /// Members under `_frigg` that are not ours, as raw JSON.
    foreign: String,
    fault: Option<EnvelopeFault>,
}

/// Without the text: a body belongs in no log.
impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("bytes", &self.raw.len())
            .field("envelope", &self.envelope)
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// A JSON object; a new member goes in at this offset of the text, after a comma where there are others.
    Object { insert_at: usize, empty: bool },
    /// Anything else.
    Text,
}

impl Body {
    /// Takes the envelope out of `body`. Never fails: what is no envelope is body.
    pub fn open(body: impl Into<String>, reading: Reading) -> Body {
        let raw = body.into();
        let mut opened = Body {
            raw: String::new(),
            stripped: None,
            form: OnceLock::new(),
            envelope: Envelope::default(),
            foreign: String::new(),
            fault: None,
        };
        if may_have_envelope(&raw)
            && let Some(members) = members(&raw)
        {
            opened.read(&raw, &members, reading);
        }
        Body { raw, ..opened }
    }

    fn read(&mut self, raw: &str, members: &[Member<'_>], reading: Reading) {
        let Some(own) = members.iter().rev().find(|member| member.is(KEY)) else {
            return;
        };
        let inner = self::members(own.value);
        let wrapped = inner
            .as_ref()
            .and_then(|inner| last(inner, "body"))
            .and_then(string);
        let wrapped = wrapped.filter(|_| members.iter().all(|member| member.is(KEY)));
        let is_wrapped = wrapped.is_some();
        let (text, form) = wrapped.map_or_else(|| strip(raw, members), |text| (text, Form::Text));
        (self.stripped, self.form) = (Some(text), form.into());
        match inner {
            Some(inner) => {
                (self.envelope, self.fault) = read(&inner, reading);
                self.foreign = foreign_members(&inner, is_wrapped);
            }
            None => self.fault = Some(EnvelopeFault::NoObject),
        }
    }

    /// The body as it came.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// What the handler sees: the body without its envelope.
    pub fn text(&self) -> &str {
        self.stripped.as_deref().unwrap_or(&self.raw)
    }

    /// The envelope; all absent when there was none, or none that counts.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }

    /// Why an envelope that was there does not count.
    pub fn fault(&self) -> Option<EnvelopeFault> {
        self.fault
    }

    /// Whether the body is a JSON object, the only form that Frigg can stamp.
    pub fn is_object(&self) -> bool {
        matches!(self.form(), Form::Object { .. })
    }

    fn form(&self) -> Form {
        *self.form.get_or_init(|| form_of(self.text()))
    }

    /// The body with these counters in its envelope.
    ///
    /// ```
    /// use frigg_core::deferral::{Body, Counters, Reading};
    ///
    /// let body = Body::open(r#"{"id":1724442618569203714}"#, Reading::Frigg);
    /// let stamped = body.stamp(&Counters {
    ///     deferrals: 1,
    ///     gated: 0,
    ///     first_deferred_at: "2026-09-28T12:00:00Z".parse()?,
    ///     deferral_id: Some("m-1".into()),
    ///     retry_at: None,
    /// });
    /// assert_eq!(
    ///     stamped,
    ///     r#"{"id":1724442618569203714,"_frigg":{"deferrals":1,"firstDeferredAt":"2026-09-28T12:00:00.000Z","deferralId":"m-1"}}"#
    /// );
    /// assert_eq!(Body::open(&stamped, Reading::Frigg).text(), r#"{"id":1724442618569203714}"#);
    /// # Ok::<(), jiff::Error>(())
    /// ```
    pub fn stamp(&self, counters: &Counters) -> String {
        let text = self.text();
        let mut out = String::with_capacity(text.len() + self.foreign.len() + 192);
        match self.form() {
            Form::Object { insert_at, empty } => {
                out.push_str(&text[..insert_at]);
                out.push_str(if empty { "\"_frigg\":{" } else { ",\"_frigg\":{" });
                self.write_members(&mut out, counters);
                out.push('}');
                out.push_str(&text[insert_at..]);
            }
            Form::Text => {
                out.push_str("{\"_frigg\":{");
                self.write_members(&mut out, counters);
                out.push_str(",\"body\":");
                push_json_string(&mut out, text);
                out.push_str("}}");
            }
        }
        out
    }

    fn write_members(&self, out: &mut String, counters: &Counters) {
        out.push_str(&self.foreign);
        // Writing to a String cannot fail. Frigg knows no deferral number 0; absent is what it takes for that.
        for (name, count) in [("deferrals", counters.deferrals), ("gated", counters.gated)] {
            if count > 0 {
                let _ = write!(out, "\"{name}\":{count},");
            }
        }
        out.push_str("\"firstDeferredAt\":\"");
        time::push_iso(out, counters.first_deferred_at);
        out.push('"');
        if let Some(id) = &counters.deferral_id {
            out.push_str(",\"deferralId\":");
            push_json_string(out, id);
        }
        if let Some(at) = counters.retry_at {
            out.push_str(",\"retryAt\":\"");
            time::push_iso(out, time::ceil_to_millisecond(at));
            out.push('"');
        }
    }
}

/// Whether the text can have a member `_frigg`, in whatever spelling: its letters can be written as `\uXXXX`, and in no
/// other way. Most messages were never put back; this spares them a second parser.
fn may_have_envelope(text: &str) -> bool {
    let has = |part: &str| memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    has(KEY) || has("\\u")
}

/// One member of a JSON object, as it stands in the text.
struct Member<'a> {
    /// With its quotes. Not every key that JSON allows can be decoded: half a surrogate pair cannot.
    key: &'a str,
    value: &'a str,
}

impl Member<'_> {
    /// Whether this is the key, however it is spelled.
    fn is(&self, name: &str) -> bool {
        let plain = self.key.trim_matches('"');
        plain == name || (plain.contains('\\') && string(self.key).is_some_and(|key| key == name))
    }
}

/// The members of a JSON object in order, values as text; `None` when the text is no JSON object.
fn members(text: &str) -> Option<Vec<Member<'_>>> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<Member<'de>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((key, value)) = map.next_entry::<&'de RawValue, &'de RawValue>()? {
                members.push(Member {
                    key: key.get(),
                    value: value.get(),
                });
            }
            Ok(members)
        }
    }

    if !text.trim_start().starts_with('{') {
        return None;
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let members = json.deserialize_map(Members).ok()?;
    json.end().ok()?;
    Some(members)
}

/// Where `part` lies in `whole`, of which it is a slice.
fn span(whole: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Whether the text is a JSON object, and where a member goes in: behind its last one.
fn form_of(text: &str) -> Form {
    let is_object = text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok();
    // What the parser took for an object ends in a brace.
    let Some(inside) = is_object.then(|| text.trim_end().strip_suffix('}')).flatten() else {
        return Form::Text;
    };
    let (insert_at, first) = (inside.trim_end().len(), after_brace(text));
    Form::Object {
        insert_at,
        empty: insert_at == first,
    }
}

fn after_brace(text: &str) -> usize {
    text.find('{').map_or(0, |at| at + 1)
}

/// The text without its `_frigg` members, and its form. A member goes with the comma before it; the first one with the
/// comma after it.
fn strip(text: &str, members: &[Member<'_>]) -> (String, Form) {
    let mut out = String::with_capacity(text.len());
    let mut empty = true;
    let mut insert_at = after_brace(text);
    out.push_str(&text[..insert_at]);
    let mut previous_end = insert_at;
    for member in members {
        let end = span(text, member.value).end;
        let piece = &text[previous_end..end];
        if !member.is(KEY) {
            // The comma that stood before the first member that is left belongs to one that went.
            let comma = if empty {
                piece.find(',').filter(|_| piece.trim_start().starts_with(','))
            } else {
                None
            };
            out.push_str(&piece[comma.map_or(0, |at| at + 1)..]);
            empty = false;
            insert_at = out.len();
        }
        previous_end = end;
    }
    out.push_str(&text[previous_end..]);
    (out, Form::Object { insert_at, empty })
}

fn last<'a>(members: &[Member<'a>], key: &str) -> Option<&'a str> {
    members
        .iter()
        .rev()
        .find(|member| member.is(key))
        .map(|member| member.value)
}

fn string(json: &str) -> Option<String> {
    serde_json::from_str(json).ok()
}

fn foreign_members(inner: &[Member<'_>], wrapped: bool) -> String {
    let mut out = String::new();
    for member in inner {
        let ours = OWN.iter().any(|key| member.is(key)) || (wrapped && member.is("body"));
        if !ours {
            let _ = write!(out, "{}:{},", member.key, member.value);
        }
    }
    out
}

/// Reads the members. Frigg's way leaves out what cannot be read; the strict one then ignores the whole envelope.
fn read(inner: &[Member<'_>], reading: Reading) -> (Envelope, Option<EnvelopeFault>) {
    let mut malformed = None;
    let mut envelope = Envelope::default();
    let mut member = |key: &'static str, accept: &mut dyn FnMut(&str) -> bool| {
        let value = last(inner, key).filter(|value| *value != "null");
        if value.is_some_and(|value| !accept(value)) {
            malformed = malformed.or(Some(EnvelopeFault::Malformed(key)));
        }
    };
    member("deferrals", &mut |json| {
        positive(json).map(|count| envelope.deferrals = count).is_some()
    });
    member("firstDeferredAt", &mut |json| {
        envelope.first_deferred_at = string(json).and_then(|text| time::parse_iso(&text));
        envelope.first_deferred_at.is_some()
    });
    member("deferralId", &mut |json| {
        envelope.deferral_id = string(json).filter(|id| !id.is_empty());
        envelope.deferral_id.is_some()
    });
    let Reading::Strict { now, sent_at, limits } = reading else {
        return (envelope, None);
    };
    member("gated", &mut |json| {
        positive(json).map(|count| envelope.gated = count).is_some()
    });
    member("retryAt", &mut |json| {
        envelope.retry_at = string(json).and_then(|text| time::parse_iso(&text));
        envelope.retry_at.is_some()
    });

    let cap = SignedDuration::try_from(limits.max_deferred).unwrap_or(SignedDuration::MAX);
    let later_than =
        |at: Option<Timestamp>, by: SignedDuration| at.is_some_and(|at| at.duration_since(now) > by);
    let fault = if malformed.is_some() {
        malformed
    } else if later_than(envelope.first_deferred_at, CLOCK_SKEW) {
        Some(EnvelopeFault::Malformed("firstDeferredAt"))
    } else if later_than(envelope.retry_at, cap) {
        Some(EnvelopeFault::Malformed("retryAt"))
    } else if is_stale(&envelope, sent_at, cap) {
        Some(EnvelopeFault::Stale)
    } else {
        None
    };
    if fault.is_some() {
        (Envelope::default(), fault)
    } else {
        (envelope, None)
    }
}

/// Sent later than any copy that this envelope can have travelled in: a fresh start, with fresh caps.
fn is_stale(envelope: &Envelope, sent_at: Option<Timestamp>, cap: SignedDuration) -> bool {
    let (Some(first), Some(sent)) = (envelope.first_deferred_at, sent_at) else {
        return false;
    };
    sent.duration_since(first) > cap.saturating_add(SCHEDULE_EVENT_AGE).saturating_add(CLOCK_SKEW)
}

/// A positive whole number, as JavaScript's `Number.isInteger` takes it (`2.0` and `1e1` pass); huge ones saturate.
fn positive(json: &str) -> Option<u32> {
    let value: f64 = json.parse().ok()?;
    (value >= 1.0 && value.fract() == 0.0).then_some(value as u32)
}

fn push_json_string(out: &mut String, text: &str) {
    if text
        .bytes()
        .all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
    {
        out.push('"');
        out.push_str(text);
        return out.push('"');
    }
    // A string always serialises.
    out.push_str(&serde_json::to_string(text).unwrap_or_default());
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;
