//! Signed calls to a handful of AWS APIs.
//!
//! The SDK's crates for Lambda, IAM and CloudFormation take longer to build than the rest of the project together, for ten
//! calls that only read. Credentials, region and endpoint are the SDK's own.

use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use aws_config::{BehaviorVersion, SdkConfig};
use aws_credential_types::provider::ProvideCredentials as _;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http::{Method, Request};
use serde_json::Value;

const ATTEMPTS: u32 = 3;
const TIMEOUT: Duration = Duration::from_secs(20);

/// What AWS answered instead of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// AWS's error code, without a prefix.
    pub code: String,
    /// Its text.
    pub message: String,
}

impl Refusal {
    /// Whether the thing that was asked for does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        self.status == 404
            || self.code.contains("NonExistentQueue")
            || self.code.contains("QueueDoesNotExist")
            || matches!(self.code.as_str(), "NoSuchEntity" | "ResourceNotFoundException")
            || (self.code == "ValidationError" && self.message.contains("does not exist"))
    }

    /// Whether the caller may not ask.
    pub(crate) fn is_denied(&self) -> bool {
        self.code.starts_with("AccessDenied") || self.code.starts_with("UnauthorizedOperation")
    }

    fn is_passing(&self) -> bool {
        self.status == 429 || self.status >= 500 || self.code.contains("Throttl")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status == 0 {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.code, self.message)
        }
    }
}

impl std::error::Error for Refusal {}

/// A caller with credentials and a region.
#[derive(Debug)]
pub(crate) struct Aws {
    config: SdkConfig,
    client: reqwest::Client,
    region: String,
}

impl Aws {
    /// As the environment, the profile and `region` say.
    ///
    /// # Errors
    ///
    /// When there is no region or there are no credentials; the text says how to get them.
    pub(crate) async fn load(region: Option<String>, profile: Option<String>) -> Result<Aws> {
        let mut loader =
            aws_config::defaults(BehaviorVersion::latest()).http_client(frigg_worker::Aws::https_client());
        if let Some(profile) = profile {
            loader = loader.profile_name(profile);
        }
        if let Some(region) = region {
            loader = loader.region(aws_config::Region::new(region));
        }
        let config = loader.load().await;
        let region = config
            .region()
            .context("no region is set: pass --region, or set AWS_REGION, or run `aws configure`")?
            .to_string();
        let aws = Aws {
            client: reqwest::Client::builder()
                .timeout(TIMEOUT)
                .build()
                .context("failed to set up TLS")?,
            region,
            config,
        };
        aws.identity().await?;
        Ok(aws)
    }

    /// Where it looks.
    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    async fn identity(&self) -> Result<aws_credential_types::Credentials> {
        let advice =
            "no AWS credentials were found: run `aws configure` or `aws sso login`, or set AWS_PROFILE";
        let provider = self.config.credentials_provider().context(advice)?;
        provider.provide_credentials().await.map_err(|error| {
            let why = chain(&error);
            anyhow!("{advice} ({})", why.lines().next().unwrap_or_default())
        })
    }

    /// An API of the REST kind: `path` with its query, JSON back.
    ///
    /// # Errors
    ///
    /// When AWS refuses or does not answer.
    pub(crate) async fn get(&self, service: &str, path: &str) -> Result<Value, Refusal> {
        let text = self.call(service, Method::GET, path, &[], String::new()).await?;
        parse(&text)
    }

    /// An API of the JSON kind.
    ///
    /// # Errors
    ///
    /// When AWS refuses or does not answer.
    pub(crate) async fn json(&self, service: &str, target: &str, body: &Value) -> Result<Value, Refusal> {
        let headers = [
            ("content-type", "application/x-amz-json-1.0"),
            ("x-amz-target", target),
        ];
        let text = self
            .call(service, Method::POST, "/", &headers, body.to_string())
            .await?;
        parse(&text)
    }

