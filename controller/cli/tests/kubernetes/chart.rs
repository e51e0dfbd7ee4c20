//! The Helm chart in `charts/patchbay`, beside the manifests of `patchbay deploy`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use patchbay_kubernetes::all_metrics;
use regex::Regex;
use serde_json::Value;

use crate::command::patchbay;

/// Version of Kubernetes for which templates are written.
const KUBERNETES: &str = "1.36.0";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub(crate) fn chart() -> PathBuf {
    root().join("charts/patchbay")
}

fn read(file: &str) -> String {
    fs::read_to_string(chart().join(file)).unwrap()
}

/// Expressions of the alerts and of the panels, each with its name.
pub(crate) fn queries() -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let alerts: Value = serde_saphyr::from_str(&read("files/alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap().iter();
    let rules = rules.map(|rule| (text(&rule["alert"]), text(&rule["expr"])));
    let dashboard: Value = serde_json::from_str(&read("files/dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let panels = panels.map(|panel| (text(&panel["title"]), text(&panel["targets"][0]["expr"])));
    rules
        .chain(panels)
        .map(|(name, query)| (name, query.replace("$__rate_interval", "1m")))
        .collect()
}

/// The selectors of metrics of this program in a query.
pub(crate) fn selectors(query: &str) -> Vec<String> {
    let word = Regex::new(r"\b([a-z][a-z_]*_[a-z_]+)(\{[^}]*\})?").unwrap();
    let is_metric = |name: &str| {
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        all_metrics().any(|metric| metric.name == name)
    };
    let found = word.captures_iter(query).filter(|found| is_metric(&found[1]));
    found.map(|found| found[0].to_owned()).collect()
}

/// `helm` with arguments. `None`: it is not built, which standard error names.
pub(crate) fn helm(arguments: &[&str]) -> Option<Output> {
    let found = Command::new(root().join("scripts/helm")).output().unwrap();
    if !found.status.success() {
        eprint!("{}", String::from_utf8_lossy(&found.stderr));
        return None;
    }
    let program = String::from_utf8(found.stdout).unwrap();
    Some(Command::new(program.trim()).args(arguments).output().unwrap())
}

/// The objects of a release with these values, in a namespace. `None`: there is no helm.
fn release(namespace: &str, values: &[&str]) -> Option<BTreeMap<String, Value>> {
    let chart = chart();
    let mut arguments = vec!["template", "patchbay", chart.to_str().unwrap(), "--include-crds"];
    arguments.extend(["--kube-version", KUBERNETES, "--namespace", namespace]);
    for value in values {
        arguments.extend(["--set", value]);
    }
    let output = helm(&arguments)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(objects(&String::from_utf8(output.stdout).unwrap()))
}

fn objects(text: &str) -> BTreeMap<String, Value> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let named = all.into_iter().filter(|object| !object.is_null()).map(|object| {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        (name, object)
    });
    named.collect()
}

fn deployed(flags: &[&str]) -> BTreeMap<String, Value> {
    let output = patchbay(&["deploy"]).args(flags).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    objects(&String::from_utf8(output.stdout).unwrap())
}

#[test]
fn the_templates_are_those_that_the_command_writes() {
    let folder = tempfile::tempdir().unwrap();
    let output = patchbay(&["deploy", "--chart"]).arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut count = 0;
    for part in ["crds", "templates"] {
        for file in fs::read_dir(folder.path().join(part)).unwrap() {
            let made = file.unwrap().path();
            let kept = chart().join(part).join(made.file_name().unwrap());
            let is_equal =
                fs::read_to_string(&made).unwrap() == fs::read_to_string(&kept).unwrap_or_default();
            let kept = kept.display();
            assert!(is_equal, "{kept}: update it: patchbay deploy --chart charts/patchbay");
            count += 1;
        }
    }
    assert_eq!(count, 6);
}

#[test]
fn a_release_has_the_objects_of_the_command() {
    let Some(usual) = release("ovn-kubernetes", &[]) else {
        return;
    };
    assert_eq!(usual, deployed(&["--image=patchbay:0.1.0"]));
    let values = [
        "networks=true",
        "podNetwork=10.244.0.0/16/24\\,fd00:10:244::/48/64",
        "serviceNetwork=10.1.0.0/16\\,fd01::/112",
        "mtu=8900",
        "global.gatewayMode=local",
        "global.v4JoinSubnet=100.65.0.0/16",
        "global.v6TransitSubnet=fd96::/64",
        "global.v4MasqueradeSubnet=169.254.128.0/17",
        "global.enableEgressIp=true",
        "global.enableMulticast=true",
        "global.enableDynamicUDNAllocation=true",
        "global.image.repository=registry.example:5000/patchbay",
        "global.image.tag=v2",
        "global.imagePullSecretName=secret",
        "clusterManager.replicaCount=3",
        "clusterManager.nodeSelector.a=b",
        "clusterManager.adminPort=9001",
        "clusterManager.resources.limits.memory=3Gi",
        "zoneController.nodeSelector.c=d",
        "zoneController.adminPort=9002",
        "zoneController.socketFolder=/run/ovn",
        "zoneController.resources.limits.memory=512Mi",
    ];
    let flags = [
        "--namespace=net-system",
        "--networks",
        "--pod-cidr=10.244.0.0/16",
        "--pod-cidr=fd00:10:244::/48",
        "--service-cidr=10.1.0.0/16",
        "--service-cidr=fd01::/112",
        "--mtu=8900",
        "--gateway-mode=local",
        "--join-cidr=100.65.0.0/16",
        "--transit-cidr=fd96::/64",
        "--masquerade-cidr=169.254.128.0/17",
        "--enable=dynamic-udn-allocation,egress-ip,multicast",
        "--image=registry.example:5000/patchbay:v2",
        "--pull-secret=secret",
        "--replicas=3",
        "--cluster-node-selector=a=b",
        "--cluster-admin-port=9001",
        "--cluster-memory-limit=3Gi",
        "--zone-node-selector=c=d",
        "--zone-admin-port=9002",
        "--socket-folder=/run/ovn",
        "--zone-memory-limit=512Mi",
    ];
    let changed = release("net-system", &values).unwrap();
    let mut expected = deployed(&flags);
    // The order of the arguments is not that of the flags.
    let sorted = |objects: BTreeMap<String, Value>| {
        let mut objects = objects;
        for object in objects.values_mut() {
            let arguments = object.pointer_mut("/spec/template/spec/containers/0/args");
            if let Some(Value::Array(arguments)) = arguments {
                arguments.sort_by_key(ToString::to_string);
            }
        }
        objects
    };
    expected = sorted(expected);
    assert_eq!(sorted(changed), expected);
}

#[test]
fn helm_finds_nothing_wrong_and_refuses_wrong_values() {
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let Some(linted) = helm(&["lint", "--strict", chart]) else {
        return;
    };
    assert!(linted.status.success(), "{}", String::from_utf8_lossy(&linted.stdout));
    for (value, place) in [
        ("clusterManager.replicaCount=0", "/clusterManager/replicaCount"),
        ("clusterManager.replicas=2", "replicas"),
        ("zoneController.socketFolder=run", "/zoneController/socketFolder"),
        ("global.gatewayMode=none", "/global/gatewayMode"),
        ("mtu=100", "/mtu"),
    ] {
        let output =
            helm(&["template", chart, "--kube-version", KUBERNETES, "--set", value]).unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && error.contains(place), "{value}: {error}");
    }
}

#[test]
fn monitoring_is_what_the_files_say() {
    let values = ["enableServiceMonitor", "enablePrometheusRule", "enableDashboard"]
        .map(|value| format!("monitoring.{value}=true"));
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let Some(all) = release("ovn-kubernetes", &values) else {
        return;
    };
    let usual = release("ovn-kubernetes", &[]).unwrap();
    let more: BTreeSet<_> = all.keys().filter(|name| !usual.contains_key(*name)).collect();
    let expected = [
        r#""ConfigMap" "patchbay-dashboard""#,
        r#""PrometheusRule" "patchbay""#,
        r#""Service" "patchbay-cluster-metrics""#,
        r#""Service" "patchbay-zone-metrics""#,
        r#""ServiceMonitor" "patchbay-cluster""#,
        r#""ServiceMonitor" "patchbay-zone""#,
    ];
    assert!(more.into_iter().eq(expected));
    let alerts = read("files/alerts.yaml").replace("RUNBOOK", "docs/operate.md");
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    assert_eq!(all[r#""PrometheusRule" "patchbay""#]["spec"], alerts);
    let dashboard = &all[r#""ConfigMap" "patchbay-dashboard""#]["data"]["patchbay.json"];
    let dashboard: Value = serde_json::from_str(dashboard.as_str().unwrap()).unwrap();
    assert_eq!(dashboard["title"], "Patchbay");
    let port = &all[r#""Service" "patchbay-zone-metrics""#]["spec"]["ports"][0]["port"];
    assert_eq!(port, 9492);
}

#[test]
fn each_alert_has_a_section_and_each_query_asks_for_known_metrics() {
    let document = fs::read_to_string(root().join("docs/operate.md")).unwrap();
    let alerts: Value = serde_saphyr::from_str(&read("files/alerts.yaml")).unwrap();
    let rules = alerts["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() > 5);
    for rule in rules {
        let name = rule["alert"].as_str().unwrap();
        assert!(document.contains(&format!("\n### {name}\n")), "{name} has no section");
        let url = format!("RUNBOOK#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], url);
    }
    for (name, query) in queries() {
        assert!(!selectors(&query).is_empty(), "{name}: {query}");
    }
}
