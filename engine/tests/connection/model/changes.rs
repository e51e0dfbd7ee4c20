//! Random changes, the same for two databases that hold the same.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Index;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::nb::{
    AddressSet, LoadBalancer, LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute, NbGlobal,
};
use patchbay_schemas::typed::{Ref, TableRow};
use rand::RngExt as _;
use rand::rngs::StdRng;
use uuid::Uuid;

pub(super) fn address_sets() -> Index<AddressSet> {
    Index::by(AddressSet::NAME)
}

pub(super) fn routers() -> Index<LogicalRouter> {
    Index::by(LogicalRouter::NAME)
}

/// What kind of error it is, without the names of rows.
pub(super) fn kind(error: &BuildError) -> &'static str {
    match error {
        BuildError::NoRow { .. } => "there is no such row",
        _ => "another error",
    }
}

/// Adds a change to the transaction. `named` numbers names that no row has had.
pub(super) fn make(
    txn: &mut TxnBuilder,
    random: &mut StdRng,
    named: &mut usize,
) -> Result<(), BuildError> {
    let choice = random.random_range(0..20);
    let mut change = Change { txn, random, named };
    match choice {
        0..=2 => change.insert_router(),
        3..=5 => change.update_router(),
        6 => change.modify_router(),
        7 | 8 => change.change_ports(),
        9 => change.change_options(),
        10 => change.insert_address_set(),
        11 | 12 => change.upsert(),
        13 => change.change_addresses(),
        14 => change.count(),
        15 => change.load_balancers(),
        16 => change.routes(),
        17 => change.verify(),
        _ => change.delete(),
    }
}

struct Change<'a> {
    txn: &'a mut TxnBuilder,
    random: &'a mut StdRng,
    named: &'a mut usize,
}

