//! The throttling provider for people: `cargo run -p frigg-tests --bin throttling-provider -- --help`.
#![expect(clippy::print_stdout, reason = "a program for people")]

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use frigg_tests::clock::Clock;
use frigg_tests::provider::{ProviderConfig, Rule, ThrottlingProvider, Window};

/// An HTTP server with a rate limit per account (the path's first segment): 429 with Retry-After when it is spent.
///
/// `GET /_admin/calls` lists every call as JSON (`DELETE` forgets them), `GET /_admin/closed` the times at which it
/// refused, `POST /_admin/close` with `{"key": "acme", "until": "2026-09-28T12:00:00Z"}` closes an account.
#[derive(Debug, Parser)]
struct Flags {
    /// Address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8429)]
    port: u16,
    /// Calls that pass per window
    #[arg(long, default_value_t = 5)]
    calls: u32,
    /// The window's length in seconds
    #[arg(long, default_value_t = 10)]
    per: u64,
    /// All places of a window are free at once, at multiples of its length
    #[arg(long)]
    fixed: bool,
    /// An account that is closed for so many seconds from its first call on, `daily-*=72` say
    #[arg(long, value_name = "ACCOUNT=SECONDS")]
    daily: Vec<String>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse();
    anyhow::ensure!(
        flags.calls > 0 && flags.per > 0,
        "--calls and --per must be at least 1"
    );
    let per = Duration::from_secs(flags.per);
    let window = if flags.fixed {
        Window::fixed(flags.calls, per)
    } else {
        Window::rolling(flags.calls, per)
    };
    let mut config = ProviderConfig::default().with_default(Rule::window(window));
    for daily in &flags.daily {
        let (account, seconds) = daily.split_once('=').context("--daily wants ACCOUNT=SECONDS")?;
        let seconds = seconds
            .parse()
            .with_context(|| format!("--daily {daily}: not a number of seconds"))?;
        let rule = Rule::window(window).closed_on_first_call(Duration::from_secs(seconds));
        config = config.with_rule(account, rule);
    }
    let provider =
        ThrottlingProvider::start_on((flags.host, flags.port).into(), config, Clock::system()).await?;
    println!(
        "{} lets {} calls pass in {} s per account",
        provider.url(),
        flags.calls,
        flags.per
    );
    println!("its record: {}", provider.url_of("_admin/calls"));
    tokio::select! {
        () = provider.serve() => Ok(()),
        stopped = tokio::signal::ctrl_c() => stopped.context("failed to wait for Ctrl-C"),
    }
}
