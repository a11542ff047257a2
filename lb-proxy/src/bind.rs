//! Addresses and paths that another process may have for a while.

use std::time::Duration;

/// Tries to bind until that works, with a pause after each failure: a predecessor has the place until it has handed over.
/// Reports the first failure.
pub(crate) async fn until_bound<T, E>(
    pause: Duration,
    bind: impl Fn() -> Result<T, E>,
    report: impl FnOnce(E),
) -> T {
    let mut report = Some(report);
    loop {
        match bind() {
            Ok(bound) => return bound,
            Err(error) => {
                if let Some(report) = report.take() {
                    report(error);
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
}
