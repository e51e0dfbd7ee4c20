//! Real Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager on loopback.
//!
//! `scripts/control-plane/program build` builds the program, and Debian's `etcd-server` has etcd.
//! Without them a line on standard error names what is missing, and the tests use another server
//! or do not run. All processes end with the process of the tests, however that ends.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use std::{env, fs, io, process, thread};

use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use patchbay_ovn_programs::testing::free_port;
use serde_json::json;
use tokio::sync::OnceCell;

/// Kubeconfig of a server to use in place of a control plane of the tests. Empty: no real server.
const KUBECONFIG: &str = "PATCHBAY_TEST_KUBECONFIG";
/// Beginning of the names of the folders of control planes, before the process id.
const FOLDER_PREFIX: &str = "control-plane-";
/// Token of the administrator. The server listens on loopback.
const TOKEN: &str = "administrator";
/// Time in which a control plane must be ready: many times what it needs on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(240);
/// Time between two checks whether the server is ready.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of starts, because another process may take a port meanwhile.
const START_ATTEMPTS: usize = 3;
/// Controllers whose effects reach Patchbay's objects.
const CONTROLLERS: &str = "--controllers=namespace-controller,garbage-collector-controller,\
     serviceaccount-controller,root-ca-certificate-publisher-controller,\
     validatingadmissionpolicy-status-controller,endpointslice-controller";

/// Kubeconfig of the administrator of the real server for the tests of this process. `None`: there
/// is no real server.
pub(crate) async fn administrator() -> Option<PathBuf> {
    static SHARED: OnceCell<Option<ControlPlane>> = OnceCell::const_new();
    if let Some(file) = env::var_os(KUBECONFIG) {
        return (!file.is_empty()).then(|| file.into());
    }
    let shared = SHARED.get_or_init(ControlPlane::start).await;
    shared.as_ref().map(ControlPlane::kubeconfig)
}

/// Address and credentials of a kubeconfig.
pub(crate) async fn configuration(kubeconfig: &Path) -> Config {
    try_configuration(kubeconfig).await.unwrap()
}

async fn try_configuration(kubeconfig: &Path) -> Result<Config, KubeconfigError> {
    let file = Kubeconfig::read_from(kubeconfig)?;
    Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await
}

/// Running control plane with an empty cluster. Dropping it kills its programs.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    /// Program whose first argument is the name of one of its programs.
    pub(crate) program: PathBuf,
    folder: PathBuf,
    etcd_port: u16,
    peer_port: u16,
    api_port: u16,
    etcd: Option<Child>,
    api_server: Option<Child>,
    manager: Option<Child>,
}

impl ControlPlane {
    /// Starts a control plane. `None`: a program is missing, which standard error names.
    pub(crate) async fn start() -> Option<Self> {
        let program = program()?;
        for _ in 1..START_ATTEMPTS {
            if let Ok(plane) = Self::try_start(&program).await {
                return Some(plane);
            }
        }
        match Self::try_start(&program).await {
            Ok(plane) => Some(plane),
            Err(log) => panic!("the control plane does not start:\n{log}"),
        }
    }

    /// Starts a control plane, or returns the ends of its logs.
    async fn try_start(program: &Path) -> Result<Self, String> {
        let mut plane = Self {
            program: program.to_owned(),
            folder: new_folder(),
            etcd_port: free_port(),
            peer_port: free_port(),
            api_port: free_port(),
            etcd: None,
            api_server: None,
            manager: None,
        };
        plane.write_kubeconfig(&plane.kubeconfig(), TOKEN);
        let tokens = format!("{TOKEN},administrator,administrator,system:masters\n");
        fs::write(plane.folder.join("tokens"), tokens).unwrap();
        plane.start_etcd();
        plane.start_api_server();
        plane.until_ready().await?;
        plane.start_manager();
        Ok(plane)
    }

