//! The manifests in `controller/deploy`.

use std::path::Path;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::ResourceExt;
use patchbay_crds::{NAMESPACE, cluster_manager_in, manifests, policies};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::command::patchbay;
use crate::testbed::{Testbed, ZONE, eventually};

fn read(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy").join(name);
    std::fs::read_to_string(file).unwrap()
}

/// The objects of a kind in a file. Every field must be one of the kind's.
fn objects<T: DeserializeOwned + serde::Serialize>(name: &str, kind: &str) -> Vec<T> {
    let all: Vec<Value> = serde_saphyr::from_multiple(&read(name)).unwrap();
    let of_kind = all.into_iter().filter(|object| object["kind"] == kind);
    let understood = of_kind.map(|object| {
        let understood: T = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&understood).unwrap(), object);
        understood
    });
    understood.collect()
}

/// The arguments of the container, as the kubelet passes them on the test's node.
fn arguments(container: &Value) -> Vec<String> {
    let arguments = container["args"].as_array().unwrap().iter();
    arguments.map(|argument| argument.as_str().unwrap().replace("$(K8S_NODE)", ZONE)).collect()
}

/// Checks that the command accepts the arguments: its only error is that it does not run in a
/// cluster.
fn is_understood(arguments: &[String]) {
    let mut command = patchbay(&[]);
    command
        .args(arguments)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env_remove("KUBERNETES_SERVICE_PORT");
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        error.starts_with("error: cannot use the cluster: ") && error.contains("--kubeconfig FILE"),
        "{error}"
    );
}

#[test]
fn the_definitions_equal_the_output_of_the_command() {
    let names = ["cnc".to_owned()];
    let manager = cluster_manager_in(NAMESPACE);
    let printed = manifests(&names, &policies(&manager, NAMESPACE)).unwrap();
    assert!(
        read("crds.yaml") == printed,
        "update it: patchbay crds cnc --policies --manager {manager} > controller/deploy/crds.yaml"
    );
}

#[test]
fn the_manifests_arguments_are_valid() {
    let deployments = objects::<Deployment>("cluster.yaml", "Deployment");
    assert_eq!(deployments.len(), 1);
    let deployment = serde_json::to_value(&deployments[0]).unwrap();
    is_understood(&arguments(&deployment["spec"]["template"]["spec"]["containers"][0]));
    let sets = objects::<DaemonSet>("zone.yaml", "DaemonSet");
    assert_eq!(sets.len(), 1);
    let set = serde_json::to_value(&sets[0]).unwrap();
    is_understood(&arguments(&set["spec"]["template"]["spec"]["containers"][0]));
}

fn deploy(more: &[&str]) -> String {
    let output = patchbay(&["deploy"]).args(more).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_command_prints_the_files() {
    let files = ["crds.yaml", "rbac.yaml", "cluster.yaml", "zone.yaml"].map(read);
    assert_eq!(deploy(&[]), files.join("---\n"));
}

/// Arguments of both controllers in printed manifests.
fn controllers(text: &str) -> Vec<Vec<String>> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let pods = objects.iter().map(|object| &object["spec"]["template"]["spec"]);
    let containers = pods.map(|pod| &pod["containers"][0]);
    let with_arguments = containers.filter(|one| one["args"].is_array());
    let controllers: Vec<_> = with_arguments.map(arguments).collect();
    assert_eq!(controllers.len(), 2);
    controllers
}

#[test]
fn one_flag_lets_both_controllers_write_the_networks() {
    let text = deploy(&["--networks"]);
    assert!(text.ends_with(&format!("---\n{}", read("networks.yaml"))));
    for arguments in controllers(&text) {
        assert!(arguments.contains(&"--networks".to_owned()));
        is_understood(&arguments);
    }
}

