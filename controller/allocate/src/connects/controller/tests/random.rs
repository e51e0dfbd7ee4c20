//! Random sequences of changes in a cluster.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::{ConnectSubnetMap, Topology};
use patchbay_resources::object::Object;
use proptest::prelude::*;
use serde_json::json;

use super::bed::{TestBed, range};

#[derive(Clone, Copy, Debug)]
enum Step {
    Network(i64, bool),
    Remove(i64),
    Connect(usize),
    Disconnect(usize),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1_i64..9, any::<bool>()).prop_map(|(id, layer2)| Step::Network(id, layer2)),
        2 => (1_i64..9).prop_map(Step::Remove),
        2 => (0_usize..3).prop_map(Step::Connect),
        1 => (0_usize..3).prop_map(Step::Disconnect),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..30)
}

proptest! {
    /// A restart changes nothing, keys are unique, and a network that stays keeps its subnets. A
    /// layer2 network keeps them while no other network comes or goes.
    #[test]
    fn allocations_stay(steps in steps()) {
        let ranges = [range("192.168.0.0/21", 24), range("192.169.0.0/28", 30), range("fd01::/112", 120)];
        let mut bed = TestBed::new();
        for step in steps {
            let before: BTreeMap<String, (Option<String>, Option<String>)> = bed
                .connects
                .iter()
                .map(|(name, object)| {
                    (name.clone(), (bed.key(name).map(str::to_owned), object.uid()))
                })
                .collect();
            let subnets_before: BTreeMap<String, ConnectSubnetMap> = bed.connects.keys()
                .filter_map(|name| Some((name.clone(), ConnectSubnetMap::parse(bed.subnets(name)?).unwrap().0)))
                .collect();
            let mut touched = None;
            match step {
                Step::Network(id, layer2) => {
                    let topology = if layer2 { "layer2" } else { "layer3" };
                    let subnets = format!("10.{id}.0.0/16,fd10:{id}::/48");
                    bed.network(&format!("n{id}"), id, json!({"topology": topology, "subnets": subnets}));
                    touched = Some(id);
                }
                Step::Remove(id) => {
                    bed.remove_network(&format!("n{id}"));
                    touched = Some(id);
                }
                Step::Connect(index) => {
                    let name = format!("c{index}");
                    if !bed.connects.contains_key(&name) {
                        bed.connect(&name, &ranges[index]);
                    }
                }
                Step::Disconnect(index) => {
                    bed.connects.remove(&format!("c{index}"));
                }
                Step::Restart => {
                    bed.restart();
                }
            }
            prop_assert_eq!(bed.settle(), Vec::<String>::new());

            let keys: Vec<_> = bed.connects.keys().filter_map(|name| bed.key(name)).collect();
            let distinct: BTreeSet<_> = keys.iter().collect();
            prop_assert_eq!(keys.len(), distinct.len());
            for (name, (key, uid)) in before {
                let Some(object) = bed.connects.get(&name) else { continue };
                if object.uid() != uid {
                    continue;
                }
                if key.is_some() {
                    prop_assert_eq!(bed.key(&name), key.as_deref());
                }
                let Some(subnets) = subnets_before.get(&name) else { continue };
                let after = ConnectSubnetMap::parse(bed.subnets(&name).unwrap()).unwrap().0;
                for (owner, had) in subnets.iter() {
                    let may_move = touched.is_some() && owner.topology == Topology::Layer2;
                    if !may_move && touched != Some(owner.network_id.get().into()) {
                        prop_assert_eq!(after.get(owner), Some(had));
                    }
                }
            }
        }
    }
}
