//! Values of the manifests that a cluster chooses, in place of those in `controller/deploy`.

use std::fmt::Display;

use patchbay_crds as crd;

use super::cluster_args::Deploy;
use super::cluster_flags::ClusterFlags;

/// Accounts and roles.
pub(super) const RBAC: &str = include_str!("../../deploy/rbac.yaml");
/// The cluster manager's Deployment.
pub(super) const CLUSTER: &str = include_str!("../../deploy/cluster.yaml");
/// The zone controllers' `DaemonSet`.
pub(super) const ZONE: &str = include_str!("../../deploy/zone.yaml");
/// Roles that both accounts need for `run --networks`.
pub(super) const NETWORKS: &str = include_str!("../../deploy/networks.yaml");

/// Ports of the admin port in the manifests.
pub(super) const CLUSTER_PORT: u16 = 9491;
pub(super) const ZONE_PORT: u16 = 9492;
/// Folder of OVN-Kubernetes' sockets on a node.
pub(super) const SOCKET_FOLDER: &str = "/var/run/openvswitch";

/// The namespace of a release, in the Helm chart.
pub(super) const CHART_NAMESPACE: &str = "{{ .Release.Namespace }}";

/// Line of the manifests with the settings of the cluster.
const SETTINGS: &str = "        - --service-cidr=10.96.0.0/16\n";
/// Line of the manifests before the pull secrets.
const ACCOUNT: &str = "      serviceAccountName: ";
/// Line of the cluster manager before its node selector.
const CLUSTER_PRIORITY: &str = "      priorityClassName: system-cluster-critical\n";
/// Last line of the zone controllers' node selector.
const ZONE_SELECTOR: &str = "        kubernetes.io/os: linux\n";

/// Texts in place of those in the manifests. Those that end with a line break are whole lines, or
/// empty.
pub(super) struct Slots {
    namespace: String,
    image: String,
    /// Arguments of both controllers.
    settings: String,
    replicas: String,
    pull_secrets: String,
    cluster: ControllerSlots,
    zone: ControllerSlots,
    socket_folder: String,
}

/// Texts of one controller.
struct ControllerSlots {
    /// Lines of the node selector. Those of the cluster manager begin with the field.
    selector: String,
    cpu_request: String,
    memory_request: String,
    memory_limit: String,
    port: String,
}

impl Slots {
    /// The values that the flags give.
    pub(super) fn of(arguments: &Deploy, cluster: &ClusterFlags) -> Self {
        let networks = arguments.networks.then(|| "--networks".to_owned());
        let settings = cluster.arguments().into_iter().chain(networks);
        let secrets = lines("      - name: ", &arguments.pull_secrets);
        let selector = lines("        ", &arguments.cluster_node_selector);
        Self {
            namespace: arguments.namespace.clone(),
            image: arguments.image.clone(),
            settings: lines("        - ", settings),
            replicas: arguments.replicas.to_string(),
            pull_secrets: with_field("      imagePullSecrets:\n", secrets),
            cluster: ControllerSlots {
                selector: with_field("      nodeSelector:\n", selector),
                cpu_request: arguments.cpu_request.clone(),
                memory_request: arguments.memory_request.clone(),
                memory_limit: arguments.cluster_memory_limit.clone(),
                port: arguments.cluster_admin_port.to_string(),
            },
            zone: ControllerSlots {
                selector: lines("        ", &arguments.zone_node_selector),
                cpu_request: arguments.cpu_request.clone(),
                memory_request: arguments.memory_request.clone(),
                memory_limit: arguments.zone_memory_limit.clone(),
                port: arguments.zone_admin_port.to_string(),
            },
            socket_folder: arguments.socket_folder.clone(),
        }
    }

    /// Expressions of the values of the Helm chart.
    pub(super) fn of_chart() -> Self {
        let value = |name: &str| format!("{{{{ .Values.{name} }}}}");
        let controller = |name: &str, selector: String| ControllerSlots {
            selector,
            cpu_request: value(&format!("{name}.resources.requests.cpu")),
            memory_request: value(&format!("{name}.resources.requests.memory")),
            memory_limit: value(&format!("{name}.resources.limits.memory")),
            port: value(&format!("{name}.adminPort")),
        };
        let secrets = [
            "      {{- with .Values.global.imagePullSecretName }}",
            "      imagePullSecrets:",
            "      - name: {{ . }}",
            "      {{- end }}",
        ];
        let cluster_selector = [
            "      {{- with .Values.clusterManager.nodeSelector }}",
            "      nodeSelector:",
            "        {{- toYaml . | nindent 8 }}",
            "      {{- end }}",
        ];
        let zone_selector = [
            "        {{- with .Values.zoneController.nodeSelector }}",
            "        {{- toYaml . | nindent 8 }}",
            "        {{- end }}",
        ];
        Self {
            namespace: CHART_NAMESPACE.to_owned(),
            image: "{{ include \"patchbay.image\" . }}".to_owned(),
            settings: "        {{- include \"patchbay.arguments\" . | nindent 8 }}\n".to_owned(),
            replicas: value("clusterManager.replicaCount"),
            pull_secrets: lines("", secrets),
            cluster: controller("clusterManager", lines("", cluster_selector)),
            zone: controller("zoneController", lines("", zone_selector)),
            socket_folder: value("zoneController.socketFolder"),
        }
    }

    /// The manifest with these values.
    pub(super) fn fill(&self, manifest: &str) -> String {
        let (controller, port) =
            if manifest == ZONE { (&self.zone, ZONE_PORT) } else { (&self.cluster, CLUSTER_PORT) };
        manifest.split_inclusive('\n').map(|line| self.fill_line(line, controller, port)).collect()
    }

    /// A line of a manifest with these values. `port` is that of the manifest.
    fn fill_line(&self, line: &str, controller: &ControllerSlots, port: u16) -> String {
        match line {
            SETTINGS => self.settings.clone(),
            CLUSTER_PRIORITY | ZONE_SELECTOR => [line, &controller.selector].concat(),
            "  replicas: 2\n" => format!("  replicas: {}\n", self.replicas),
            "        image: patchbay:latest\n" => format!("        image: {}\n", self.image),
            "            cpu: 10m\n" => format!("            cpu: {}\n", controller.cpu_request),
            "            memory: 64Mi\n" => {
                format!("            memory: {}\n", controller.memory_request)
            }
            "            memory: 1Gi\n" | "            memory: 2Gi\n" => {
                format!("            memory: {}\n", controller.memory_limit)
            }
            _ if line.starts_with(ACCOUNT) => [line, &self.pull_secrets].concat(),
            _ => {
                let (namespace, folder) = (crd::NAMESPACE, SOCKET_FOLDER);
                line.replace(
                    &format!("namespace: {namespace}\n"),
                    &format!("namespace: {}\n", self.namespace),
                )
                .replace(&port.to_string(), &controller.port)
                .replace(&format!("path: {folder}\n"), &format!("path: {}\n", self.socket_folder))
            }
        }
    }
}

/// One line for each item.
fn lines<T: Display>(start: &str, items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| format!("{start}{item}\n")).collect::<Vec<_>>().concat()
}

/// The lines of a field, or nothing if it has none.
fn with_field(field: &str, lines: String) -> String {
    if lines.is_empty() { lines } else { field.to_owned() + &lines }
}
