//! Pods.

use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ApiVersion, KindName, Object, ObjectMeta};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// `apiVersion`.
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata: annotations have the pod's networks and its addresses there.
    pub metadata: ObjectMeta,
    /// Specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<PodSpec>,
    /// Status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<PodStatus>,
}

impl Object for Pod {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Pod";
    const PLURAL: &'static str = "pods";
    const NAMESPACED: bool = true;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }

    /// Removes such parts as images and volumes, and the room that decoding leaves in lists.
    fn drop_unread(&mut self) {
        if let Some(conditions) = self.status.as_mut().and_then(|it| it.conditions.as_mut()) {
            conditions.retain(|condition| condition.kind == "Ready");
            conditions.shrink_to_fit();
        }
        let Some(spec) = &mut self.spec else {
            return;
        };
        let mut kept = PodSpec {
            node_name: spec.node_name.take(),
            host_network: spec.host_network,
            ..PodSpec::default()
        };
        kept.containers.reserve_exact(spec.containers.len());
        for container in mem::take(&mut spec.containers) {
            let Container { name, mut ports, .. } = container;
            ports.iter_mut().for_each(Vec::shrink_to_fit);
            kept.containers.push(Container { name, ports, ..Container::default() });
        }
        *spec = kept;
    }
}

/// Specification of a pod. Fields that are not read are declared, because undeclared fields are
/// refused. They are in boxes, because a controller keeps many pods without them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<Container>,
    /// Containers that run before `containers`; with the restart policy `Always`, beside them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_containers: Option<Vec<Container>>,
    /// Node of the pod; `None` before it is scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// `Some(true)`: the pod uses the network of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_network: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    active_deadline_seconds: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    affinity: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    automount_service_account_token: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_config: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dns_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enable_service_links: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ephemeral_containers: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_aliases: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_users: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname_override: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_pull_secrets: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_selector: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    os: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overhead: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preemption_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority_class_name: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness_gates: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_claims: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runtime_class_name: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler_name: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduling_gates: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_context: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_account_name: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    share_process_namespace: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subdomain: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_grace_period_seconds: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerations: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topology_spread_constraints: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volumes: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workload_ref: Option<Box<Value>>,
    #[serde(rename = "hostIPC", skip_serializing_if = "Option::is_none")]
    host_ipc: Option<Box<Value>>,
    #[serde(rename = "hostPID", skip_serializing_if = "Option::is_none")]
    host_pid: Option<Box<Value>>,
    #[serde(rename = "setHostnameAsFQDN", skip_serializing_if = "Option::is_none")]
    set_hostname_as_fqdn: Option<Box<Value>>,
}

/// Container of a pod. Fields that are not read are declared, because undeclared fields are
/// refused. They are in boxes, because a controller keeps many containers without them.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Name.
    pub name: String,
    /// Ports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<Vec<ContainerPort>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    env_from: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_pull_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lifecycle: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    liveness_probe: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    readiness_probe: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resize_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    restart_policy_rules: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_context: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    startup_probe: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdin_once: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_message_path: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_message_policy: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tty: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_devices: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    volume_mounts: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_dir: Option<Box<Value>>,
}

/// Port of a container.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// Number.
    pub container_port: i64,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    host_ip: Option<Box<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    host_port: Option<Box<Value>>,
    /// Name, by which services and policies refer to the port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `TCP`, `UDP` or `SCTP`; `None`: TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
}

/// Status of a pod, with the fields that are read.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Addresses in the default network, or of the node for a pod on its network.
    #[serde(rename = "podIPs", skip_serializing_if = "Option::is_none")]
    pub pod_ips: Option<Vec<PodIp>>,
    /// Conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<PodCondition>>,
}

/// Address of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// Condition of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct PodCondition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_kept_without_what_nothing_reads() {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "a", "namespace": "blue", "annotations": {
                "k8s.v1.cni.cncf.io/networks": "red",
            }},
            "spec": {"nodeName": "n1", "volumes": [], "containers": [
                {"name": "c", "image": "i", "ports": [{"containerPort": 80}]},
            ]},
            "status": {"conditions": [
                {"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"},
            ]},
        }))
        .unwrap();
        pod.drop_unread();
        assert_eq!(
            json!(pod),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "namespace": "blue", "annotations": {
                    "k8s.v1.cni.cncf.io/networks": "red",
                }},
                "spec": {"nodeName": "n1", "containers": [
                    {"name": "c", "ports": [{"containerPort": 80}]},
                ]},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            })
        );
    }
}
