//! What a test's own thread logs, all levels and all crates.

use std::fmt;
use std::sync::{Arc, Mutex, Once};

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

#[derive(Clone, Default)]
pub struct Logs(Arc<Mutex<Vec<Value>>>);

impl Logs {
    /// Captures until the guard is dropped, which looks for planted secrets in every line.
    pub fn capture() -> (Logs, Guard) {
        // reqwest writes with `log`.
        static BRIDGE: Once = Once::new();
        BRIDGE.call_once(|| tracing_log::LogTracer::init().expect("the only logger"));
        let logs = Logs::default();
        let guard =
            tracing::subscriber::set_default(tracing_subscriber::registry().with(Capture(logs.clone())));
        (logs.clone(), Guard(logs, guard))
    }

    pub fn lines(&self) -> Vec<Value> {
        self.0.lock().expect("logs").clone()
    }

    pub fn named(&self, event: &str) -> Vec<Value> {
        let lines = self.lines().into_iter();
        lines.filter(|line| line["eventName"] == event).collect()
    }
}

pub struct Guard(Logs, DefaultGuard);

impl Drop for Guard {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            super::secrets::assert_none_logged(&self.0);
        }
    }
}

struct Capture(Logs);

impl<S: Subscriber> Layer<S> for Capture {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        fields
            .0
            .insert("level".to_owned(), metadata.level().as_str().into());
        fields.0.insert("target".to_owned(), metadata.target().into());
        self.0.0.lock().expect("logs").push(fields.0.into());
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match field.name().split_once('.') {
            Some((outer, inner)) => {
                let outer = self.0.entry(outer).or_insert_with(|| Value::Object(Map::new()));
                outer[inner] = value;
            }
            None => drop(self.0.insert(field.name().to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}
