//! Findings about the manifests of Kube-OVN's virtual private clouds, before anything is applied, and
//! about the rows of Northbound databases.
//!
//! ```text
//! Inventory  objects of manifests      -> Cluster   objects with their references, indexed once
//! Facts      what no object holds         RULES     one function per rule
//! Snapshot   rows of a live database
//!                                      -> Findings  rule, object, field, message, repair
//! ```
//!
//! A rule whose facts are unknown finds nothing. `docs/lint.md` lists the rules.

mod cluster;
mod document;
mod facts;
mod finding;
mod flags;
mod nat;
mod northbound;
mod pods;
mod policies;
mod ranges;
mod report;
mod rows;
mod rules;
mod sarif;
mod values;

use patchbay_engine::db::Snapshot;
use patchbay_resources::manifests::Inventory;

pub use document::Document;
pub use facts::Facts;
pub use finding::{Finding, Findings, FoundRow, Severity};
pub use rows::{OvnRelease, ROW_RULES, RowRule, lint_rows};
pub use rules::{RULES, Rule, Source};
pub use sarif::{Sarif, uri};
pub use values::{ChartValues, FlannelValues, KubeOvnValues, MultusValues, ValuesError};

use cluster::Cluster;
use northbound::NorthboundRows;
use report::Report;

/// Annotation of an object: ids of the rules whose findings about the object are left out, with
/// commas between them.
pub const LINT_IGNORE: &str = "patchbay.io/lint-ignore";

/// Finds what is wrong with the objects of an inventory, in the order of the manifests. With a
/// Northbound database, its rows are compared with the objects.
///
/// ```
/// use patchbay_lint::{Facts, lint};
/// use patchbay_resources::manifests::read_manifests;
///
/// let manifests = "
/// apiVersion: kubeovn.io/v1
/// kind: ProviderNetwork
/// metadata: {name: provider}
/// spec: {defaultInterface: data.222}
/// ---
/// apiVersion: kubeovn.io/v1
/// kind: Vlan
/// metadata: {name: vlan222}
/// spec: {id: 222, provider: provider}
/// ";
/// let inventory = read_manifests(&["-".into()], &mut manifests.as_bytes()).unwrap();
/// let findings = lint(&inventory, &Facts::default(), None).findings;
/// assert_eq!((findings[0].rule, &*findings[0].object), ("V1", "Vlan/vlan222"));
/// ```
pub fn lint(inventory: &Inventory, facts: &Facts, northbound: Option<&Snapshot>) -> Findings {
    let mut cluster = Cluster::new(inventory, facts);
    cluster.northbound = northbound.map(NorthboundRows::new);
    let mut report = Report::default();
    for rule in RULES {
        report.begin(rule);
        rule.check(&cluster, &mut report);
    }
    report.finish()
}