#[test]
fn both_controllers_get_the_settings_of_the_cluster() {
    let settings = [
        "--service-cidr=10.1.0.0/16",
        "--service-cidr=fd01::/112",
        "--pod-cidr=10.244.0.0/16",
        "--pod-cidr=fd02::/48",
        "--gateway-mode=local",
        "--mtu=8900",
        "--enable=egress-ip,multicast",
        "--no-node-ports",
        "--networks",
    ];
    for arguments in controllers(&deploy(&settings)) {
        assert!(arguments.ends_with(&settings.map(str::to_owned)));
        is_understood(&arguments);
    }
}

#[test]
fn pods_have_probes_at_the_port_of_their_controller() {
    for (flags, ports) in [
        (&[][..], [9491, 9492]),
        (&["--cluster-admin-port=9001", "--zone-admin-port=9002"], [9001, 9002]),
    ] {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&deploy(flags)).unwrap();
        let templates = objects.iter().map(|one| &one["spec"]["template"]);
        let pods: Vec<_> = templates.filter(|one| one["spec"]["containers"].is_array()).collect();
        assert_eq!(pods.len(), 2);
        for (pod, port) in pods.into_iter().zip(ports) {
            let container = &pod["spec"]["containers"][0];
            assert_eq!(container["ports"], json!([{"name": "admin", "containerPort": port}]));
            assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/livez");
            assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
            for probe in ["livenessProbe", "readinessProbe"] {
                assert_eq!(container[probe]["httpGet"]["port"], "admin");
            }
            let address = format!("--admin-bind-address=:{port}");
            assert!(arguments(container).contains(&address), "{container}");
            let annotations = &pod["metadata"]["annotations"];
            assert_eq!(annotations["prometheus.io/port"], port.to_string());
            assert_eq!(annotations["prometheus.io/scrape"], "true");
        }
    }
}

#[test]
fn pods_are_as_the_flags_say() {
    let text = deploy(&[
        "--replicas=3",
        "--pull-secret=one",
        "--pull-secret=two",
        "--cluster-node-selector=node-role.kubernetes.io/control-plane=",
        "--zone-node-selector=patchbay=on",
        "--cpu-request=50m",
        "--memory-request=128Mi",
        "--cluster-memory-limit=3Gi",
        "--zone-memory-limit=512Mi",
        "--socket-folder=/run/ovn",
    ]);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let of_kind = |kind: &str| objects.iter().find(|one| one["kind"] == kind).unwrap();
    let (cluster, zone) = (of_kind("Deployment"), of_kind("DaemonSet"));
    assert_eq!(cluster["spec"]["replicas"], 3);
    for (object, selector, limit) in [
        (cluster, json!({"node-role.kubernetes.io/control-plane": ""}), "3Gi"),
        (zone, json!({"kubernetes.io/os": "linux", "patchbay": "on"}), "512Mi"),
    ] {
        let pod = &object["spec"]["template"]["spec"];
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "one"}, {"name": "two"}]));
        assert_eq!(pod["nodeSelector"], selector);
        let resources =
            json!({"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": limit}});
        assert_eq!(pod["containers"][0]["resources"], resources);
    }
    let volumes = &zone["spec"]["template"]["spec"]["volumes"];
    assert_eq!(volumes[0]["hostPath"]["path"], "/run/ovn");
    let output = patchbay(&["deploy", "--replicas=0"]).output().unwrap();
    assert!(!output.status.success());
}

