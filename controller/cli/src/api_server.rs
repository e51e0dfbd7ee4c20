//! Clients of a cluster's API server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Config as ClientConfig;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use patchbay_kubernetes::{client, list_inventory};
use patchbay_resources::manifests::Inventory;

use super::failure::Failure;

/// Lists the objects of a cluster.
///
/// # Errors
/// The API server cannot be reached, sends no byte for `silence_limit` during a reply, or denies
/// access.
pub(super) async fn inventory(
    kubeconfig: Option<&Path>,
    silence_limit: Duration,
) -> Result<Inventory, Failure> {
    let hint = |failure| match failure {
        Failure::Cluster(reason) if kubeconfig.is_none() => {
            Failure::Cluster(format!("{reason}; use --filename for manifests"))
        }
        other => other,
    };
    let mut config = client_config(kubeconfig).await.map_err(hint)?;
    config.read_timeout = Some(silence_limit);
    let failed = |error: &dyn std::fmt::Display| Failure::Cluster(error.to_string());
    let client = client(config).map_err(|error| failed(&error))?;
    list_inventory(&client).await.map_err(|error| failed(&error))
}

/// The configuration of a client: that of a file, or the one that kubectl uses, or in a pod that of
/// its service account.
///
/// # Errors
/// There is no configuration, or it cannot be read.
pub(super) async fn client_config(kubeconfig: Option<&Path>) -> Result<ClientConfig, Failure> {
    match kubeconfig {
        Some(file) => from_file(file).await,
        None => ClientConfig::infer().await.map_err(|error| Failure::Cluster(error.to_string())),
    }
}

/// Reads the configuration of a client from a kubeconfig file.
///
/// # Errors
/// The file cannot be read, or is not a kubeconfig.
pub(super) async fn from_file(file: &Path) -> Result<ClientConfig, Failure> {
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
    let authority = authority_file(&kubeconfig);
    let options = KubeConfigOptions::default();
    let mut config =
        ClientConfig::from_custom_kubeconfig(kubeconfig, &options).await.map_err(failed)?;
    config.root_cert_file = authority;
    Ok(config)
}

/// The file with the certificate authority of the current cluster, which the client reads again when
/// it changes. `None`: the certificates are in the kubeconfig, or those of the machine count.
fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let mut contexts = kubeconfig.contexts.iter();
    let context = contexts.find(|one| one.name == *current)?.context.as_ref()?;
    let mut clusters = kubeconfig.clusters.iter();
    let cluster = clusters.find(|one| one.name == context.cluster)?;
    let cluster = cluster.cluster.as_ref()?;
    let file = cluster.certificate_authority.as_ref();
    file.filter(|_| cluster.certificate_authority_data.is_none()).map(Into::into)
}
