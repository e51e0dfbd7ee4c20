//! A cluster with one Northbound database, from manifests.

use patchbay_allocate::vpcs::resolve;
use patchbay_engine::db::Database;
use patchbay_resources::conversion::vpc_scene;
use patchbay_resources::manifests::{Inventory, read_manifests};
use patchbay_resources::object::Time;
use patchbay_rows::Engine;
use patchbay_schemas::nb;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;
use patchbay_vpcs::{Vpcs, ZoneVpcs};
use patchbay_zone::ZoneCapability as _;

/// Plans after which a test that still changes rows fails: rows refer to rows of other objects, those
/// to rows of further ones.
const MAX_PLANS: usize = 5;

/// The seed's cluster: nodes, a provider network and an external subnet.
pub(crate) const PLATFORM: &str = include_str!("platform.yaml");

/// Objects with their allocations, and the database.
pub(crate) struct World {
    pub(crate) inventory: Inventory,
    /// What cannot be done as the objects specify.
    pub(crate) problems: Vec<String>,
    pub(crate) database: Database,
    controller: Engine<Vpcs>,
    is_northd_stock: bool,
    /// Number of transactions so far.
    pub(crate) transactions: usize,
}

/// The objects of manifests.
pub(crate) fn read(yaml: &str) -> Inventory {
    read_manifests(&["-".into()], &mut yaml.as_bytes()).unwrap_or_else(|error| panic!("{error}"))
}

impl World {
    /// A world in which the manifests are applied.
    pub(crate) fn new(yaml: &str) -> Self {
        Self::with_northd(yaml, true)
    }

    /// A world for the ovn-northd of an OVN release, or for that of Kube-OVN.
    pub(crate) fn with_northd(yaml: &str, is_northd_stock: bool) -> Self {
        let mut world = Self {
            inventory: Inventory::default(),
            problems: Vec::new(),
            database: Database::with_uuids(nb::schema(), UuidSource::seeded(1)),
            controller: Engine::new(UuidSource::seeded(2)),
            is_northd_stock,
            transactions: 0,
        };
        world.apply(read(yaml));
        world
    }

    /// Applies objects. A new controller has to agree that nothing is left.
    pub(crate) fn apply(&mut self, mut inventory: Inventory) {
        let now = Time(jiff::Timestamp::from_second(0).unwrap());
        let problems = resolve(&mut inventory, &now);
        self.problems = problems.iter().map(ToString::to_string).collect();
        let scene = vpc_scene(&inventory);
        let inputs = match ZoneVpcs::new(&scene, false) {
            inputs if self.is_northd_stock => inputs,
            inputs => inputs.with_fallback_routes(&scene),
        };
        let mut is_settled = false;
        for _ in 0..MAX_PLANS {
            let plan = self.controller.plan(&inputs, &self.database.snapshot());
            is_settled = plan.changes.is_empty();
            for change in plan.changes.into_values() {
                let transaction = change.unwrap().transaction.unwrap();
                self.database.transact(transaction.operations()).unwrap();
                self.transactions += 1;
            }
        }
        assert!(is_settled, "no rest after {MAX_PLANS} plans");
        let mut fresh = Engine::<Vpcs>::new(UuidSource::seeded(3));
        let again = fresh.plan(&inputs, &self.database.snapshot());
        assert!(again.changes.is_empty(), "{:?}", again.changes);
        let refused = Vpcs::problems(&self.controller, &inputs);
        let refused = refused.iter().map(ToString::to_string);
        self.problems.extend(refused);
        self.inventory = inventory;
    }

    pub(crate) fn rows<T: TableRow>(&self) -> Vec<T> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.typed::<T>();
        rows.iter().map(|row| row.unwrap().1).collect()
    }
}