#[test]
fn the_former_flag_of_dynamic_allocation_is_its_successor_with_a_warning() {
    let output = patchbay(&["deploy", "--dynamic-udn", "--enable=multicast"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.starts_with("warning: --dynamic-udn"), "{error}");
    assert!(error.contains("--enable dynamic-udn-allocation"), "{error}");
    for arguments in controllers(&String::from_utf8(output.stdout).unwrap()) {
        let flag = "--enable=multicast,dynamic-udn-allocation";
        assert!(arguments.contains(&flag.to_owned()), "{arguments:?}");
        is_understood(&arguments);
    }
}

#[test]
fn settings_that_the_controllers_would_refuse_are_refused() {
    for (flag, expected) in [
        (
            "--transit-cidr=100.88.0.0/32",
            "--transit-cidr 100.88.0.0/32: the range is too small: its length is at most 30",
        ),
        (
            "--pod-cidr=169.254.0.0/16",
            "--pod-cidr 169.254.0.0/16: the range overlaps with 169.254.0.0/17, the default of \
             --masquerade-cidr",
        ),
    ] {
        let output = patchbay(&["deploy", flag]).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(expected), "{text}");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    }
    let mut command = patchbay(&["deploy", "--service-cidr=10.1.0.0/16"]);
    let output = command.arg("--pod-cidr=fd02::/48").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    let expected = "the IP families of --service-cidr are not those of --pod-cidr";
    assert!(error.contains(expected), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn one_argument_moves_both_controllers_to_another_namespace() {
    let text = deploy(&[
        "--namespace=net-system",
        "--image=registry.example:5000/patchbay:v2",
        "--service-cidr=10.1.0.0/16",
        "--service-cidr=fd01::/112",
    ]);
    assert!(!text.contains("ovn-kubernetes\n") && !text.contains("ovn-kubernetes:"));
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let mut namespaces = std::collections::BTreeSet::new();
    let mut accounts = std::collections::BTreeSet::new();
    for object in &objects {
        let namespace = object["metadata"]["namespace"].as_str();
        namespaces.extend(namespace.map(str::to_owned));
        for subject in object["subjects"].as_array().into_iter().flatten() {
            assert_eq!(subject["namespace"], "net-system");
            accounts.insert(subject["name"].as_str().unwrap().to_owned());
        }
        let pod = &object["spec"]["template"]["spec"];
        if pod.is_object() {
            accounts.insert(pod["serviceAccountName"].as_str().unwrap().to_owned());
            let container = &pod["containers"][0];
            assert_eq!(container["image"], "registry.example:5000/patchbay:v2");
            let arguments = arguments(container);
            assert!(arguments.ends_with(&[
                "--service-cidr=10.1.0.0/16".to_owned(),
                "--service-cidr=fd01::/112".to_owned(),
            ]));
        }
    }
    // Events about objects without a namespace belong to the namespace "default".
    assert!(namespaces.into_iter().eq(["default", "net-system"]));
    let made = objects
        .iter()
        .filter(|one| one["kind"] == "ServiceAccount")
        .map(|one| one["metadata"]["name"].as_str().unwrap().to_owned());
    assert_eq!(made.collect::<std::collections::BTreeSet<_>>(), accounts);
    for user in ["patchbay-zone", "patchbay-cluster"] {
        let user = format!("system:serviceaccount:net-system:{user}");
        assert!(text.contains(&user), "the policies name {user}");
    }
}

/// Kind and name of each object in printed manifests.
fn printed(text: &str) -> Vec<(String, String)> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let names =
        objects.iter().map(|object| (text(&object["kind"]), text(&object["metadata"]["name"])));
    names.collect()
}

#[test]
fn the_namespace_and_other_definitions_are_printed_on_request() {
    let usual = printed(&deploy(&["--namespace=net-system"]));
    let all = deploy(&["--namespace=net-system", "--create-namespace", "--definitions"]);
    let more: Vec<_> = printed(&all).into_iter().filter(|one| !usual.contains(one)).collect();
    let expected = [
        ("Namespace", "net-system"),
        ("CustomResourceDefinition", "userdefinednetworks.k8s.ovn.org"),
        ("CustomResourceDefinition", "clusteruserdefinednetworks.k8s.ovn.org"),
        ("CustomResourceDefinition", "network-attachment-definitions.k8s.cni.cncf.io"),
    ];
    assert_eq!(more, expected.map(|(kind, name)| (kind.to_owned(), name.to_owned())));
    assert_eq!(printed(&all)[0].0, "Namespace", "what is in it comes later");
    assert!(!usual.iter().any(|(kind, _)| kind == "Namespace"));
    let namespace: Value = serde_saphyr::from_multiple(&all).unwrap().remove(0);
    let level = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    assert_eq!(level, "privileged");
}

#[test]
fn the_files_of_the_kustomization_exist() {
    let kustomization: Value = serde_saphyr::from_str(&read("kustomization.yaml")).unwrap();
    for file in kustomization["resources"].as_array().unwrap() {
        assert!(!read(file.as_str().unwrap()).is_empty());
    }
}

/// All permissions of a role, as `<resource> <verb>`.
fn allowed(role: &str) -> Vec<String> {
    let cluster = objects::<ClusterRole>("rbac.yaml", "ClusterRole")
        .into_iter()
        .map(|one| (one.name_any(), one.rules));
    let local =
        objects::<Role>("rbac.yaml", "Role").into_iter().map(|one| (one.name_any(), one.rules));
    let roles = cluster.chain(local).filter(|(name, _)| name == role);
    let rules = roles.flat_map(|(_, rules)| rules.unwrap_or_default());
    let mut pairs: Vec<String> = rules
        .flat_map(|rule| {
            let resources = rule.resources.unwrap_or_default();
            let verbs = rule.verbs;
            resources.into_iter().flat_map(move |resource| {
                let verbs = verbs.clone().into_iter();
                verbs.map(move |verb| format!("{resource} {verb}"))
            })
        })
        .collect();
    pairs.sort();
    pairs
}

#[tokio::test]
async fn the_roles_allow_all_requests_and_little_else() {
    let bed = Testbed::simulated().await;
    let zone = bed.zone(ZONE).await;
    let (cluster, node) = (bed.run_cluster("one"), bed.run_zone(&zone));
    bed.connect().await;
    bed.until_allocated(2).await;
    eventually("every kind of write has occurred", async || {
        let requests = bed.api().requests();
        let wrote = |path: &str| {
            let mut all = requests.iter();
            all.any(|one| one.method != "GET" && one.path.contains(path) && !one.user.is_empty())
        };
        let paths = [
            "/events",
            "/leases",
            "/leases/patchbay-zone-",
            "/configmaps/",
            "/status",
            "/clusternetworkconnects/",
        ];
        paths.iter().all(|path| wrote(path)).then_some(())
    })
    .await;
    let requests = bed.api().requests();
    let refused: Vec<_> = requests.iter().filter(|one| one.status == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    cluster.stop().await;
    node.stop().await;

    for (role, expected) in [
        ("patchbay-events", vec!["events create", "events patch"]),
        (
            "patchbay-zone",
            vec![
                "clusternetworkconnects list",
                "clusternetworkconnects watch",
                "clusteruserdefinednetworks list",
                "configmaps create",
                "configmaps patch",
                "egressips list",
                "egressips watch",
                "leases create",
                "leases patch",
                "namespaces list",
                "namespaces watch",
                "network-attachment-definitions list",
                "network-attachment-definitions watch",
                "nodes list",
                "nodes watch",
                "pods list",
                "pods watch",
                "services list",
                "services watch",
                "userdefinednetworks list",
            ],
        ),
        (
            "patchbay-cluster",
            vec![
                "clusternetworkconnects list",
                "clusternetworkconnects patch",
                "clusternetworkconnects watch",
                "clusternetworkconnects/status patch",
                "clusteruserdefinednetworks list",
                "configmaps list",
                "configmaps watch",
                "events create",
                "events patch",
                "leases create",
                "leases get",
                "leases list",
                "leases list",
                "leases update",
                "leases watch",
                "namespaces list",
                "namespaces watch",
                "network-attachment-definitions list",
                "network-attachment-definitions watch",
                "nodes list",
                "nodes watch",
                "services list",
                "userdefinednetworks list",
            ],
        ),
    ] {
        assert_eq!(allowed(role), expected, "{role}");
    }
}
