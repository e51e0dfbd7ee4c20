//! Flags of `patchbay check`.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use patchbay_crds::NAMESPACE;

use crate::cluster_flags::ClusterFlags;
use crate::databases::DatabaseFlags;
use crate::keys::Keys;
use crate::names;
use crate::time_limit::TimeLimit;

/// Examples and exit statuses, in the help text.
pub(crate) const CHECK_EXAMPLES: &str = "\
Examples:
  patchbay check --pre
      whether Patchbay can be installed in this cluster
  patchbay check
      whether the installation works
  patchbay check --nb node-1=unix:/run/ovn/ovnnb_db.sock
      also the rows of a zone's database
  patchbay check --wait 120 -o junit
      in a pipeline, until nothing fails

Exit status:
  0  nothing has failed; there may be warnings
  2  a check has failed
  1  the checks cannot be made";

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// Check before an installation, instead of the installation.
    #[arg(long)]
    pub(crate) pre: bool,
    /// Kubeconfig file of the cluster. Default: the configuration that kubectl uses, or in a pod
    /// its service account.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// Namespace of the controllers.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = NAMESPACE,
        value_parser = names::parse_namespace
    )]
    pub(crate) namespace: String,
    /// Also check what `run --networks` needs: its rights, and that OVN-Kubernetes' own controllers of
    /// networks are off.
    #[arg(long)]
    pub(crate) networks: bool,
    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,
    /// Repeat the checks until none fails, for at most this time.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) wait: Option<NonZeroU32>,
    /// Output format. Text has at most 80 columns.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = CheckFormat::Text)]
    pub(crate) output: CheckFormat,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,
    #[command(flatten)]
    pub(crate) keys: Keys,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

/// Output format of checks.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A document for `JUnit`.
    Junit,
}
