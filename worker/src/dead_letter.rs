//! The copy that goes to the dead-letter queue, and why, in its attributes.

use frigg_core::deferral::Burial;
use frigg_core::delivery::{AttributeValue, MessageAttribute, QueueArn};
use frigg_core::time;

use crate::error::HandlerError;
use crate::ports::SendRequest;
use crate::record::Record;
use crate::report::clean;

/// A message has at most ten attributes. The sender's own come first; reasons take what is free.
const MAX_ATTRIBUTES: usize = 10;
/// SQS's limit on a message, attributes included. A reason that does not fit is left to the log: with it the copy would
/// be refused each time.
const MAX_BYTES: usize = 1 << 20;

/// The message as its sender wrote it, without `_frigg`, so that a redrive starts afresh.
pub(crate) fn copy(record: &Record, burial: &Burial, error: &HandlerError, target: &QueueArn) -> SendRequest {
    let delivery = &record.delivery;
    let mut copy = SendRequest::new(record.body.text(), 0);
    copy.attributes.clone_from(&delivery.message_attributes);
    copy.trace_header = delivery.attributes.get("AWSTraceHeader").cloned();
    copy.group_id.clone_from(&delivery.group_id);
    if target.is_fifo() {
        // Content-based deduplication would drop the second of two messages with the same body.
        copy.deduplication_id = Some(delivery.message_id.clone());
        copy.group_id.get_or_insert_with(|| delivery.message_id.clone());
    }
    let first_seen = delivery
        .first_deferred_at
        .or(delivery.first_received_at)
        .or(delivery.sent_at);
    let reasons = [
        ("FriggReason", Some(burial.as_str().to_owned())),
        ("FriggError", Some(clean(&error.to_string(), record.body.text()))),
        ("FriggMessageId", Some(delivery.stable_id().to_owned())),
        ("FriggDeferrals", Some(delivery.deferrals.to_string())),
        ("FriggFirstSeen", first_seen.map(time::iso)),
    ];
    for (name, value) in reasons {
        // An attribute without a value is refused.
        let value = value.filter(|value| !value.is_empty());
        if let Some(value) = value
            && copy.attributes.len() < MAX_ATTRIBUTES
            && !copy.attributes.contains_key(name)
        {
            let data_type = if name == "FriggDeferrals" {
                "Number"
            } else {
                "String"
            };
            let size = value.len();
            let attribute = MessageAttribute {
                data_type: data_type.to_owned(),
                value: AttributeValue::Text(value),
            };
            if copy.bytes() + name.len() + data_type.len() + size <= MAX_BYTES {
                copy.attributes.insert(name.to_owned(), attribute);
            }
        }
    }
    copy
}
