//! Arguments of `patchbay lab`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ranges::ClusterRanges;

#[derive(Debug, Args)]
pub(super) struct Lab {
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    pub(super) paths: Vec<PathBuf>,
    /// Folder with OVN and Open vSwitch: unpacked packages, or the prefix of a build. Default: the
    /// installed programs.
    #[arg(long, value_name = "DIR")]
    pub(super) ovn: Option<PathBuf>,
    /// Ask all pairs of pods, compare the answers with the manifests, and exit.
    #[arg(long)]
    pub(super) check: bool,
    /// Ask these questions instead: a JSON list of {"from": POD, "to": POD}, each with optional
    /// members protocol ("icmp", "udp 53", "tcp 80"), family ("ipv4", "ipv6") and reached (true,
    /// false).
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(super) questions: Option<PathBuf>,
    /// Output format of the check.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = CheckFormat::Text)]
    pub(super) output: CheckFormat,
    #[command(flatten)]
    pub(super) ranges: ClusterRanges,
}

/// Output format of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum CheckFormat {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A document for `JUnit`.
    Junit,
}
