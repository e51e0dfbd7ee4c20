//! Flags of `patchbay lint`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use ipnet::IpNet;
use patchbay_lint::OvnRelease;

use crate::databases::DatabaseFlags;
use crate::keys::Keys;
use crate::manifest_limit::ManifestLimit;
use crate::time_limit::TimeLimit;

/// Flags of `patchbay lint`.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped. Without this flag,
    /// the rows of the databases are judged.
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "PATH",
        num_args = 1..,
        required_unless_present_any = ["nb", "file", "must_gather"],
        conflicts_with_all = ["file", "must_gather", "ovn"]
    )]
    pub(crate) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,
    /// The release of the ovn-northd that reads the rows, such as 23.03: finds rows that it reads in
    /// another way than newer or older ones.
    #[arg(long, value_name = "RELEASE")]
    pub(crate) ovn: Option<OvnRelease>,
    /// Chart values of the platform: a YAML file with the key `network`.
    #[arg(long, value_name = "FILE", requires = "paths")]
    pub(crate) values: Option<PathBuf>,
    /// Range of the API server's cluster IPs, at most one per IP family. Default: the ranges of
    /// `ServiceCIDR` objects.
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    pub(crate) service_cidr: Vec<IpNet>,
    /// Network interfaces of a node; repeated for several nodes. Those of other nodes are unknown.
    #[arg(long, value_name = "NODE=NIC,...", value_parser = parse_interfaces)]
    pub(crate) node_interfaces: Vec<(String, Vec<String>)>,
    /// Whether ovn-northd is that of an OVN release, and not one with the changes of Kube-OVN.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) stock_northd: bool,
    /// Count warnings as errors.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = LintFormat::Text)]
    pub(crate) output: LintFormat,
    #[command(flatten)]
    pub(crate) manifest_limit: ManifestLimit,
    #[command(flatten)]
    pub(crate) limit: TimeLimit,
    #[command(flatten)]
    pub(crate) keys: Keys,
}

/// Formats of findings.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum LintFormat {
    /// Lines for people; of each rule the first findings.
    Text,
    /// One document with all findings.
    Json,
    /// As json.
    Yaml,
    /// Static Analysis Results Interchange Format 2.1.0, which code hosts show beside the lines.
    Sarif,
}

/// Reads a node and its interfaces.
fn parse_interfaces(text: &str) -> Result<(String, Vec<String>), String> {
    let (node, interfaces) = text.split_once('=').ok_or("expected NODE=NIC,...")?;
    let interfaces = interfaces.split(',').filter(|name| !name.is_empty());
    Ok((node.to_owned(), interfaces.map(str::to_owned).collect()))
}
