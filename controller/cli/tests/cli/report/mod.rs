//! `patchbay report`: the page about an example, and the same in a real browser.

pub(crate) mod browser;

use std::fs;
use std::path::{Path, PathBuf};

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};
use serde_json::{Value, json};

use crate::command::{Run, nb_schema, patchbay};
use browser::Page;

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

/// Writes the page about manifests into a file.
fn report_on(manifests: &Path, arguments: &str, file: &Path) -> Run {
    let mut command = patchbay();
    command.args(["report", "--service-cidr", "10.96.0.0/16", "-f"]).arg(manifests);
    command.args(arguments.split_whitespace()).arg("-o").arg(file).output().unwrap().into()
}

/// Contents of a page.
fn contents(page: &str) -> Value {
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// A copy of the example without a file.
fn shop_without(name: &str, folder: &Path) -> PathBuf {
    let copy = folder.join("before");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(shop()).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != name {
            fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
    }
    copy
}

#[test]
fn a_page_has_what_the_other_commands_say() {
    let folder = ScratchDir::new();
    let file = folder.path().join("report.html");
    let done = report_on(&shop(), "--port 5432", &file).succeeded();
    assert!(
        done.starts_with(&format!("{}: 2 zones, 2 networks, 3 machines", file.display())),
        "{done}"
    );
    let page = fs::read_to_string(&file).unwrap();
    // A page that loads nothing.
    assert!(
        !page.contains("src=") && !page.contains("url(") && !page.contains("http-equiv=\"refresh")
    );
    let data = contents(&page);
    assert_eq!(data["connects"][0]["name"], "shop-and-partner");
    assert_eq!(data["connects"][0]["state"], "accepted");
    let machines = &data["pairs"][1];
    assert_eq!(machines["names"], json!(["partner/client", "shop/db", "shop/web"]));
    let stopped = &machines["cells"][1];
    let text = |place: usize| &machines["texts"][stopped[place].as_u64().unwrap() as usize];
    assert_eq!(stopped[0], 3);
    assert!(text(1).as_str().unwrap().starts_with("dropped: ACL"), "{}", text(1));
    assert_eq!(text(5), "NetworkPolicies of namespace shop");
    assert!(text(6).as_str().unwrap().starts_with("ACL "), "{}", text(6));
    assert_eq!(data["differences"], Value::Null);
}

#[test]
fn a_page_of_two_states_has_their_differences() {
    let folder = ScratchDir::new();
    let file = folder.path().join("report.html");
    let policy = fs::read_dir(shop()).unwrap().map(|entry| entry.unwrap().file_name());
    let policy = policy.into_iter().find(|name| name.to_string_lossy().contains("polic")).unwrap();
    let before = shop_without(policy.to_str().unwrap(), folder.path());
    let arguments = format!("--before {}", before.display());
    report_on(&shop(), &arguments, &file).succeeded();
    let data = contents(&fs::read_to_string(&file).unwrap());
    let changes = data["differences"]["changes"].as_array().unwrap();
    assert!(!changes.is_empty());
    assert!(changes.iter().all(|change| change["change"] == "closes"), "{changes:?}");
    assert_eq!(changes[0]["by"], "NetworkPolicies of namespace shop");
}

#[test]
fn the_object_of_a_difference_is_that_of_the_state_in_which_the_way_is_closed() {
    let folder = ScratchDir::new();
    let policy = |namespace: &str| {
        format!(
            "---\n{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: deny, namespace: {namespace}}}, \
             spec: {{podSelector: {{}}, policyTypes: [Ingress]}}}}\n"
        )
    };
    let platform = "{apiVersion: v1, kind: Node, metadata: {name: n1}}\n---\n{apiVersion: k8s.ovn.org/v1, kind: \
         ClusterUserDefinedNetwork, metadata: {name: net}, spec: {namespaceSelector: {matchLabels: {net: 'yes'}}, \
         network: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16}]}}}}\n";
    let namespace = |name: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{net: 'yes', \
             k8s.ovn.org/primary-user-defined-network: ''}}}}}}\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p, \
             namespace: {name}}}, spec: {{nodeName: n1, containers: [{{name: c, image: i}}]}}}}\n"
        )
    };
    let objects = [platform.to_owned(), ["a", "b", "c"].map(namespace).concat()].concat();
    // The rows of both states have the same UUIDs, for other objects.
    let before = [objects.clone(), policy("b"), policy("c")].concat();
    let after = [objects, policy("a"), policy("b"), policy("c")].concat();
    let [before, after] = [("before.yaml", before), ("after.yaml", after)].map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let file = folder.path().join("report.html");
    report_on(&after, &format!("--before {}", before.display()), &file).succeeded();
    let data = contents(&fs::read_to_string(&file).unwrap());
    let changes = data["differences"]["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["to"] == "a/p"), "{changes:?}");
    assert_eq!(changes[0]["by"], "NetworkPolicies of namespace a");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let missing = Path::new("/nonexistent/report.html");
    let failed = report_on(&shop(), "", missing);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("cannot write /nonexistent/report.html"), "{}", failed.stderr);
}

