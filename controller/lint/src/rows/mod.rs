//! Findings about the rows of a Northbound database, whoever wrote them.
//!
//! ```text
//! Snapshot -> Index     typed rows, their parents, names of ports
//!          -> reach     rows that OVN ignores, rows that contradict each other
//!          -> ROW_RULES one function per rule -> Findings
//! ```
//!
//! Every rule looks at a row a bounded number of times: rows are indexed by switch, router and
//! address, and no pairs of all rows are compared.

mod addresses;
mod balancers;
mod ignored;
mod index;
mod keys;
mod links;
mod nat;
mod priorities;
mod releases;
mod report;
mod routes;

use patchbay_engine::db::Snapshot;

use crate::finding::{Findings, Severity};
use Severity::{Error, Note, Warning};
use index::Index;
pub use releases::OvnRelease;
use report::RowReport;

/// A rule about rows.
pub struct RowRule {
    /// Id: `NB` and a number.
    pub id: &'static str,
    /// Severity of the rule's findings.
    pub severity: Severity,
    /// Condition under which the rule finds something.
    pub condition: &'static str,
    check: fn(&Index<'_>, &mut RowReport<'_>),
}

impl RowRule {
    const fn new(
        id: &'static str,
        severity: Severity,
        condition: &'static str,
        check: fn(&Index<'_>, &mut RowReport<'_>),
    ) -> Self {
        Self { id, severity, condition, check }
    }
}

/// All rules about rows.
pub static ROW_RULES: &[RowRule] = &[
    RowRule::new("NB1", Error, "a match that OVN cannot parse", ignored::bad_match),
    RowRule::new(
        "NB2",
        Error,
        "a match with an address set or port group that does not exist there",
        ignored::unknown_set,
    ),
    RowRule::new("NB3", Warning, "a match with a port that does not exist", ignored::unknown_port),
    RowRule::new("NB4", Error, "a route or policy without a way to its next hop", ignored::no_way),
    RowRule::new("NB5", Error, "a row, or a part of it, that OVN ignores", ignored::other),
    RowRule::new("NB6", Error, "a router port whose peer does not point back", links::peer),
    RowRule::new(
        "NB7",
        Error,
        "a switch port to a router port that does not exist",
        links::to_nowhere,
    ),
    RowRule::new("NB8", Warning, "a router port to which nothing leads", links::unreached),
    RowRule::new("NB9", Error, "one router port behind several switch ports", links::shared),
    RowRule::new(
        "NB10",
        Error,
        "a type of a switch port that OVN does not know",
        links::unknown_type,
    ),
    RowRule::new("NB11", Error, "a localnet port without network_name", links::no_network_name),
    RowRule::new("NB12", Warning, "a parent port that does not exist", links::no_parent),
    RowRule::new("NB13", Error, "an address of a port that OVN cannot read", addresses::unreadable),
    RowRule::new("NB14", Error, "an IP address twice on one switch", addresses::repeated_ip),
    RowRule::new("NB15", Error, "a MAC address twice on one switch", addresses::repeated_mac),
    RowRule::new(
        "NB16",
        Error,
        "a port whose port security refuses its own address",
        addresses::refused_by_security,
    ),
    RowRule::new(
        "NB17",
        Error,
        "one network at two ports of a router",
        addresses::repeated_network,
    ),
    RowRule::new(
        "NB18",
        Warning,
        "a network of a router port inside of another port's",
        addresses::nested_network,
    ),
    RowRule::new(
        "NB19",
        Error,
        "rows of one priority that decide otherwise on the same packet",
        priorities::conflict,
    ),
    RowRule::new(
        "NB20",
        Warning,
        "an ACL or policy that never decides, because an equal match comes before it",
        priorities::shadowed,
    ),
    RowRule::new("NB21", Error, "a tunnel key above the limit", keys::too_large),
    RowRule::new("NB22", Warning, "one tunnel key that two rows request", keys::repeated),
    RowRule::new("NB23", Warning, "tunnel keys that run out", keys::running_out),
    RowRule::new(
        "NB24",
        Warning,
        "a VIP without backends whose packets are dropped",
        balancers::empty,
    ),
    RowRule::new("NB25", Note, "a VIP without backends that is answered", balancers::rejecting),
    RowRule::new(
        "NB26",
        Error,
        "one VIP of two load balancers of a switch or router",
        balancers::repeated,
    ),
    RowRule::new("NB27", Note, "a load balancer that nothing uses", balancers::unused),
    RowRule::new("NB28", Error, "a NAT rule on a router without a gateway", nat::no_gateway),
    RowRule::new("NB29", Error, "two NAT rules for one address", nat::repeated),
    RowRule::new(
        "NB30",
        Warning,
        "a route in a route table that no port uses",
        routes::unused_table,
    ),
    RowRule::new("NB31", Warning, "DHCP options that OVN does not send", routes::incomplete_dhcp),
    RowRule::new(
        "NB32",
        Warning,
        "a row that the named release of OVN reads otherwise",
        releases::other_release,
    ),
];

/// Finds what is wrong with the rows of a Northbound database. `zone`: its name beside databases of
/// other zones. `release`: the release of the ovn-northd that reads it, where it is known.
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_lint::lint_rows;
/// use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};
///
/// let mut database = Database::new(nb::schema());
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// let port = txn.insert(&LogicalSwitchPort {
///     name: "uplink".into(),
///     r#type: "localnet".into(),
///     ..Default::default()
/// })?;
/// txn.insert(&LogicalSwitch { name: "s".into(), ports: [port].into(), ..Default::default() })?;
/// database.transact(txn.finish().operations())?;
/// let findings = lint_rows(&database.snapshot(), None, None).findings;
/// assert_eq!(findings[0].rule, "NB11");
/// assert_eq!(findings[0].object, "Logical_Switch_Port uplink of Logical_Switch s");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn lint_rows(snapshot: &Snapshot, zone: Option<&str>, release: Option<OvnRelease>) -> Findings {
    let index = Index::new(snapshot, release);
    let mut report = RowReport::new(&index, zone);
    for rule in ROW_RULES {
        report.begin(rule);
        (rule.check)(&index, &mut report);
    }
    report.finish()
}
