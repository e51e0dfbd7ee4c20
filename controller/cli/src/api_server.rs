//! Clients of a cluster's API server.

use std::path::Path;
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
    let mut config = match kubeconfig {
        Some(file) => from_file(file).await?,
        None => ClientConfig::infer()
            .await
            .map_err(|error| Failure::Cluster(format!("{error}; use --filename for manifests")))?,
    };
    config.read_timeout = Some(silence_limit);
    let failed = |error: &dyn std::fmt::Display| Failure::Cluster(error.to_string());
    let client = client(config).map_err(|error| failed(&error))?;
    list_inventory(&client)
        .await
        .map_err(|error| failed(&error))
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
    let options = KubeConfigOptions::default();
    let config = ClientConfig::from_custom_kubeconfig(kubeconfig, &options);
    config.await.map_err(failed)
}
