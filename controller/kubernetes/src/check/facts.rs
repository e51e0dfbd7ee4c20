//! What an API server answers, as far as checks need it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde::Deserialize as _;

use crate::check::CheckConfig;
use crate::check::objects::{
    ConnectFacts, Controller, LeaseFacts, NodeFacts, PodFacts, Writer, configuration, connect,
    controller, lease_of, listed_lease, name_of, node, pod, report, workload,
};
use crate::check::reader::{Answer, Greeting, NoAnswer, Reader};
use crate::check::rights::Right;
use crate::election::other_managers::LABEL as MANAGER_LABEL;
use crate::reports::zone_reports::{SELECTOR, WatchedZoneReport};

/// Difference of clocks that a time in whole seconds and a slow answer explain.
const HEADER_PRECISION: SignedDuration = SignedDuration::from_secs(2);
/// Name of the lease of cluster managers.
const LEASE: &str = "patchbay-cluster";
/// Questions about rights that are asked at the same time.
const CONCURRENT_REVIEWS: usize = 16;
/// Paths of lists.
const APPS: &str = "/apis/apps/v1";
const LEASES: &str = "/apis/coordination.k8s.io/v1";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONNECTS: &str = "/apis/k8s.ovn.org/v1/clusternetworkconnects";
/// Configuration files of OVN-Kubernetes, in its namespaces.
const CONFIGURATIONS: [&str; 2] = [
    "/api/v1/namespaces/ovn-kubernetes/configmaps/ovnkube-config",
    "/api/v1/namespaces/openshift-ovn-kubernetes/configmaps/ovnkube-config",
];

/// Answers of an API server.
pub(crate) struct Facts {
    pub(crate) version: Answer<Greeting>,
    /// Rights that the user lacks.
    pub(crate) missing_rights: Answer<Vec<Right>>,
    /// Definitions by name.
    pub(crate) definitions: BTreeMap<String, Answer<CustomResourceDefinition>>,
    /// Programs that may write the same rows.
    pub(crate) writers: Answer<Vec<Writer>>,
    pub(crate) nodes: Answer<Vec<NodeFacts>>,
    /// Leases of cluster managers in all namespaces.
    pub(crate) managers: Answer<Vec<LeaseFacts>>,
    /// The lease of the namespace.
    pub(crate) lease: Answer<LeaseFacts>,
    pub(crate) zone_leases: Answer<Vec<LeaseFacts>>,
    pub(crate) cluster: Answer<Controller>,
    pub(crate) zone: Answer<Controller>,
    /// Pods that are not ready, of both controllers.
    pub(crate) pods: Answer<Vec<PodFacts>>,
    pub(crate) policies: Answer<BTreeSet<String>>,
    pub(crate) connects: Answer<Vec<ConnectFacts>>,
    pub(crate) reports: Answer<Vec<Arc<WatchedZoneReport>>>,
}

impl Facts {
    /// Asks for everything, if the server answers the first question.
    pub(crate) async fn read(reader: &Reader, config: &CheckConfig) -> Self {
        let version = reader.greeting().await;
        if version.is_err() {
            return Self::unreachable(version);
        }
        let namespace = &config.namespace;
        let in_namespace = |root: &str, rest: &str| format!("{root}/namespaces/{namespace}/{rest}");
        let (key, value) = MANAGER_LABEL;
        let managers = format!("{key}={value}");
        let deployment = in_namespace(APPS, "deployments/patchbay-cluster");
        let daemon_set = in_namespace(APPS, "daemonsets/patchbay-zone");
        let pods = in_namespace("/api/v1", "pods");
        let lease = format!("{}/{LEASE}", in_namespace(LEASES, "leases"));
        let (leases, zone_leases) = (format!("{LEASES}/leases"), in_namespace(LEASES, "leases"));
        let reports = in_namespace("/api/v1", "configmaps");
        let (missing_rights, definitions, writers, nodes, managers, lease, zone_leases, rest) = tokio::join!(
            reader.bounded(missing_rights(reader, &config.rights)),
            definitions(reader, config),
            writers(reader),
            reader.list("/api/v1/nodes", "", node),
            reader.list(&leases, &managers, listed_lease),
            reader.get(&lease, lease_of),
            reader.list(&zone_leases, SELECTOR, listed_lease),
            async {
                tokio::join!(
                    reader.get(&deployment, controller),
                    reader.get(&daemon_set, controller),
                    reader.list(&pods, "app=patchbay-cluster", pod),
                    reader.list(&pods, "app=patchbay-zone", pod),
                    reader.list(POLICIES, "", name_of),
                    reader.list(CONNECTS, "", connect),
                    reader.list(&reports, SELECTOR, report),
                )
            },
        );
        let (cluster, zone, managers_pods, zones_pods, policies, connects, reports) = rest;
        let pods = managers_pods.and_then(|mut all| {
            all.extend(zones_pods?);
            Ok(all)
        });
        let policies = policies.map(BTreeSet::from_iter);
        Self {
            version,
            missing_rights,
            definitions,
            writers,
            nodes,
            managers,
            lease,
            zone_leases,
            cluster,
            zone,
            pods,
            policies,
            connects,
            reports,
        }
    }

