//! The recorder of a process's metrics.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use thiserror::Error;

use crate::metrics::names;

/// Bounds of passes, in seconds: those of controller-runtime.
const PASS_BUCKETS: [f64; 38] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    30.0, 45.0, 60.0,
];
/// Bounds of other times, in seconds.
const TIME_BUCKETS: [f64; 12] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];
/// Bounds of numbers.
const NUMBER_BUCKETS: [f64; 10] =
    [0.0, 1.0, 2.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0, 1_000_000.0];

/// The metrics of a process cannot be kept.
#[derive(Debug, Error)]
#[error("cannot keep metrics: {0}")]
pub struct RecorderError(#[from] BuildError);

/// Installs the recorder of the process.
///
/// # Errors
/// The process has one.
pub(crate) fn install_recorder() -> Result<PrometheusHandle, RecorderError> {
    let passes = Matcher::Full(names::PASS_SECONDS.to_owned());
    let builder = PrometheusBuilder::new()
        .set_buckets(&NUMBER_BUCKETS)?
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &TIME_BUCKETS)?
        .set_buckets_for_metric(passes, &PASS_BUCKETS)?;
    let handle = builder.install_recorder()?;
    names::describe(names::COUNTED);
    Ok(handle)
}