#[test]
#[ignore = "takes long, and needs chromium: scripts/test --all"]
fn a_click_on_a_pair_lights_its_way_in_a_browser() {
    let folder = ScratchDir::new();
    let file = folder.path().join("report.html");
    report_on(&shop(), "--port 5432", &file).succeeded();
    let mut page = Page::open(&file, &folder.path().join("profile"));
    assert_eq!(page.evaluate("document.querySelectorAll('.lit').length"), 0);
    page.evaluate(
        "const what = document.getElementById('what'); what.value = '1'; \
         what.dispatchEvent(new Event('change'))",
    );
    page.evaluate("document.querySelector('button[data-pair=\"0 1\"]').click()");
    let lit = "document.querySelectorAll('.place.lit').length";
    assert!(page.evaluate(lit).as_u64().unwrap() > 2);
    assert_eq!(page.evaluate("document.querySelectorAll('.place.stop').length"), 1);
    let by = page.evaluate("document.querySelector('#answer .by').textContent");
    assert!(by.as_str().unwrap().contains("NetworkPolicies of namespace shop"), "{by}");
    assert!(
        page.evaluate("document.querySelectorAll('#answer tbody tr').length").as_u64() > Some(5)
    );
    // The keyboard goes to the next pair, and answers it.
    page.evaluate(
        "const pair = document.querySelector('button[data-pair=\"0 1\"]'); pair.focus(); \
         pair.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true})); \
         document.activeElement.click()",
    );
    assert_eq!(page.evaluate("document.querySelector('[aria-pressed=true]').dataset.pair"), "0 2");
    assert_eq!(page.evaluate("document.querySelectorAll('.place.stop').length"), 0);
    page.evaluate(
        "const filter = document.getElementById('filter'); filter.value = 'SHOP'; \
         filter.dispatchEvent(new Event('input'))",
    );
    assert_eq!(page.evaluate("document.querySelectorAll('#matrix tbody tr').length"), 2);
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut colours = Vec::new();
    for _ in 0..2 {
        page.evaluate("document.getElementById('theme').click()");
        colours.push(page.evaluate(ground));
    }
    assert_eq!(colours, ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]);
    assert_eq!(page.complaints, [""; 0]);
}

#[test]
#[ignore = "takes long, and needs chromium: scripts/test --all"]
fn a_link_chooses_a_pair_in_a_browser() {
    let folder = ScratchDir::new();
    let file = folder.path().join("report.html");
    report_on(&shop(), "--port 5432", &file).succeeded();
    let link = "#between=machines&from=partner%2Fclient&to=shop%2Fdb";
    let url = format!("file://{}{link}", file.display());
    let mut page = Page::open_url(&url, &folder.path().join("profile"));
    let by = "document.querySelector('#answer .by').textContent";
    assert!(page.evaluate(by).as_str().unwrap().contains("NetworkPolicies of namespace shop"));
    // Another pair changes the link, and a link to nothing changes nothing.
    page.evaluate("document.querySelector('button[data-pair=\"0 2\"]').click()");
    let other = "location.hash.endsWith('from=partner%2Fclient&to=shop%2Fweb')";
    assert_eq!(page.evaluate(other), true);
    page.evaluate("location.hash = '#between=machines&from=nobody&to=shop%2Fdb'");
    page.evaluate("location.hash = '#between=nothing'");
    assert_eq!(page.complaints, [""; 0]);
}

#[test]
#[ignore = "takes long, and needs chromium: scripts/test --all"]
fn the_picture_of_the_page_is_made_again_in_a_browser() {
    let folder = ScratchDir::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut script = std::process::Command::new(root.join("scripts/pictures"));
    let program = env!("CARGO_BIN_EXE_patchbay");
    let done = script.arg("--page").arg(program).arg(folder.path()).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    // Signature, length and name of the first chunk, and in it width and height.
    let head = |folder: &Path| fs::read(folder.join("page.png")).unwrap()[..24].to_vec();
    assert!(head(folder.path()).starts_with(b"\x89PNG"));
    assert_eq!(head(folder.path()), head(&root.join("docs/pictures")));
}

#[test]
#[ignore = "takes long, and needs chromium: scripts/test --all"]
fn names_of_a_database_stay_text_in_a_browser() {
    let server = RealServer::start([nb_schema()]);
    let hostile = "</script><img src=x onerror=\"window.taken=1\">'\"&";
    let ask = |arguments: &[&str]| {
        let done = nbctl(&server.remote()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    for switch in [hostile, "plain"] {
        ask(&["ls-add", switch]);
        for machine in 1..3 {
            let port = format!("{switch}{machine}");
            ask(&["lsp-add", switch, &port]);
            let address = format!("0a:00:00:00:00:0{machine} 10.0.0.{machine}");
            ask(&["lsp-set-addresses", &port, &address]);
        }
    }
    let folder = ScratchDir::new();
    let file = folder.path().join("report.html");
    let mut command = patchbay();
    command.args(["report", "--nb", &server.remote(), "-o"]).arg(&file);
    Run::from(command.output().unwrap()).succeeded();
    let mut page = Page::open(&file, &folder.path().join("profile"));
    page.evaluate("document.querySelectorAll('button[data-pair]').forEach((pair) => pair.click())");
    assert_eq!(
        page.evaluate("[document.images.length, typeof window.taken]"),
        json!([0, "undefined"])
    );
    let names = page
        .evaluate("[...document.querySelectorAll('#matrix tbody th')].map((th) => th.textContent)");
    assert_eq!(names, json!([hostile, "plain"]));
    assert_eq!(page.complaints, [""; 0]);
}
