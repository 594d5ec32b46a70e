//! JSON lines: one object a line, with the fields of the surrounding spans, dotted names nested.
//!
//! `messageId` and `receiveCount` are fields of a record's span, so they are on every line that is written while a
//! record is handled, the handler's own included.

use std::fmt;
use std::io::Write as _;

use frigg_core::deferral::BadValue;
use frigg_core::time;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Filter, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clock::Clock;

/// Installs JSON lines on standard output, unless the program has set up logging of its own.
///
/// The level comes from `RUST_LOG` (`debug`, `info,my_crate=debug`), else `AWS_LAMBDA_LOG_LEVEL` (`DEBUG`), else it is
/// `INFO`. A value that cannot be read counts as unset, and one WARN says so. Lines of level TRACE from the AWS clients
/// and the Lambda runtime are never written: they quote bodies.
pub fn init(variable: impl Fn(&str) -> Option<String>) {
    let (levels, bad) = levels(variable);
    let lines = JsonLines::new(Clock::system(), |line| {
        // Nothing can be done about a closed standard output.
        let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
    });
    let _ = tracing_subscriber::registry()
        .with(lines.with_filter(of_levels(levels)))
        .try_init();
    bad.iter().for_each(bad_setting);
}

/// One WARN for a variable that cannot be used.
pub(crate) fn bad_setting(bad: &BadValue) {
    tracing::warn!(
        target: "frigg.worker", eventName = "frigg.worker.bad_setting",
        variable = bad.name, value = bad.value, default = bad.default, "{bad}",
    );
}

fn levels(variable: impl Fn(&str) -> Option<String>) -> (Targets, Vec<BadValue>) {
    let mut bad = Vec::new();
    let mut read = |name: &'static str, parse: fn(&str) -> Option<Targets>| {
        // Empty is unset; as a level it would mean ERROR.
        let text = variable(name).map(|text| text.trim().to_owned());
        let text = text.filter(|text| !text.is_empty())?;
        let levels = parse(&text);
        if levels.is_none() {
            bad.push(BadValue::new(name, &text, "INFO"));
        }
        levels
    };
    let everything = |level: LevelFilter| Targets::new().with_default(level);
    let rust_log = read("RUST_LOG", |text| text.parse().ok());
    // A name that is no level would be a target here, and silence all others.
    let of_lambda = read("AWS_LAMBDA_LOG_LEVEL", |text| {
        let fatal = text.eq_ignore_ascii_case("fatal");
        let level = if fatal {
            Some(LevelFilter::ERROR)
        } else {
            text.parse().ok()
        };
        level.map(|level| Targets::new().with_default(level))
    });
    let levels = rust_log
        .or(of_lambda)
        .unwrap_or_else(|| everything(LevelFilter::INFO));
    (levels, bad)
}

/// Crates that write whole payloads at TRACE: the Lambda event, a request to SQS with its bodies, bytes of a connection.
const QUOTE_BODIES: [&str; 6] = ["aws_", "h2", "hyper", "lambda_http", "lambda_runtime", "rustls"];

/// Whether a line could show a message's body. Those are not written whatever the level: a body belongs in no log.
fn quotes_bodies(metadata: &Metadata<'_>) -> bool {
    *metadata.level() == Level::TRACE
        && QUOTE_BODIES
            .iter()
            .any(|name| metadata.target().starts_with(name))
}

/// The runtime's own spans are never filtered out: their fields belong on the lines of others too.
fn of_levels<S>(levels: Targets) -> impl Filter<S> {
    let hint = Filter::<S>::max_level_hint(&levels).map(|hint| hint.max(LevelFilter::ERROR));
    let enabled = move |metadata: &Metadata<'_>| {
        let own_span = metadata.is_span() && metadata.target() == "frigg.worker";
        own_span || (levels.would_enable(metadata.target(), metadata.level()) && !quotes_bodies(metadata))
    };
    match hint {
        Some(hint) => FilterFn::new(enabled).with_max_level_hint(hint),
        None => FilterFn::new(enabled),
    }
}

/// The layer that writes the lines.
pub struct JsonLines<W> {
    clock: Clock,
    write: W,
}

impl<W: Fn(&str) + 'static> JsonLines<W> {
    /// Gives each line, without a line feed, to `write`.
    pub fn new(clock: Clock, write: W) -> Self {
        JsonLines { clock, write }
    }
}

impl<W> fmt::Debug for JsonLines<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonLines")
    }
}

/// What every line begins with.
const HEAD: [&str; 3] = ["timestamp", "level", "logger"];

/// An event's fields, those of its spans among them.
#[derive(Default)]
struct Fields(Map<String, Value>);

/// A span's fields, as they came. Every record has a span and most write no line: what a line needs is done there.
#[derive(Default)]
struct SpanFields(Vec<(&'static str, Value)>);

impl<S, W> Layer<S> for JsonLines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: Fn(&str) + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = SpanFields::default();
        attributes.record(&mut Visited(|name, value| fields.0.push((name, value))));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<SpanFields>()
        {
            values.record(&mut Visited(|name, value| fields.0.push((name, value))));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        for span in context
            .event_scope(event)
            .into_iter()
            .flat_map(|scope| scope.from_root())
        {
            if let Some(of_span) = span.extensions().get::<SpanFields>() {
                for (name, value) in &of_span.0 {
                    fields.insert(name, value.clone());
                }
            }
        }
        event.record(&mut Visited(|name, value| fields.insert(name, value)));
        let metadata = event.metadata();
        // A target cannot be made at run time; a field can: `module.hubspot`.
        let logger = fields.0.remove("logger");
        let logger = logger.unwrap_or_else(|| metadata.target().into());
        // The keys that a reader looks for first come first; a map would sort them in.
        let mut line = String::with_capacity(512);
        line.push_str("{\"timestamp\":\"");
        line.push_str(&time::iso(self.clock.now()));
        line.push_str("\",\"level\":\"");
        line.push_str(metadata.level().as_str());
        line.push_str("\",\"logger\":");
        // A value always serialises.
        let json = |value: &Value| serde_json::to_string(value).unwrap_or_default();
        line.push_str(&json(&logger));
        for (key, value) in &fields.0 {
            line.push(',');
            line.push_str(&json(&Value::from(key.as_str())));
            line.push(':');
            line.push_str(&json(value));
        }
        line.push('}');
        (self.write)(&line);
    }
}

impl Fields {
    fn insert(&mut self, name: &str, value: Value) {
        match name.split_once('.') {
            // The line has these by itself; a second one would hide them from most readers.
            None if HEAD.contains(&name) => drop(self.0.insert(format!("{name}_"), value)),
            None => drop(self.0.insert(name.to_owned(), value)),
            Some((outer, inner)) => {
                let object = self.0.entry(outer).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(members) = object {
                    members.insert(inner.to_owned(), value);
                }
            }
        }
    }
}

/// Gives each visited field away.
struct Visited<F>(F);

impl<F: FnMut(&'static str, Value)> Visit for Visited<F> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        (self.0)(field.name(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        (self.0)(field.name(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        (self.0)(field.name(), value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        (self.0)(field.name(), value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        (self.0)(field.name(), value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        (self.0)(field.name(), format!("{value:?}").into());
    }
}
