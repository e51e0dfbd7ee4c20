//! `patchbay check`: whether a cluster is ready for an installation, and whether an installation works.

pub(crate) mod args;
mod databases;
mod installed;
mod output;
mod wanted;

use std::time::{Duration, Instant};

use kube::Client;
use patchbay_kubernetes::{CheckConfig, CheckGroup, Verdict, check_cluster, client};

use super::api_server::client_config;
use super::console::Console;
use super::failure::Failure;
use args::{Check, CheckFormat};

/// Time between two rounds of `--wait`.
const ROUND_INTERVAL: Duration = Duration::from_secs(2);

/// Makes all checks, and prints the results. Returns `true` if nothing has failed.
///
/// # Errors
/// The configuration of the client cannot be used, or standard output cannot be written.
pub(super) async fn check(arguments: &Check, console: &mut Console<'_>) -> Result<bool, Failure> {
    let limit = arguments.limit.duration();
    let mut client_config =
        client_config(arguments.kubeconfig.as_deref(), arguments.context.as_deref()).await?;
    // The limit of the answer comes first.
    client_config.read_timeout = Some(limit * 2);
    client_config.connect_timeout = Some(limit);
    let server = client_config.cluster_url.to_string();
    let client = client(client_config).map_err(|error| Failure::Cluster(error.to_string()))?;
    let config = CheckConfig {
        is_before: arguments.pre,
        namespace: arguments.namespace.clone(),
        writes_networks: arguments.networks,
        rights: if arguments.pre { wanted::rights(arguments, console)? } else { Vec::new() },
        definitions: wanted::definitions(),
        policies: wanted::policies(arguments),
        limit,
    };
    let start = Instant::now();
    let end = arguments.wait.map(|seconds| start + Duration::from_secs(seconds.get().into()));
    let mut is_reported = false;
    let groups = loop {
        let groups = round(arguments, &client, &config, console).await?;
        let failed = count(&groups, Verdict::Failed);
        let next = Instant::now() + ROUND_INTERVAL;
        if failed == 0 || end.is_none_or(|end| next > end) {
            break groups;
        }
        if !is_reported {
            let seconds = arguments.wait.map_or(0, std::num::NonZeroU32::get);
            console.report(&format!("waiting until nothing fails, at most {seconds} s"))?;
            is_reported = true;
        }
        tokio::time::sleep_until(next.into()).await;
    };
    match arguments.output {
        CheckFormat::Text => output::write_text(&groups, console)?,
        CheckFormat::Json => output::write_json(&groups, &server, console)?,
        CheckFormat::Junit => output::write_junit(&groups, console)?,
    }
    Ok(count(&groups, Verdict::Failed) == 0)
}

/// Makes all checks once.
async fn round(
    arguments: &Check,
    client: &Client,
    config: &CheckConfig,
    console: &mut Console<'_>,
) -> Result<Vec<CheckGroup>, Failure> {
    let mut checks = check_cluster(client, config).await;
    let installed = installed::installed(&checks);
    let mut groups = checks.groups.iter_mut();
    if let Some(group) = groups.find(|group| group.name == "installation") {
        group.checks.push(installed::check(&installed));
    }
    if !arguments.databases.is_empty() {
        let scene = databases::Scene { client, is_reachable: checks.is_reachable, installed };
        let databases = Box::pin(databases::check(arguments, &scene, console)).await?;
        checks.groups.push(databases);
    }
    Ok(checks.groups)
}

/// Number of checks with a verdict.
fn count(groups: &[CheckGroup], verdict: Verdict) -> usize {
    let all = groups.iter().flat_map(|group| &group.checks);
    all.filter(|check| check.verdict == verdict).count()
}
