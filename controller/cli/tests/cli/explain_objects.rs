//! `patchbay explain` for networks, pods, services, policies and EgressIPs.

use std::path::{Path, PathBuf};

use patchbay_ovn_programs::testing::{RealServer, nbctl};
use serde_json::Value;

use crate::command::{nb_schema, run, run_on};

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

/// A network, a policy, a service and an EgressIP whose selectors miss what is there.
const MISSED: &str = "apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {tenant: shop, k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: shop}
spec:
  namespaceSelector: {matchLabels: {tenant: shop}}
  network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.1.3.0/16}]}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: lost}
spec:
  namespaceSelector: {matchLabels: {tenant: shp}}
  network: {topology: Layer2, layer2: {role: Primary, subnets: [10.2.0.0/16]}}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web, tier: front}}
spec: {nodeName: n1, containers: [{name: c, image: i, ports: [{name: http, containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: astray, namespace: shop}
spec: {nodeName: n2, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.10, selector: {app: web}, ports: [{port: 80, targetPort: https}]}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.96.0.11, selector: {app: api}, ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web, namespace: shop}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {app: client}}}, {ipBlock: {cidr: 10.0.0.1/8}}]
    ports: [{port: 80}]
  - from: [{namespaceSelector: {matchLabels: {tenant: partner}}}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: db, namespace: shop}
spec: {podSelector: {matchLabels: {app: db}}}
---
apiVersion: k8s.ovn.org/v1
kind: EgressIP
metadata: {name: out}
spec: {egressIPs: [172.18.0.100], namespaceSelector: {matchLabels: {egress: 'yes'}}}
";

#[test]
fn objects_of_the_shop_are_ready() {
    let mut texts = Vec::new();
    for object in
        ["cudn shop", "pod shop/db", "service web", "networkpolicy shop/db", "svc shop/web"]
    {
        texts.push(run(&format!("explain {object}"), &[&shop()]).succeeded());
    }
    assert_eq!(texts[2], texts[4]);
    insta::assert_snapshot!(texts[..4].join("\n"));
}

#[test]
fn selectors_that_miss_have_the_labels_that_there_are() {
    let mut texts = Vec::new();
    for object in [
        "cudn lost",
        "cudn shop",
        "pod astray",
        "service shop/web",
        "service api",
        "networkpolicy web",
        "networkpolicy db",
        "egressip out",
    ] {
        let explained = run_on(&format!("explain {object} --enable egress-ip"), MISSED);
        let is_ready = object == "cudn shop" || object == "networkpolicy web";
        let code = if is_ready { 0 } else { 2 };
        assert_eq!(explained.code, Some(code), "{object}: {explained:?}");
        for line in explained.stdout.lines() {
            assert_eq!(explained.stdout.matches(line).count(), 1, "{line}\n{}", explained.stdout);
        }
        texts.push(explained.stdout);
    }
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn rows_that_a_database_lacks_are_named() {
    let server = RealServer::start([nb_schema()]);
    let on = |command: &str| format!("{command} --zone node-1 --nb {}", server.remote());
    run(&on("apply"), &[&shop()]).succeeded();
    let ready = run(&on("explain pod shop/web"), &[&shop()]).succeeded();
    assert!(ready.starts_with("Pod shop/web: ready\n"), "{ready}");
    let port = "shop.shop_shop_web";
    for arguments in [&["lsp-del", port][..], &["clear", "NB_Global", ".", "options"]] {
        let done = nbctl(&server.remote()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let explained = run(&on("explain pod shop/web"), &[&shop()]);
    assert_eq!((explained.code, &*explained.stderr), (Some(2), ""));
    let row = format!(
        "\n  row Logical_Switch_Port {port} of zone node-1 is missing: `apply` would insert it\n"
    );
    assert!(explained.stdout.contains(&row), "{}", explained.stdout);
    let document = run(&on("explain pod shop/web -o json"), &[&shop()]).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["state"], "partly");
    assert_eq!(document["rows"][0]["state"], "missing");
}

#[test]
fn names_of_objects_are_found_or_listed() {
    let unknown = run("explain pod shop/wbe", &[&shop()]);
    assert_eq!(unknown.code, Some(1));
    let error = "error: Pod shop/wbe not found; found partner/client, shop/db, shop/web\n";
    assert_eq!(unknown.stderr, error);
    let manifests = MISSED.replace("name: api, namespace: shop", "name: web, namespace: other");
    let several = run_on("explain service web", &manifests);
    let error =
        "error: several objects of kind Service are named web, such as other/web and shop/web\n";
    assert!(several.stderr.ends_with(error), "{}", several.stderr);
    let cluster = run("explain pod shop/web --kubeconfig /none", &[]);
    let error = "error: cannot use the cluster: cannot read /none: ";
    assert!(cluster.stderr.starts_with(error), "{}", cluster.stderr);
}
