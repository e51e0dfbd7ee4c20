//! Flags of the commands that read manifests and Northbound databases.

use clap::Args;

use super::cluster_flags::ClusterFlags;
use super::keys::Keys;
use super::manifest_limit::ManifestLimit;
use super::time_limit::TimeLimit;

/// How manifests and databases are read.
#[derive(Clone, Debug, Args)]
pub(super) struct InputFlags {
    #[command(flatten)]
    pub(super) manifest_limit: ManifestLimit,
    #[command(flatten)]
    pub(super) limit: TimeLimit,
    #[command(flatten)]
    pub(super) keys: Keys,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
}
