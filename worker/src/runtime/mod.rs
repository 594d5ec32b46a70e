//! Two ways to run the same batch code: Lambda's Runtime API, or long polling.

mod hand;
pub(crate) mod lambda;
pub(crate) mod poll;

/// Lambda tells its functions where the Runtime API is.
pub(crate) fn under_lambda() -> bool {
    std::env::var_os("AWS_LAMBDA_RUNTIME_API").is_some_and(|address| !address.is_empty())
}

/// Ready at the first SIGTERM or SIGINT.
pub(crate) async fn stop_signal() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
            return;
        }
    }
    // Without a handler the signal ends the process in its own way; never report a stop that nobody asked for.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
