//! Objects of manifests that cannot be read: each is named, rows that may follow from it stay, and
//! the others go on.

use std::collections::BTreeMap;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{Embedded, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb::{
    Acl, AddressSet, LoadBalancer, LogicalRouter, LogicalRouterPolicy, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat, PortGroup,
};
use patchbay_schemas::uuids::UuidSource;

use crate::cluster_of;

/// Objects of each kind, one a line.
const OBJECTS: &str = include_str!("each_kind.yaml");

fn lines() -> impl Iterator<Item = &'static str> {
    OBJECTS.lines().filter(|line| line.starts_with('{'))
}

/// The objects. Those of the given numbers have a label that no API server accepts.
fn cluster(refused: &[usize]) -> Cluster {
    let objects = lines().enumerate().map(|(index, line)| {
        if refused.contains(&index) {
            return line.replace("metadata: {", "metadata: {generateName: [], ");
        }
        line.to_owned()
    });
    let settings = ClusterSettings {
        families: vec![IpFamily::V4],
        gateway_mode: GatewayMode::Local,
        service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
        features: Feature::ALL
            .into_iter()
            .filter(|feature| *feature != Feature::DynamicUdnAllocation)
            .collect(),
        ..ClusterSettings::default()
    };
    cluster_of(&objects.collect::<Vec<_>>().join("\n---\n"), settings)
}

/// Rows of the tables that policies, pods, services and connects use, by UUID, as text.
fn rows(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    macro_rules! add {
        ($($table:ty),*) => {
            $(rows.extend(snapshot.typed::<$table>().iter().map(|row| {
                let (uuid, row) = row.unwrap();
                (format!("{} {uuid:?}", stringify!($table)), format!("{row:?}"))
            }));)*
        };
    }
    add!(
        Acl,
        AddressSet,
        LoadBalancer,
        LogicalRouter,
        LogicalRouterPolicy,
        LogicalRouterPort,
        LogicalRouterStaticRoute,
        LogicalSwitch,
        LogicalSwitchPort,
        Nat,
        PortGroup
    );
    rows
}

#[tokio::test]
async fn the_rows_of_each_object_stay_while_it_cannot_be_read() {
    let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
    zone.reconcile(&cluster(&[])).await.unwrap();
    let before = rows(&zone.northbound().snapshot());
    assert!(before.len() > 100, "{}", before.len());
    for (index, line) in lines().enumerate() {
        let cluster = cluster(&[index]);
        let mut errors = cluster.errors.iter();
        let is_named = errors.any(|error| error.contains("metadata.generateName"));
        assert!(is_named, "{line}\n{:?}", cluster.errors);
        zone.reconcile(&cluster).await.unwrap();
        let after = rows(&zone.northbound().snapshot());
        let changed: Vec<_> =
            before.iter().filter(|(uuid, row)| after.get(*uuid) != Some(row)).collect();
        assert!(changed.is_empty(), "{line}\n{changed:#?}");
        // A new controller on the same database finds nothing to remove, either.
        assert_eq!(after, before, "{line}");
        assert!(zone.is_reconciled(&cluster), "{line}");
    }
    zone.reconcile(&self::cluster(&[])).await.unwrap();
    assert_eq!(rows(&zone.northbound().snapshot()), before);
}

/// Rows in an empty database: those of all that does not follow from the refused object.
#[tokio::test]
async fn the_other_networks_have_their_rows() {
    for (index, other) in [(5, "green.lan"), (6, "blue.net_blue_a"), (23, "green.lan")] {
        let mut zone = ZoneReconciler::new("n1", Embedded::new(0).unwrap(), UuidSource::seeded(0));
        zone.reconcile(&cluster(&[index])).await.unwrap();
        let snapshot = zone.northbound().snapshot();
        let ports = snapshot.typed::<LogicalSwitchPort>();
        let mut ports = ports.iter().map(|row| row.unwrap().1.name);
        assert!(ports.any(|name| name.starts_with(other)), "{other}");
    }
}
