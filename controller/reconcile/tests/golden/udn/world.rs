//! A zone while a scenario is played.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_engine::db::Snapshot;
use patchbay_model::{
    ClusterSettings, DEFAULT_NETWORK_KEY, OPEN_PORTS, POD_NETWORKS, RenderedNetworks,
};
use patchbay_zone::ZoneObjects;
use serde_json::Value;

use super::Input;
use super::config::settings;
use super::controllers::Controllers;
use super::northbound::Northbound;
use super::objects::Objects;
use crate::report::Difference;
use crate::scenario::{ObjectOp, Pace, Step};

/// Kind of firewalls.
const FIREWALL: &str = "EgressFirewall";
/// Passes after which a scenario that still changes rows fails.
const MAX_PASSES: usize = 12;

/// Objects, a database, and the controllers while they run.
pub(crate) struct World {
    pub(super) node: String,
    pub(super) settings: ClusterSettings,
    pub(crate) objects: Objects,
    pub(super) northbound: Northbound,
    controllers: Option<Controllers>,
    /// Objects, as the running controllers have seen them last.
    pub(super) former: Option<ZoneObjects>,
    /// Networks that the running controllers have rendered.
    pub(super) rendered: RenderedNetworks,
    /// Addresses of pods in the default network, which its own controller has recorded.
    pub(super) default_addresses: BTreeMap<String, Vec<IpAddr>>,
    started: u64,
    pace: Pace,
}

impl World {
    pub(crate) fn new(input: &Input, pace: Pace) -> Result<Self, String> {
        let mut objects = Objects::default();
        for object in &input.objects {
            objects.put(object.clone())?;
        }
        let settings = settings(&input.config)?;
        Ok(Self {
            node: input.config.node.clone(),
            settings,
            objects,
            northbound: Northbound::new(),
            controllers: None,
            former: None,
            rendered: RenderedNetworks::default(),
            default_addresses: BTreeMap::new(),
            started: 0,
            pace,
        })
    }

    /// Takes over recorded addresses of pods in the default network. `None`: no change. A pod whose
    /// annotation was replaced keeps them.
    pub(crate) fn know_default_network(&mut self, pods: Option<&BTreeMap<String, Value>>) {
        let Some(pods) = pods else {
            return;
        };
        let pods = pods.iter().map(|(pod, networks)| {
            let addresses = networks[DEFAULT_NETWORK_KEY]["ip_addresses"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .filter_map(|text| text.parse::<IpNet>().ok());
            let recorded: Vec<IpAddr> = addresses.map(|net| net.addr()).collect();
            let former = self.default_addresses.get(pod).cloned().filter(|_| recorded.is_empty());
            (pod.clone(), former.unwrap_or(recorded))
        });
        self.default_addresses = pods.collect();
    }

    pub(crate) fn start(&mut self) {
        self.controllers = Some(self.new_controllers());
    }

    /// Controllers that know nothing yet.
    fn new_controllers(&mut self) -> Controllers {
        self.started += 1;
        self.rendered = RenderedNetworks::default();
        self.former = None;
        Controllers::new(self.started)
    }

    pub(crate) fn stop(&mut self) {
        self.controllers = None;
    }

    /// Applies the ops of a step and lets the controllers come to rest.
    pub(super) fn play(&mut self, step: Step<ObjectOp>) -> Result<Vec<Difference>, String> {
        let mut differences = Vec::new();
        for (index, op) in step.ops.into_iter().enumerate() {
            if index > 0 && self.pace == Pace::Interrupted {
                differences.extend(self.settle()?);
            }
            match op {
                ObjectOp::StartController => self.start(),
                ObjectOp::StopController => self.stop(),
                ObjectOp::Settle => differences.extend(self.settle()?),
                ObjectOp::Create { object } => self.objects.put(object)?,
                ObjectOp::Patch { kind, namespace, name, patch } => {
                    self.objects.patch(&kind, &namespace, &name, &patch)?;
                }
                ObjectOp::Delete { kind, namespace, name } => {
                    self.objects.delete(&kind, &namespace, &name)?;
                    // A firewall that comes again is another one.
                    if let Some(objects) = self.former.as_mut().filter(|_| kind == FIREWALL) {
                        objects.remove_firewall(&namespace);
                    }
                }
            }
        }
        differences.extend(self.settle()?);
        Ok(differences)
    }

    /// Plans and commits until nothing is left to do. A new controller has to agree.
    pub(crate) fn settle(&mut self) -> Result<Option<Difference>, String> {
        let Some(mut controllers) = self.controllers.take() else {
            return Ok(None);
        };
        let settled = self.settle_with(&mut controllers);
        self.controllers = Some(controllers);
        settled
    }

    fn settle_with(&mut self, controllers: &mut Controllers) -> Result<Option<Difference>, String> {
        let mut inputs = self.inputs()?;
        let addresses = controllers.addresses.allocate(&inputs);
        if !addresses.is_empty() {
            for (pod, networks) in addresses {
                self.objects.annotate_pod(pod, POD_NETWORKS, &networks.to_json())?;
            }
            inputs = self.inputs()?;
        }
        let pods = inputs.pods();
        let local = pods.filter(|pod| pod.is_wired() && pod.node.as_deref() == Some(&*self.node));
        // A pod that waits for the primary network of its namespace is on no network.
        let attached = local.filter(|pod| {
            let addresses = self.default_addresses.get(&pod.key.to_string());
            addresses.is_some_and(|addresses| !addresses.is_empty())
        });
        // OVN-Kubernetes makes no port for a pod whose open ports cannot be read.
        let attached = attached.filter(|pod| {
            let mut problems = pod.problems.iter();
            self.northbound.has_default_port(&pod.key.default_port())
                || !problems.any(|problem| problem.is_of_annotation(OPEN_PORTS))
        });
        let default_ports = attached.map(|pod| pod.key.default_port()).collect();
        self.northbound.set_default_ports(&default_ports)?;
        for _ in 0..MAX_PASSES {
            let snapshot = self.northbound.snapshot();
            let plan = controllers.plan(&inputs, &snapshot);
            let Some(transaction) = plan? else {
                return self.compare_new(&inputs, &snapshot);
            };
            self.northbound.commit(&transaction)?;
            if self.pace == Pace::Interrupted {
                *controllers = self.new_controllers();
                inputs = self.inputs()?;
            }
        }
        Ok(Some(Difference {
            place: "passes".to_owned(),
            missing: vec![format!("rest after {MAX_PASSES} passes")],
            extra: Vec::new(),
        }))
    }

    /// Compares the state with the one that new controllers would write.
    fn compare_new(
        &self,
        inputs: &ZoneObjects,
        snapshot: &Snapshot,
    ) -> Result<Option<Difference>, String> {
        let mut controllers = Controllers::new(self.started);
        let addresses = controllers.addresses.allocate(inputs);
        let mut extra: Vec<String> = addresses
            .iter()
            .map(|(pod, networks)| format!("{pod} {}", networks.to_json()))
            .collect();
        let plan = controllers.plan(inputs, snapshot);
        if let Some(transaction) = plan? {
            extra.push(format!("{:?}", transaction.operations()));
        }
        Ok((!extra.is_empty()).then(|| Difference {
            place: "a new controller".to_owned(),
            missing: Vec::new(),
            extra,
        }))
    }
}