    fn unreachable(version: Answer<Greeting>) -> Self {
        Self {
            version,
            missing_rights: Err(NoAnswer::Unreachable),
            definitions: BTreeMap::new(),
            writers: Err(NoAnswer::Unreachable),
            nodes: Err(NoAnswer::Unreachable),
            managers: Err(NoAnswer::Unreachable),
            lease: Err(NoAnswer::Unreachable),
            zone_leases: Err(NoAnswer::Unreachable),
            cluster: Err(NoAnswer::Unreachable),
            zone: Err(NoAnswer::Unreachable),
            pods: Err(NoAnswer::Unreachable),
            policies: Err(NoAnswer::Unreachable),
            connects: Err(NoAnswer::Unreachable),
            reports: Err(NoAnswer::Unreachable),
        }
    }

    /// Arguments of the controllers, by the name of their object.
    pub(crate) fn arguments(&self) -> Vec<(&'static str, Vec<String>)> {
        let named = [("patchbay-cluster", &self.cluster), ("patchbay-zone", &self.zone)];
        let known = named.into_iter().filter_map(|(name, controller)| {
            let controller = controller.as_ref().ok()?;
            Some((name, controller.arguments.clone()))
        });
        known.collect()
    }

    /// The time of the API server, whose clock the leases are compared with. Without its time, or if
    /// it differs by no more than a header in whole seconds does: that of this machine.
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = self.version.as_ref().ok().and_then(|greeting| greeting.ahead);
        let ahead = ahead.filter(|ahead| ahead.abs() > HEADER_PRECISION);
        let now = Timestamp::now();
        now.saturating_add(ahead.unwrap_or_default()).unwrap_or(now)
    }
}

async fn missing_rights(reader: &Reader, rights: &[Right]) -> Answer<Vec<Right>> {
    if rights.is_empty() || reader.may(&Right::everything()).await? {
        return Ok(Vec::new());
    }
    let questions = rights.iter().map(async |right| Ok((right, reader.may(right).await?)));
    let answers: Vec<Answer<(&Right, bool)>> =
        stream::iter(questions).buffered(CONCURRENT_REVIEWS).collect().await;
    let mut missing = Vec::new();
    for answer in answers {
        let (right, is_permitted) = answer?;
        if !is_permitted {
            missing.push(right.clone());
        }
    }
    if missing.iter().any(|right| right.is_granted) && may_grant(reader).await? {
        missing.retain(|right| !right.is_granted);
    }
    Ok(missing)
}

/// Whether the user may grant rights that they lack.
async fn may_grant(reader: &Reader) -> Answer<bool> {
    for resource in ["clusterroles", "roles"] {
        for verb in ["escalate", "bind"] {
            if !reader.may(&Right::about_roles(verb, resource)).await? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

async fn definitions(
    reader: &Reader,
    config: &CheckConfig,
) -> BTreeMap<String, Answer<CustomResourceDefinition>> {
    let read = config.definitions.iter().map(async |definition| {
        let path = format!("{DEFINITIONS}/{}", definition.name);
        let decoded = reader.get(&path, |object| CustomResourceDefinition::deserialize(object));
        let decoded = decoded
            .await
            .and_then(|decoded| decoded.map_err(|error| NoAnswer::Failed(error.to_string())));
        (definition.name.clone(), decoded)
    });
    join_all(read).await.into_iter().collect()
}

/// Workloads whose arguments, environment or configuration let OVN-Kubernetes write.
async fn writers(reader: &Reader) -> Answer<Vec<Writer>> {
    let (deployments, daemon_sets) = (format!("{APPS}/deployments"), format!("{APPS}/daemonsets"));
    let files = CONFIGURATIONS.iter().map(|path| reader.get(path, configuration));
    let (deployments, daemon_sets, files) = tokio::join!(
        reader.list(&deployments, "", |object| workload("Deployment", object)),
        reader.list(&daemon_sets, "", |object| workload("DaemonSet", object)),
        join_all(files),
    );
    let mut writers = deployments?;
    writers.extend(daemon_sets?);
    for file in files {
        match file {
            Ok(file) => writers.push(file),
            Err(NoAnswer::Missing) => {}
            Err(other) => return Err(other),
        }
    }
    Ok(writers)
}
