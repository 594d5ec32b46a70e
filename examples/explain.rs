//! Says in words what a provider's answer means.
//!
//!     curl -si https://api.github.com/user | cargo run --bin explain -- github
//!
//! Reads a raw HTTP response on standard input, as `curl -si` prints it. The provider's name is optional. With
//! `--received-at 2026-09-28T12:00:00Z` the response counts as received then, else now. Bad input ends with a message and
//! status 2.

use std::io::{Read, Write};
use std::process::ExitCode;

use frigg_core::rate_limit::{Policy, Signal, providers};
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::Timestamp;

const USAGE: &str = "usage: curl -si URL | explain [PROVIDER] [--received-at TIME]";

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            // A closed pipe is no failure of ours.
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "explain: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<String, String> {
    let (provider, received_at) = arguments(std::env::args().skip(1))?;
    let policy = match &provider {
        None => Policy::new(),
        Some(name) => Policy::for_provider(name).ok_or_else(|| unknown(name))?,
    };
    let mut raw = Vec::new();
    std::io::stdin()
        .read_to_end(&mut raw)
        .map_err(|error| format!("standard input: {error}"))?;
    let (status, headers, body) = response(&raw)?;
    let signal = Signal::new(status, &headers, body, received_at);
    // Whoever pipes a body in wants it read.
    Ok(policy.with_success_bodies().explain(&signal))
}

fn arguments(args: impl Iterator<Item = String>) -> Result<(Option<String>, Timestamp), String> {
    let (mut provider, mut received_at, mut args) = (None, None, args);
    while let Some(arg) = args.next() {
        if arg == "--received-at" {
            let text = args.next().ok_or("--received-at needs a time")?;
            let time = text
                .parse()
                .map_err(|_| format!("--received-at: {text:?} is no time such as 2026-09-28T12:00:00Z"))?;
            received_at = Some(time);
        } else if arg.starts_with('-') || provider.is_some() {
            return Err(format!("unexpected argument {arg:?}\n{USAGE}"));
        } else {
            provider = Some(arg);
        }
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "a program's edge, where the clock is read"
    )]
    let now = Timestamp::now;
    Ok((provider, received_at.unwrap_or_else(now)))
}

fn unknown(name: &str) -> String {
    let known: Vec<&str> = providers::all().map(|provider| provider.name).collect();
    format!("no provider {name:?}; known are {}", known.join(", "))
}

/// The last response of the input: curl prints those before a redirect, a proxy's and a 100 Continue too.
fn response(raw: &[u8]) -> Result<(u16, HeaderMap, &[u8]), String> {
    if raw.iter().all(u8::is_ascii_whitespace) {
        return Err(format!("no input\n{USAGE}"));
    }
    let (head, body) = split_head(raw);
    let (status, headers) = parse_head(head)?;
    if body.starts_with(b"HTTP/") {
        response(body)
    } else {
        Ok((status, headers, body))
    }
}

/// Head and body, at the first empty line; line ends may have lost their carriage return.
fn split_head(raw: &[u8]) -> (&[u8], &[u8]) {
    let mut start = 0;
    while let Some(length) = raw[start..].iter().position(|byte| *byte == b'\n') {
        let end = start + length + 1;
        if raw[start..end].iter().all(u8::is_ascii_whitespace) {
            return (&raw[..start], &raw[end..]);
        }
        start = end;
    }
    (raw, &[])
}

fn parse_head(head: &[u8]) -> Result<(u16, HeaderMap), String> {
    let mut lines = head
        .split(|byte| *byte == b'\n')
        .map(<[u8]>::trim_ascii)
        .enumerate();
    let first = lines
        .next()
        .map(|(_, line)| String::from_utf8_lossy(line).into_owned())
        .unwrap_or_default();
    let mut words = first.split(' ');
    let version = words.next().unwrap_or_default();
    if !version.starts_with("HTTP/") {
        return Err(format!(
            "the first line must be a status line such as `HTTP/1.1 429`, not {:?}",
            short(&first)
        ));
    }
    let status = words.next().unwrap_or_default();
    let status = status.parse().ok().filter(|status| (100..1000).contains(status));
    let status = status.ok_or_else(|| format!("no status in the first line {:?}", short(&first)))?;

    let mut headers = HeaderMap::new();
    for (index, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let bad = || {
            format!(
                "line {} is no header: {:?}",
                index + 1,
                short(&String::from_utf8_lossy(line))
            )
        };
        let colon = line.iter().position(|byte| *byte == b':').ok_or_else(bad)?;
        let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| bad())?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).map_err(|_| bad())?;
        headers.append(name, value);
    }
    Ok((status, headers))
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