    /// File with the address of the server and the administrator's token.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// Writes a file with the address of the server and a token.
    pub(crate) fn write_kubeconfig(&self, file: &Path, token: &str) {
        let server = format!("https://127.0.0.1:{}", self.api_port);
        let cluster = json!({"server": server, "certificate-authority": self.certificate()});
        // JSON is YAML.
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": token}}],
        });
        fs::write(file, text.to_string()).unwrap();
    }

    /// Certificate that the API server writes at its first start, with that of its authority.
    fn certificate(&self) -> PathBuf {
        self.folder.join("apiserver.crt")
    }

    pub(crate) fn start_etcd(&mut self) {
        let [clients, peers] =
            [self.etcd_port, self.peer_port].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new("etcd");
        command
            .args(["--name=test", "--unsafe-no-fsync", "--data-dir"])
            .arg(self.folder.join("etcd"))
            .arg(format!("--listen-client-urls={clients}"))
            .arg(format!("--advertise-client-urls={clients}"))
            .arg(format!("--listen-peer-urls={peers}"))
            .arg(format!("--initial-advertise-peer-urls={peers}"))
            .arg(format!("--initial-cluster=test={peers}"));
        self.etcd = Some(self.spawn("etcd", &command));
    }

    pub(crate) fn start_api_server(&mut self) {
        let (key, certificate) = (key("server-key.pem"), key("server.pem"));
        let mut command = Command::new(&self.program);
        command
            .arg("kube-apiserver")
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port))
            .arg(format!("--secure-port={}", self.api_port))
            .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
            .arg(format!("--cert-dir={}", self.folder.display()))
            .arg(format!("--token-auth-file={}/tokens", self.folder.display()))
            .arg("--authorization-mode=Node,RBAC")
            .arg("--enable-admission-plugins=NodeRestriction")
            .arg(format!("--service-account-key-file={}", certificate.display()))
            .arg(format!("--service-account-signing-key-file={}", key.display()))
            .arg("--service-account-issuer=https://kubernetes.default.svc")
            .arg("--service-cluster-ip-range=10.96.0.0/16")
            .arg("--endpoint-reconciler-type=none");
        self.api_server = Some(self.spawn("kube-apiserver", &command));
    }

    fn start_manager(&mut self) {
        let mut command = Command::new(&self.program);
        command
            .args(["kube-controller-manager", "--leader-elect=false", "--secure-port=0"])
            .arg(format!("--kubeconfig={}", self.kubeconfig().display()))
            .arg(format!("--root-ca-file={}", self.certificate().display()))
            .arg(format!("--service-account-private-key-file={}", key("server-key.pem").display()))
            .arg(CONTROLLERS);
        self.manager = Some(self.spawn("kube-controller-manager", &command));
    }

    /// Starts a program with a log of its own.
    fn spawn(&self, name: &str, command: &Command) -> Child {
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder.join(format!("{name}.log")))
            .unwrap();
        let mut child = Command::new("setpriv");
        child
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args())
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        spawn_for_process(child)
    }

    /// Waits until the API server is ready, or returns the ends of the logs.
    pub(crate) async fn until_ready(&mut self) -> Result<(), String> {
        let attempts = async {
            loop {
                for child in [&mut self.etcd, &mut self.api_server].into_iter().flatten() {
                    if child.try_wait().unwrap().is_some() {
                        return false;
                    }
                }
                if self.certificate().exists() && is_ready(&self.kubeconfig()).await {
                    return true;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        match tokio::time::timeout(START_TIMEOUT, attempts).await {
            Ok(true) => Ok(()),
            Ok(false) | Err(_) => {
                Err(["etcd", "kube-apiserver"].map(|name| self.end_of_log(name)).concat())
            }
        }
    }

    /// Last lines of a program's log.
    fn end_of_log(&self, name: &str) -> String {
        let log = fs::read_to_string(self.folder.join(format!("{name}.log"))).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("{name}:\n{}\n", lines[lines.len().saturating_sub(10)..].join("\n"))
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let children = [&mut self.manager, &mut self.api_server, &mut self.etcd];
        for child in children.into_iter().flatten() {
            end(child);
        }
        // A folder that stays is removed by the next start.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Kills a program and waits for its end.
fn end(child: &mut Child) {
    // Both fail only if the program has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

/// The program of the control plane. `None`: it or etcd is missing, which standard error names.
fn program() -> Option<PathBuf> {
    let script = root().join("scripts/control-plane/program");
    let output = Command::new(script).output().unwrap();
    let missing = if !output.status.success() {
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    } else if Command::new("etcd").arg("--version").output().is_err() {
        "etcd is missing".to_owned()
    } else {
        let path = String::from_utf8(output.stdout).unwrap();
        return Some(path.trim_end().into());
    };
    // `eprintln!` would appear only if a test fails.
    let line = format!("no real control plane ({missing}): the fake API server judges instead\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
    None
}

/// Key pair that signs the tokens of service accounts, and its certificate.
fn key(name: &str) -> PathBuf {
    root().join("engine/tests/connection/keys").join(name)
}

/// Folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// New folder below the target folder. Folders of processes that have ended are removed.
fn new_folder() -> PathBuf {
    static CREATED: Mutex<usize> = Mutex::new(0);
    let mut created = CREATED.lock().unwrap();
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for entry in fs::read_dir(parent).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let owner = name.strip_prefix(FOLDER_PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = parent.join(format!("{FOLDER_PREFIX}{}-{created}", process::id()));
    *created += 1;
    fs::create_dir(&folder).unwrap();
    folder
}

/// Starts a program from a thread that lives as long as this process, because the program is killed
/// at the end of the thread that started it.
fn spawn_for_process(command: Command) -> Child {
    type Start = (Command, Sender<io::Result<Child>>);
    static STARTS: OnceLock<Mutex<Sender<Start>>> = OnceLock::new();
    let starts = STARTS.get_or_init(|| {
        let (sender, receiver) = channel::<Start>();
        thread::spawn(move || {
            for (mut command, started) in receiver {
                started.send(command.spawn()).unwrap();
            }
        });
        Mutex::new(sender)
    });
    let (started, child) = channel();
    starts.lock().unwrap().send((command, started)).unwrap();
    child.recv().unwrap().unwrap()
}

/// `true` if the server answers that it is ready.
async fn is_ready(kubeconfig: &Path) -> bool {
    // The certificate may not be whole yet.
    let Ok(configuration) = try_configuration(kubeconfig).await else {
        return false;
    };
    let Ok(client) = Client::try_from(configuration) else {
        return false;
    };
    let request = Request::get("/readyz").body(Vec::new()).unwrap();
    let answer = client.request_text(request).await;
    answer.is_ok_and(|text| text == "ok")
}