    /// An API of the query kind: a form, XML back.
    ///
    /// # Errors
    ///
    /// When AWS refuses or does not answer.
    pub(crate) async fn query(&self, service: &str, fields: &[(&str, &str)]) -> Result<String, Refusal> {
        let headers = [("content-type", "application/x-www-form-urlencoded")];
        let body: Vec<_> = fields
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value)))
            .collect();
        self.call(service, Method::POST, "/", &headers, body.join("&"))
            .await
    }

    async fn call(
        &self,
        service: &str,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Result<String, Refusal> {
        let (endpoint, signing_region) = endpoint(service, &self.region, self.config.endpoint_url());
        let mut attempt = 1;
        loop {
            let answer = self
                .once(
                    service,
                    &signing_region,
                    method.clone(),
                    &format!("{endpoint}{path}"),
                    headers,
                    &body,
                )
                .await;
            let unanswered = |error: anyhow::Error| Refusal {
                status: 0,
                code: "NoAnswer".to_owned(),
                message: format!("{endpoint} does not answer: {error:#}"),
            };
            match answer.map_err(unanswered).and_then(|result| result) {
                Err(refusal) if attempt < ATTEMPTS && (refusal.is_passing() || refusal.status == 0) => {
                    tokio::time::sleep(Duration::from_millis(300) * attempt).await;
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    async fn once(
        &self,
        service: &str,
        region: &str,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Result<String, Refusal>> {
        let identity = self.identity().await?.into();
        let params = SigningParams::builder()
            .identity(&identity)
            .region(region)
            .name(service)
            .time(now())
            .settings(SigningSettings::default())
            .build()?
            .into();
        let signable = SignableRequest::new(
            method.as_str(),
            url,
            headers.iter().copied(),
            SignableBody::Bytes(body.as_bytes()),
        )?;
        let (instructions, _) = sign(signable, &params)?.into_parts();
        let mut request = Request::builder().method(method).uri(url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut request = request.body(body.to_owned())?;
        instructions.apply_to_request_http1x(&mut request);
        let response = self
            .client
            .execute(request.try_into()?)
            .await
            .map_err(|error| anyhow!(chain(&error.without_url())))?;
        let status = response.status().as_u16();
        let header_code = response
            .headers()
            .get("x-amzn-errortype")
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        let text = response.text().await.context("the answer broke off")?;
        Ok(if status < 300 {
            Ok(text)
        } else {
            Err(refusal(status, header_code.as_deref(), &text))
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "a signature has the time of the call")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Where a service is, and the region to sign for. IAM has one place in each partition.
fn endpoint(service: &str, region: &str, custom: Option<&str>) -> (String, String) {
    if let Some(custom) = custom {
        return (custom.trim_end_matches('/').to_owned(), region.to_owned());
    }
    let (host, signing) = match (service, region) {
        ("iam", r) if r.starts_with("cn-") => ("iam.cn-north-1".to_owned(), "cn-north-1"),
        ("iam", r) if r.starts_with("us-gov-") => ("iam.us-gov".to_owned(), "us-gov-west-1"),
        ("iam", _) => ("iam".to_owned(), "us-east-1"),
        _ => (format!("{service}.{region}"), region),
    };
    let suffix = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    (format!("https://{host}.{suffix}"), signing.to_owned())
}

fn parse(text: &str) -> Result<Value, Refusal> {
    serde_json::from_str(text).map_err(|error| Refusal {
        status: 200,
        code: "UnreadableAnswer".to_owned(),
        message: error.to_string(),
    })
}

/// The three shapes in which AWS says no.
fn refusal(status: u16, header_code: Option<&str>, text: &str) -> Refusal {
    let json: Value = serde_json::from_str(text).unwrap_or_default();
    let field = |names: [&str; 3]| {
        names
            .iter()
            .find_map(|name| json[name].as_str())
            .map(str::to_owned)
            .or_else(|| names.iter().find_map(|name| xml_texts(text, name).pop()))
    };
    let code = header_code
        .map(str::to_owned)
        .or_else(|| field(["__type", "code", "Code"]))
        .unwrap_or_else(|| format!("HTTP {status}"));
    // `com.amazonaws.sqs#QueueDoesNotExist`, `AccessDenied:http://…`
    let code = code.rsplit('#').next().unwrap_or_default();
    let code = code.split(':').next().unwrap_or_default().to_owned();
    let message = field(["message", "Message", "errorMessage"]).unwrap_or_default();
    Refusal {
        status,
        code,
        message,
    }
}

/// The texts of all elements of this name.
pub(crate) fn xml_texts(xml: &str, name: &str) -> Vec<String> {
    let Ok(document) = roxmltree::Document::parse(xml) else {
        return Vec::new();
    };
    document
        .descendants()
        .filter(|node| node.tag_name().name() == name)
        .map(|node| node.text().unwrap_or_default().to_owned())
        .collect()
}

/// A text for a query string or a form.
pub(crate) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte.into());
        } else {
            out += &format!("%{byte:02X}");
        }
    }
    out
}

/// The inverse, for IAM, which encodes its policies.
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let mut rest = bytes.clone();
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (byte, hex(rest.next()), hex(rest.next())) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or_default());
                bytes = rest;
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_where_their_partition_has_them() {
        for (service, region, want) in [
            (
                "lambda",
                "eu-west-1",
                ("https://lambda.eu-west-1.amazonaws.com", "eu-west-1"),
            ),
            ("iam", "eu-west-1", ("https://iam.amazonaws.com", "us-east-1")),
            (
                "iam",
                "us-gov-east-1",
                ("https://iam.us-gov.amazonaws.com", "us-gov-west-1"),
            ),
            (
                "iam",
                "cn-northwest-1",
                ("https://iam.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ),
            (
                "sqs",
                "cn-north-1",
                ("https://sqs.cn-north-1.amazonaws.com.cn", "cn-north-1"),
            ),
        ] {
            let (url, signing) = endpoint(service, region, None);
            assert_eq!((url.as_str(), signing.as_str()), want, "{service} {region}");
        }
        assert_eq!(
            endpoint("iam", "r", Some("http://l:1/")),
            ("http://l:1".to_owned(), "r".to_owned())
        );
    }

    #[test]
    fn refusals_are_read_in_all_their_shapes() {
        let xml = "<ErrorResponse xmlns=\"x\"><Error><Code>NoSuchEntity</Code><Message>a &amp; b</Message></Error></ErrorResponse>";
        for (status, header, text, code, message, missing, denied) in [
            (404, None, xml, "NoSuchEntity", "a & b", true, false),
            (
                400,
                None,
                r#"{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"m"}"#,
                "QueueDoesNotExist",
                "m",
                true,
                false,
            ),
            (
                403,
                Some("AccessDeniedException:http://x"),
                r#"{"Message":"m"}"#,
                "AccessDeniedException",
                "m",
                false,
                true,
            ),
            (502, None, "<html>", "HTTP 502", "", false, false),
        ] {
            let refusal = refusal(status, header, text);
            assert_eq!((refusal.code.as_str(), refusal.message.as_str()), (code, message));
            assert_eq!(
                (refusal.is_missing(), refusal.is_denied()),
                (missing, denied),
                "{refusal}"
            );
        }
    }

    #[test]
    fn texts_travel_encoded() {
        assert_eq!(encode("a b/ü:*"), "a%20b%2F%C3%BC%3A%2A");
        for text in ["a b/ü:*", "", "100%", "%zz", "{\"a\":[1]}"] {
            assert_eq!(decode(&encode(text)), text);
        }
        assert_eq!(
            (decode("100%"), decode("%zz")),
            ("100%".to_owned(), "%zz".to_owned())
        );
    }
}
