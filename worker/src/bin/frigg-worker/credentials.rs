//! Credentials by reference: a message names one as `${NAME}` in a header, and never holds it.
//!
//! Only what `FRIGG_HTTP_CREDENTIALS` lists can be named, so that a message cannot read the function's environment, and
//! `@host` binds one to the host that it belongs to.

use std::env;
use std::fmt;
use std::sync::OnceLock;

use frigg_requester::{FetchError, Requester};
use serde::Deserialize;

use crate::hosts;

/// What may be named.
pub(crate) struct Credentials {
    listed: Vec<Listed>,
    /// Built when a message first names one of its credentials: an HTTP client costs start-up time.
    extension: OnceLock<Option<Requester>>,
}

#[derive(Debug, PartialEq)]
struct Listed {
    name: String,
    host: Option<String>,
}

/// Why a header cannot be filled in.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The message asks for what it cannot have. Trying again cannot help.
    Refused(String),
    /// The extension did not give it.
    Unavailable(String, FetchError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Refused(what) => f.write_str(what),
            Fault::Unavailable(name, error) => {
                write!(f, "the Parameters and Secrets extension gives no {name}: {error}")
            }
        }
    }
}

impl std::error::Error for Fault {}

impl Credentials {
    pub(crate) fn parse(list: &str) -> Credentials {
        let entry = |text: &str| match text.rsplit_once('@') {
            Some((name, host)) => Listed {
                name: name.to_owned(),
                host: Some(host.to_ascii_lowercase()),
            },
            None => Listed {
                name: text.to_owned(),
                host: None,
            },
        };
        let listed = list
            .split(',')
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(entry)
            .collect();
        // It answers inside the function's own sandbox, so the address cannot be anybody else's.
        Credentials {
            listed,
            extension: OnceLock::new(),
        }
    }

    fn extension(&self) -> Option<&Requester> {
        let build = || {
            let port =
                env::var("PARAMETERS_SECRETS_EXTENSION_HTTP_PORT").unwrap_or_else(|_| "2773".to_owned());
            let extension = Requester::builder(format!("http://localhost:{port}"));
            extension.module("extension").no_proxy().build().ok()
        };
        self.extension.get_or_init(build).as_ref()
    }

    /// A header's value with every `${…}` replaced.
    pub(crate) async fn fill_in(&self, value: &str, host: &str) -> Result<String, Fault> {
        let mut filled = String::with_capacity(value.len());
        let mut rest = value;
        while let Some((before, after)) = rest.split_once("${") {
            let Some((name, after)) = after.split_once('}') else {
                return Err(Fault::Refused("a header has ${ without }".to_owned()));
            };
            filled.push_str(before);
            filled.push_str(&self.get(name, host).await?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    async fn get(&self, name: &str, host: &str) -> Result<String, Fault> {
        let allowed = |listed: &Listed| {
            listed.name == name
                && listed
                    .host
                    .as_ref()
                    .is_none_or(|pattern| hosts::matches(pattern, host))
        };
        if !self.listed.iter().any(allowed) {
            return Err(Fault::Refused(format!(
                "the credential {name:?} is not listed for {host} in FRIGG_HTTP_CREDENTIALS"
            )));
        }
        if let Some(parameter) = name.strip_prefix("ssm:") {
            #[derive(Deserialize)]
            #[serde(rename_all = "PascalCase")]
            struct Answer {
                parameter: Parameter,
            }
            #[derive(Deserialize)]
            #[serde(rename_all = "PascalCase")]
            struct Parameter {
                value: String,
            }
            let query = [("name", parameter), ("withDecryption", "true")];
            let answer: Answer = self.ask(name, "systemsmanager/parameters/get", &query).await?;
            return Ok(answer.parameter.value);
        }
        if let Some(secret) = name.strip_prefix("secret:") {
            #[derive(Deserialize)]
            #[serde(rename_all = "PascalCase")]
            struct Answer {
                secret_string: String,
            }
            let answer: Answer = self
                .ask(name, "secretsmanager/get", &[("secretId", secret)])
                .await?;
            return Ok(answer.secret_string);
        }
        env::var(name).map_err(|_| Fault::Refused(format!("the environment has no {name}")))
    }

    /// https://docs.aws.amazon.com/systems-manager/latest/userguide/ps-integration-lambda-extensions.html
    async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<T, Fault> {
        let unavailable = |error| Fault::Unavailable(name.to_owned(), error);
        let Some(extension) = self.extension() else {
            return Err(Fault::Refused(
                "PARAMETERS_SECRETS_EXTENSION_HTTP_PORT is no port".to_owned(),
            ));
        };
        let token = env::var("AWS_SESSION_TOKEN").unwrap_or_default();
        let call = extension
            .get(path)
            .query(query)
            .header("x-aws-parameters-secrets-token", &token);
        call.send()
            .await
            .map_err(unavailable)?
            .json()
            .await
            .map_err(unavailable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_is_listed_for_the_host_is_filled_in() {
        // One that is set wherever tests run.
        let credentials = Credentials::parse("PATH@api.example.com, FRIGG_TEST_UNSET");
        let fill = |value: &'static str, host: &'static str| credentials.fill_in(value, host);
        let filled = fill("Bearer ${PATH}!", "api.example.com").await.unwrap();
        assert_eq!(filled, format!("Bearer {}!", env::var("PATH").unwrap()));
        assert_eq!(fill("plain $ {x}", "h").await.unwrap(), "plain $ {x}");
        for (value, host) in [
            ("${PATH}", "evil.example.net"),
            ("${HOME}", "api.example.com"),
            ("${FRIGG_TEST_UNSET}", "api.example.com"),
            ("${PATH", "api.example.com"),
            ("${ssm:/prod/x}", "api.example.com"),
        ] {
            let fault = fill(value, host).await.unwrap_err();
            assert!(matches!(fault, Fault::Refused(_)), "{value}: {fault}");
            assert!(!fault.to_string().contains(&env::var("PATH").unwrap()), "{fault}");
        }
    }
}
