//! Clients of a cluster's API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config as ClientConfig;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use patchbay_kubernetes::{ListedKinds, client, list_inventory};
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_resources::manifests::Inventory;

use super::failure::Failure;

/// Maximum number of contexts in a message.
const MAX_CONTEXTS: usize = 10;

/// Lists the objects of a cluster. Returns also the address of its API server.
///
/// # Errors
/// The API server cannot be reached, sends no byte for `silence_limit` during a reply, or denies
/// access.
pub(super) async fn inventory(
    (kubeconfig, context): (Option<&Path>, Option<&str>),
    kinds: ListedKinds,
    silence_limit: Duration,
) -> Result<(Inventory, String), Failure> {
    let hint = |failure| match failure {
        Failure::Cluster(reason) if kubeconfig.is_none() => {
            Failure::Cluster(format!("{reason}; use --filename for manifests"))
        }
        other => other,
    };
    let mut config = client_config(kubeconfig, context).await.map_err(hint)?;
    let server = config.cluster_url.to_string();
    config.read_timeout = Some(silence_limit);
    let failed = |error: &dyn std::fmt::Display| Failure::Cluster(error.to_string());
    let client = client(config).map_err(|error| failed(&error))?;
    let inventory = list_inventory(&client, kinds).await.map_err(|error| failed(&error))?;
    Ok((inventory, server))
}

/// The configuration of a client: that of a file, or the one that kubectl uses, or in a pod that of
/// its service account. `context`: `None` for the current one.
///
/// # Errors
/// There is no configuration, it cannot be read, or it has no such context.
pub(super) async fn client_config(
    kubeconfig: Option<&Path>,
    context: Option<&str>,
) -> Result<ClientConfig, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Cluster(error.to_string());
    match (kubeconfig, context) {
        (Some(file), context) => from_file(file, context).await,
        (None, Some(_)) => {
            let kubeconfig = Kubeconfig::read().map_err(|error| failed(&error))?;
            of_context("the kubeconfig", kubeconfig, context).await
        }
        (None, None) => ClientConfig::infer().await.map_err(|error| failed(&error)),
    }
}

/// Reads the configuration of a client from a kubeconfig file. `context`: `None` for the current one.
///
/// # Errors
/// The file cannot be read, is not a kubeconfig, or has no such context.
pub(super) async fn from_file(file: &Path, context: Option<&str>) -> Result<ClientConfig, Failure> {
    let failed = |error: KubeconfigError| {
        let name = file.display();
        Failure::Cluster(match error {
            KubeconfigError::ReadConfig(error, _) => format!("cannot read {name}: {error}"),
            // The lines after the first repeat the position in the file.
            KubeconfigError::Parse(error) => {
                let text = error.to_string();
                let first = text.lines().next().unwrap_or_default();
                format!("{name}: {}", first.trim_start_matches("error: "))
            }
            error => format!("{name}: {error}"),
        })
    };
    let kubeconfig = Kubeconfig::read_from(file).map_err(failed)?;
    of_context(&file.display().to_string(), kubeconfig, context).await
}

/// The configuration of a client for a context of a kubeconfig. `name`: of the file, for messages.
async fn of_context(
    name: &str,
    kubeconfig: Kubeconfig,
    context: Option<&str>,
) -> Result<ClientConfig, Failure> {
    let known: Vec<String> = kubeconfig.contexts.iter().map(|one| one.name.clone()).collect();
    if let Some(context) = context.filter(|context| !known.iter().any(|one| one == context)) {
        let known = if known.is_empty() {
            "it has no contexts".to_owned()
        } else {
            format!("its contexts are {}", abbreviate_list(&known, MAX_CONTEXTS))
        };
        return Err(Failure::Cluster(format!("{name}: no context {context}; {known}")));
    }
    let authority = authority_file(&kubeconfig, context);
    let options =
        KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let read = ClientConfig::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = read.map_err(|error| Failure::Cluster(format!("{name}: {error}")))?;
    config.root_cert_file = authority;
    Ok(config)
}

/// The file with the certificate authority of a context's cluster, which the client reads again when
/// it changes. `None`: the certificates are in the kubeconfig, or those of the machine count.
fn authority_file(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<PathBuf> {
    let chosen = context.or(kubeconfig.current_context.as_deref())?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|one| one.name == chosen)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| cluster.certificate_authority_data.is_none()).map(Into::into)
}
