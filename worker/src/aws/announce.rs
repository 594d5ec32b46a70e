//! Who hears of a new user warning: a topic, a bus.

#[cfg(feature = "eventbridge")]
mod bus {
    use aws_sdk_eventbridge::Client;
    use aws_sdk_eventbridge::types::PutEventsRequestEntry;
    use futures_util::future::BoxFuture;
    use serde_json::{Value, json};

    use super::super::{Aws, PerRegion, call_error};
    use super::region_of;
    use crate::error::BoxError;
    use crate::warnings::Announce;

    /// Puts each new warning on an EventBridge bus, as an event with the source `frigg`, the detail type `RATE_LIMITED`
    /// and the detail `{"integrationId": …, "warning": …}`.
    ///
    /// It needs `events:PutEvents` on the bus.
    #[derive(Debug)]
    pub struct EventBus {
        aws: Aws,
        /// A name, or an ARN.
        bus: String,
        clients: PerRegion<Client>,
    }

    impl EventBus {
        /// The bus of this name or ARN. Calls nothing.
        pub fn new(aws: Aws, bus: impl Into<String>) -> Self {
            EventBus {
                aws,
                bus: bus.into(),
                clients: PerRegion::default(),
            }
        }
    }

    impl Announce for EventBus {
        fn announce<'a>(
            &'a self,
            integration: &'a str,
            warning: &'a Value,
        ) -> BoxFuture<'a, Result<(), BoxError>> {
            Box::pin(async move {
                let detail = json!({ "integrationId": integration, "warning": warning });
                let event = PutEventsRequestEntry::builder()
                    .event_bus_name(&self.bus)
                    .source("frigg")
                    .detail_type("RATE_LIMITED")
                    .detail(detail.to_string())
                    .build();
                let client = self.clients.get(&self.aws, region_of(&self.bus), Client::new);
                let call = client.await.put_events().entries(event);
                let answer = call.send().await.map_err(|error| call_error(&error))?;
                // It answers 200 and says here what it did not take.
                match answer.entries().iter().find_map(|entry| entry.error_code()) {
                    Some(code) => Err(format!("the bus {} did not take the event: {code}", self.bus).into()),
                    None => Ok(()),
                }
            })
        }
    }
}

#[cfg(feature = "sns")]
mod topic {
    use aws_sdk_sns::Client;
    use aws_sdk_sns::types::MessageAttributeValue;
    use futures_util::future::BoxFuture;
    use serde_json::{Value, json};

    use super::super::{Aws, PerRegion, call_error};
    use super::region_of;
    use crate::error::BoxError;
    use crate::warnings::Announce;

    /// Publishes each new warning to an SNS topic, as `{"integrationId": …, "warning": …}`, with the attributes `code`,
    /// `module` and `reason` for filters.
    ///
    /// It needs `sns:Publish` on the topic.
    #[derive(Debug)]
    pub struct Topic {
        aws: Aws,
        arn: String,
        clients: PerRegion<Client>,
    }

    impl Topic {
        /// The topic of this ARN. Calls nothing.
        pub fn new(aws: Aws, arn: impl Into<String>) -> Self {
            Topic {
                aws,
                arn: arn.into(),
                clients: PerRegion::default(),
            }
        }
    }

    impl Announce for Topic {
        fn announce<'a>(
            &'a self,
            integration: &'a str,
            warning: &'a Value,
        ) -> BoxFuture<'a, Result<(), BoxError>> {
            Box::pin(async move {
                let message = json!({ "integrationId": integration, "warning": warning });
                let client = self.clients.get(&self.aws, region_of(&self.arn), Client::new);
                let mut call = client.await.publish().topic_arn(&self.arn);
                call = call.message(message.to_string());
                if let Some(title) = warning["title"].as_str() {
                    call = call.subject(title);
                }
                for name in ["code", "module", "reason"] {
                    if let Some(text) = warning[name].as_str().filter(|text| !text.is_empty()) {
                        let value = MessageAttributeValue::builder()
                            .data_type("String")
                            .string_value(text);
                        call = call.message_attributes(name, value.build()?);
                    }
                }
                call.send().await.map_err(|error| call_error(&error))?;
                Ok(())
            })
        }
    }
}

#[cfg(feature = "eventbridge")]
pub use bus::EventBus;
#[cfg(feature = "sns")]
pub use topic::Topic;

/// The region that an ARN names.
#[cfg(any(feature = "eventbridge", feature = "sns"))]
fn region_of(arn: &str) -> Option<&str> {
    let mut parts = arn.split(':');
    parts.next().filter(|first| *first == "arn")?;
    parts.nth(2).filter(|region| !region.is_empty())
}

#[cfg(all(test, any(feature = "eventbridge", feature = "sns")))]
mod tests {
    #[test]
    fn an_arn_names_its_region_and_a_name_none() {
        for (name, want) in [
            ("arn:aws:sns:eu-west-1:123456789012:users", Some("eu-west-1")),
            (
                "arn:aws-cn:events:cn-north-1:123456789012:event-bus/users",
                Some("cn-north-1"),
            ),
            ("arn:aws:events::123456789012:x", None),
            ("default", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(super::region_of(name), want, "{name}");
        }
    }
}