impl Change<'_> {
    fn new_name(&mut self, kind: &str) -> String {
        *self.named += 1;
        format!("{kind}{}", self.named)
    }

    /// A number below.
    fn below(&mut self, bound: usize) -> usize {
        self.random.random_range(0..bound)
    }

    /// A row of those that the transaction's snapshot shows.
    fn any<T: TableRow>(&mut self, name: impl Fn(&T) -> String) -> Option<(Ref<T>, T)> {
        let rows: BTreeMap<String, (Ref<T>, T)> = self
            .txn
            .snapshot()
            .typed::<T>()
            .iter()
            .map(|row| row.expect("the types are those of the schema"))
            .map(|(row, value)| (name(&value), (row, value)))
            .collect();
        let chosen = self.below(rows.len().max(1));
        rows.into_values().nth(chosen)
    }

    fn router(&mut self) -> Option<(Ref<LogicalRouter>, LogicalRouter)> {
        self.any(|router: &LogicalRouter| router.name.clone())
    }

    fn map(&mut self) -> BTreeMap<String, String> {
        (0..self.below(30))
            .map(|_| (format!("k{}", self.below(40)), format!("v{}", self.below(3))))
            .collect()
    }

    fn addresses(&mut self) -> BTreeSet<String> {
        (0..self.below(40)).map(|_| format!("10.0.0.{}", self.below(60))).collect()
    }

    fn insert_port(&mut self) -> Result<Ref<LogicalRouterPort>, BuildError> {
        let port = LogicalRouterPort {
            name: self.new_name("lrp"),
            mac: "0a:58:00:00:00:01".into(),
            networks: self.addresses(),
            enabled: [None, Some(true), Some(false)][self.below(3)],
            ..Default::default()
        };
        if self.random.random_ratio(1, 4) {
            return self.txn.insert_as(Uuid::from_u128(self.random.random()), &port);
        }
        self.txn.insert(&port)
    }

    fn insert_router(&mut self) -> Result<(), BuildError> {
        let mut router = LogicalRouter {
            name: self.new_name("lr"),
            external_ids: self.map(),
            ..Default::default()
        };
        for _ in 0..self.below(5) {
            router.ports.insert(self.insert_port()?);
        }
        self.txn.insert(&router).map(drop)
    }

    fn update_router(&mut self) -> Result<(), BuildError> {
        let Some((row, current)) = self.router() else {
            return self.insert_router();
        };
        let mut wanted = current.clone();
        for _ in 0..self.below(4) {
            wanted.ports.insert(self.insert_port()?);
        }
        for _ in 0..self.below(3) {
            // The order of references is not the same everywhere; that of names is.
            if let Some((port, _)) = self.port_of(&wanted) {
                wanted.ports.remove(&port);
            }
        }
        wanted.external_ids.extend(self.map());
        let gone = format!("k{}", self.below(40));
        wanted.external_ids.remove(&gone);
        wanted.enabled = [None, Some(true), Some(false)][self.below(3)];
        self.txn.update(row, &current, &wanted).map(drop)
    }

    fn port_of(&mut self, router: &LogicalRouter) -> Option<(Ref<LogicalRouterPort>, String)> {
        let snapshot = self.txn.snapshot().clone();
        let port = |row: &Ref<LogicalRouterPort>| {
            let port = snapshot.get(*row).ok()??;
            Some((port.name, *row))
        };
        let ports: BTreeMap<_, _> = router.ports.iter().filter_map(port).collect();
        let chosen = self.below(ports.len().max(1));
        ports.into_iter().nth(chosen).map(|(name, row)| (row, name))
    }

    fn modify_router(&mut self) -> Result<(), BuildError> {
        let Some((row, _)) = self.router() else {
            return self.insert_router();
        };
        let (options, copp) = (self.map(), self.below(2) == 0);
        let changed = |router: &mut LogicalRouter| {
            router.options = options;
            if copp {
                router.external_ids.clear();
            }
        };
        self.txn.modify(row, changed).map(drop)
    }

    fn change_ports(&mut self) -> Result<(), BuildError> {
        let Some((row, router)) = self.router() else {
            return self.insert_router();
        };
        let port = self.insert_port()?;
        self.txn.add(row, LogicalRouter::PORTS, [port])?;
        if let Some((port, _)) = self.port_of(&router) {
            self.txn.remove(row, LogicalRouter::PORTS, [port])?;
        }
        Ok(())
    }

    fn change_options(&mut self) -> Result<(), BuildError> {
        let Some((row, _)) = self.router() else {
            return self.insert_router();
        };
        let pairs = self.map();
        self.txn.put(row, LogicalRouter::OPTIONS, pairs)?;
        let gone = [format!("k{}", self.below(40)), format!("k{}", self.below(40))];
        self.txn.remove_keys(row, LogicalRouter::OPTIONS, gone)
    }

    /// Of these there may be one of each name.
    fn address_set(&mut self) -> AddressSet {
        AddressSet {
            name: format!("as{}", self.below(8)),
            addresses: self.addresses(),
            external_ids: self.map(),
            ..Default::default()
        }
    }

    fn insert_address_set(&mut self) -> Result<(), BuildError> {
        let set = self.address_set();
        if self.below(2) == 0 {
            self.txn.expect_none(AddressSet::NAME, &set.name)?;
        }
        self.txn.insert(&set).map(drop)
    }

    fn upsert(&mut self) -> Result<(), BuildError> {
        if self.below(3) == 0 {
            let name = match self.router() {
                Some((_, router)) if self.below(2) == 0 => router.name,
                _ => self.new_name("lr"),
            };
            let router = LogicalRouter { name, options: self.map(), ..Default::default() };
            let (router, _) = self.txn.upsert(&routers(), &router, &["ports", "static_routes"])?;
            let port = self.insert_port()?;
            return self.txn.add(router, LogicalRouter::PORTS, [port]);
        }
        let keep: &[&str] = [&["external_ids"][..], &[]][self.below(2)];
        let set = self.address_set();
        self.txn.upsert(&address_sets(), &set, keep).map(drop)
    }

    fn change_addresses(&mut self) -> Result<(), BuildError> {
        let Some((row, _)) = self.any(|set: &AddressSet| set.name.clone()) else {
            return self.insert_address_set();
        };
        let (more, less) = (self.addresses(), self.addresses());
        self.txn.remove(row, AddressSet::ADDRESSES, less)?;
        self.txn.add(row, AddressSet::ADDRESSES, more)
    }

    fn count(&mut self) -> Result<(), BuildError> {
        let by = self.below(1000) as i64 - 300;
        match self.any(|global: &NbGlobal| global.name.clone()) {
            Some((row, _)) => self.txn.increase(row, NbGlobal::NB_CFG, by),
            None => self
                .txn
                .insert(&NbGlobal { name: "global".into(), nb_cfg: by, ..Default::default() })
                .map(drop),
        }
    }

    /// Others refer to these weakly: what is deleted is gone from their sets.
    fn load_balancers(&mut self) -> Result<(), BuildError> {
        let name = self.new_name("lb");
        let vips = self.map();
        let balancer = self.txn.insert(&LoadBalancer { name, vips, ..Default::default() })?;
        if let Some((row, _)) = self.router() {
            self.txn.add(row, LogicalRouter::LOAD_BALANCER, [balancer])?;
        }
        match self.any(|balancer: &LoadBalancer| balancer.name.clone()) {
            Some((row, _)) if self.below(2) == 0 => self.txn.delete(row),
            _ => Ok(()),
        }
    }

    fn routes(&mut self) -> Result<(), BuildError> {
        let Some((row, _)) = self.router() else {
            return self.insert_router();
        };
        let route = LogicalRouterStaticRoute {
            ip_prefix: self.new_name("10.0.0.0/"),
            nexthop: "10.0.0.1".into(),
            ..Default::default()
        };
        let route = self.txn.insert(&route)?;
        self.txn.add(row, LogicalRouter::STATIC_ROUTES, [route])
    }

    fn verify(&mut self) -> Result<(), BuildError> {
        let Some((row, _)) = self.router() else {
            return self.insert_router();
        };
        self.txn.verify(row, LogicalRouter::OPTIONS)?;
        let name = self.new_name("lr");
        self.txn.set(row, LogicalRouter::NAME, name)
    }

    /// Also what others refer to strongly, which the server refuses.
    fn delete(&mut self) -> Result<(), BuildError> {
        match self.below(8) {
            0..=2 => match self.router() {
                Some((row, _)) => self.txn.delete(row),
                None => Ok(()),
            },
            3 => match self.any(|port: &LogicalRouterPort| port.name.clone()) {
                Some((row, _)) => self.txn.delete(row),
                None => Ok(()),
            },
            _ => match self.any(|set: &AddressSet| set.name.clone()) {
                Some((row, _)) => self.txn.delete(row),
                None => Ok(()),
            },
        }
    }
}
