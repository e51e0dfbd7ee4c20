//! `pssl:` and `ssl:` remotes with Open vSwitch's own clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing;

use crate::daemon::Bed;

/// Timeout of actions of other processes.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A key of the tests of the client, made once for a hundred years.
fn key(name: &str) -> String {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tests/connection/keys");
    keys.join(name).display().to_string()
}

fn option(name: &str, file: &str) -> String {
    format!("--{name}={}", key(file))
}

/// The options of a client that the server trusts, with the CA certificate in a file.
fn client_keys(ca: &str) -> [String; 3] {
    [
        option("private-key", "client-key.pem"),
        option("certificate", "client.pem"),
        option("ca-cert", ca),
    ]
}

fn list_databases(port: u16, options: &[String]) -> Output {
    Command::new(testing::program("ovsdb-client"))
        .arg("--timeout=20")
        .args(options)
        .arg("list-dbs")
        .arg(format!("ssl:127.0.0.1:{port}"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// The port in the log of a server with one port that the system has chosen.
fn chosen_port(bed: &Bed) -> u16 {
    let start = Instant::now();
    loop {
        let log = fs::read_to_string(bed.path("ovsdb-server.log")).unwrap_or_default();
        let port = log.lines().find_map(|line| {
            let (_, port) = line.split_once("|socket_util|INFO|0:127.0.0.1: listening on port ")?;
            port.parse().ok()
        });
        if let Some(port) = port {
            return port;
        }
        assert!(start.elapsed() < TIMEOUT, "{log}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn start(bed: &Bed, options: &[String]) -> u16 {
    let mut all =
        ["--detach", "--no-chdir", "--pidfile", "--log-file", "db"].map(str::to_owned).to_vec();
    all.push("--remote=pssl:0:127.0.0.1".to_owned());
    all.push("--remote=punix:db.sock".to_owned());
    all.extend_from_slice(options);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let started = bed.server(&all);
    assert!(started.status.success(), "{started:?}");
    chosen_port(bed)
}

#[test]
fn clients_with_a_trusted_certificate_are_served() {
    let server_keys = [
        option("private-key", "server-key.pem"),
        option("certificate", "server.pem"),
        option("ca-cert", "ca.pem"),
        "--ssl-protocols=TLSv1.2,TLSv1.3".to_owned(),
        "--ssl-ciphers=HIGH:!aNULL:!MD5".to_owned(),
    ];
    let [real, sim] = Bed::both().map(|bed| {
        let port = start(&bed, &server_keys[..3]);
        let trusted = list_databases(port, &client_keys("ca.pem"));
        let untrusting = list_databases(port, &client_keys("other-ca.pem"));
        let keyless = list_databases(port, &[option("ca-cert", "ca.pem")]);
        bed.appctl("exit");
        let with_parameters = start_again(&bed, &server_keys);
        [trusted, untrusting, keyless, with_parameters]
            .map(|output| (String::from_utf8(output.stdout).unwrap(), output.status.code()))
    });
    assert_eq!(real, sim);
    assert_eq!(sim[0].0, "OVN_Northbound\n_Server\n");
    assert_eq!(sim[1].1, Some(1));
}

/// Lists the databases of the bed's server when it was started with options.
fn start_again(bed: &Bed, options: &[String]) -> Output {
    bed.wait_for_process(str::is_empty);
    fs::remove_file(bed.path("ovsdb-server.log")).unwrap();
    let port = start(bed, options);
    let output = list_databases(port, &client_keys("ca.pem"));
    bed.appctl("exit");
    output
}

#[test]
fn keys_in_columns_count_from_the_next_connection_on() {
    let columns = ["private-key=private_key", "certificate=certificate", "ca-cert=ca_cert"];
    let options = columns.map(|option| {
        let (option, column) = option.split_once('=').unwrap();
        format!("--{option}=db:OVN_Northbound,SSL,{column}")
    });
    for bed in Bed::both() {
        let port = start(&bed, &options);
        assert_eq!(list_databases(port, &client_keys("ca.pem")).status.code(), Some(1));
        let keys = ["server-key.pem", "server.pem", "ca.pem"].map(key);
        let set = bed
            .command(&testing::program("ovn-nbctl"))
            .args(["--timeout=20", "--no-leader-only", "--db=unix:db.sock", "set-ssl"])
            .args(keys)
            .output()
            .unwrap();
        assert!(set.status.success(), "{set:?}");
        let start = Instant::now();
        while !list_databases(port, &client_keys("ca.pem")).status.success() {
            assert!(start.elapsed() < TIMEOUT);
        }
        bed.appctl("exit");
    }
}

#[test]
fn columns_of_keys_are_checked_at_the_start() {
    let [real, sim] = Bed::both().map(|bed| {
        ["db:x", "db:none,a,b", "db:OVN_Northbound,SSL,none", "db:OVN_Northbound,NB_Global,nb_cfg"]
            .map(|column| {
                let key = format!("--private-key={column}");
                let output = bed.server(&["-vconsole:off", "--remote=punix:db.sock", &key, "db"]);
                (String::from_utf8(output.stderr).unwrap().trim().to_owned(), output.status.code())
            })
    });
    assert_eq!(real, sim);
}

#[test]
fn keys_that_cannot_be_used_are_logged_at_the_start() {
    let given = |key: &str, certificate: &str, ca: &str| {
        let files = [("private-key", key), ("certificate", certificate), ("ca-cert", ca)];
        files.map(|(name, file)| option(name, file)).to_vec()
    };
    for (keys, is_unusable) in [
        (given("server-key.pem", "server.pem", "ca.pem"), false),
        (given("none.pem", "server.pem", "ca.pem"), true),
        (given("server-key.pem", "none.pem", "ca.pem"), true),
        (given("server-key.pem", "server.pem", "none.pem"), true),
        // A certificate is no key.
        (given("server.pem", "server.pem", "ca.pem"), true),
        // The certificate of another key.
        (given("server-key.pem", "ca.pem", "ca.pem"), true),
        // Clients are refused, and keys can be set later.
        (Vec::new(), false),
    ] {
        for bed in Bed::both() {
            start(&bed, &keys);
            bed.appctl("exit");
            let log = fs::read_to_string(bed.path("ovsdb-server.log")).unwrap();
            let is_logged = log.contains("|stream_ssl|ERR|");
            assert_eq!(is_logged, is_unusable, "{keys:?}: {log}");
        }
    }
}

#[test]
fn the_server_name_that_a_client_indicates_is_logged() {
    let options = [
        option("private-key", "server-key.pem"),
        option("certificate", "server.pem"),
        option("ca-cert", "ca.pem"),
        "-vstream_ssl:file:dbg".to_owned(),
    ];
    for bed in Bed::both() {
        let port = start(&bed, &options);
        let client = Command::new("openssl")
            .args(["s_client", "-servername", "sni-test.example", "-connect"])
            .arg(format!("127.0.0.1:{port}"))
            .args(["-key", &key("client-key.pem"), "-cert", &key("client.pem")])
            .stdin(Stdio::null())
            .output();
        client.unwrap();
        let log = || fs::read_to_string(bed.path("ovsdb-server.log")).unwrap();
        let message = "|stream_ssl|DBG|connection indicated server name sni-test.example";
        let begin = Instant::now();
        while !log().contains(message) {
            assert!(begin.elapsed() < TIMEOUT, "{}", log());
            thread::sleep(Duration::from_millis(5));
        }
        bed.appctl("exit");
    }
}

#[test]
fn the_server_indicates_the_name_of_the_option_or_of_the_remote() {
    let keys = [
        option("private-key", "server-key.pem"),
        option("certificate", "server.pem"),
        option("ca-cert", "ca.pem"),
    ];
    let [_, listening] = Bed::both();
    let level = "-vstream_ssl:file:dbg".to_owned();
    let port = start(&listening, &[&keys[..], &[level]].concat());
    for (more, name) in
        [(None, "localhost"), (Some("--ssl-server-name=sni-test.example"), "sni-test.example")]
    {
        let [_, connecting] = Bed::both();
        let remote = format!("--remote=ssl:localhost:{port}");
        let options = [&keys[..], &[remote]].concat();
        start(&connecting, &[options, more.map(str::to_owned).into_iter().collect()].concat());
        let log = || fs::read_to_string(listening.path("ovsdb-server.log")).unwrap();
        let message = format!("|stream_ssl|DBG|connection indicated server name {name}");
        let begin = Instant::now();
        while !log().contains(&message) {
            assert!(begin.elapsed() < TIMEOUT, "{}", log());
            thread::sleep(Duration::from_millis(5));
        }
        connecting.appctl("exit");
    }
    listening.appctl("exit");
}

#[test]
fn the_ca_certificate_of_the_first_peer_is_written() {
    for bed in Bed::both() {
        let ca = bed.path("ca.pem");
        let port = testing::free_port();
        start(
            &bed,
            &[
                option("private-key", "server-key.pem"),
                option("certificate", "server.pem"),
                format!("--bootstrap-ca-cert={}", ca.display()),
                format!("--remote=ssl:127.0.0.1:{port}"),
            ],
        );
        // The first connection ends with the bootstrap.
        let start = Instant::now();
        while !wait_for_server(port).status.success() {
            assert!(start.elapsed() < TIMEOUT);
        }
        assert_eq!(der(&ca), der(Path::new(&key("ca.pem"))));
        bed.appctl("exit");
    }
}

/// Lists the databases of a server that connects to this client.
fn wait_for_server(port: u16) -> Output {
    Command::new(testing::program("ovsdb-client"))
        .arg("--timeout=20")
        .args(client_keys("ca.pem"))
        .arg("list-dbs")
        .arg(format!("pssl:{port}:127.0.0.1"))
        .output()
        .unwrap()
}

/// The lines of the last certificate of a PEM file, as one text.
fn der(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let (_, body) = text.rsplit_once("-----BEGIN CERTIFICATE-----").unwrap();
    let (body, _) = body.split_once("-----END").unwrap();
    body.split_whitespace().collect()
}

#[test]
fn the_server_connects_to_a_client_that_waits() {
    let outputs = Bed::both().map(|bed| {
        let port = testing::free_port();
        let waiting = thread::spawn(move || wait_for_server(port));
        start(
            &bed,
            &[
                option("private-key", "server-key.pem"),
                option("certificate", "server.pem"),
                option("ca-cert", "ca.pem"),
                format!("--remote=ssl:127.0.0.1:{port}"),
            ],
        );
        let output = waiting.join().unwrap();
        bed.appctl("exit");
        String::from_utf8(output.stdout).unwrap()
    });
    assert_eq!(outputs[0], outputs[1]);
    assert!(outputs[1].contains("OVN_Northbound"), "{outputs:?}");
}

#[test]
fn a_path_may_be_longer_than_a_socket_address() {
    for bed in Bed::both() {
        let folder: PathBuf = ["long"; 30].iter().collect();
        let folder = bed.path("").join(folder);
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("db.sock");
        assert!(socket.as_os_str().len() > 120);
        let remote = format!("--remote=punix:{}", socket.display());
        let started = bed.server(&["--detach", "--no-chdir", "--pidfile", &remote, "db"]);
        assert!(started.status.success(), "{started:?}");
        let listed = Command::new(testing::program("ovsdb-client"))
            .args(["--timeout=20", "list-dbs"])
            .arg(format!("unix:{}", socket.display()))
            .output()
            .unwrap();
        assert!(listed.status.success(), "{listed:?}");
        bed.appctl("exit");
        bed.wait_for_process(str::is_empty);
        // Both servers remove pidfile and sockets in no fixed order.
        let start = Instant::now();
        while socket.exists() {
            assert!(start.elapsed() < TIMEOUT, "the socket is not removed");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_relay_connects_to_its_source_with_tls() {
    let server_keys = [
        option("private-key", "server-key.pem"),
        option("certificate", "server.pem"),
        option("ca-cert", "ca.pem"),
    ];
    for bed in Bed::both() {
        let port = start(&bed, &server_keys);
        let mut arguments = [
            "--detach",
            "--no-chdir",
            "--pidfile=relay.pid",
            "--unixctl=relay.ctl",
            "--remote=punix:relay.sock",
        ]
        .map(str::to_owned)
        .to_vec();
        arguments.push(format!("relay:OVN_Northbound:ssl:127.0.0.1:{port}"));
        arguments.extend(client_keys("ca.pem"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let started = bed.server(&arguments);
        assert!(started.status.success(), "{started:?}");
        let connected = bed
            .command(&testing::program("ovsdb-client"))
            .args(["--timeout=60", "wait", "unix:relay.sock"])
            .args(["OVN_Northbound", "connected"])
            .status();
        assert!(connected.unwrap().success());
        let nbctl = |command: &[&str]| {
            let output = bed
                .command(&testing::program("ovn-nbctl"))
                .args(["--timeout=60", "--no-leader-only", "--db=unix:relay.sock"])
                .args(command)
                .output()
                .unwrap();
            String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
        };
        assert_eq!(nbctl(&["ls-add", "sw0"]), "");
        let shown = nbctl(&["show"]);
        assert!(shown.contains("(sw0)"), "{shown}");
        let ended = bed
            .command(&testing::program("ovs-appctl"))
            .args(["-t", &bed.path("relay.ctl").display().to_string(), "exit"])
            .status();
        assert!(ended.unwrap().success());
        bed.appctl("exit");
    }
}

#[test]
fn a_backup_connects_to_its_source_with_keys_of_columns() {
    let server_keys = [
        option("private-key", "server-key.pem"),
        option("certificate", "server.pem"),
        option("ca-cert", "ca.pem"),
    ];
    let [key, certificate, ca] = ["client-key.pem", "client.pem", "ca.pem"].map(key);
    let keys = format!(
        r#"["OVN_Northbound",
        {{"op":"insert","table":"NB_Global","row":{{"ssl":["named-uuid","s"]}}}},
        {{"op":"insert","table":"SSL","uuid-name":"s","row":
            {{"private_key":"{key}","certificate":"{certificate}","ca_cert":"{ca}"}}}}]"#
    );
    for (source, backup) in Bed::both().into_iter().zip(Bed::both()) {
        let port = start(&source, &server_keys);
        let written = backup
            .command(&testing::program("ovsdb-tool"))
            .args(["transact", "db", &keys])
            .output()
            .unwrap();
        assert!(written.status.success(), "{written:?}");
        let column = |option, column| format!("--{option}=db:OVN_Northbound,SSL,{column}");
        let [private_key, certificate, ca] = [
            column("private-key", "private_key"),
            column("certificate", "certificate"),
            column("ca-cert", "ca_cert"),
        ];
        let sync_from = format!("--sync-from=ssl:127.0.0.1:{port}");
        let started = backup.server(&[
            "--detach",
            "--no-chdir",
            "--pidfile",
            "--remote=punix:db.sock",
            &sync_from,
            &private_key,
            &certificate,
            &ca,
            "db",
        ]);
        assert!(started.status.success(), "{started:?}");
        let begin = Instant::now();
        while !backup.appctl("ovsdb-server/sync-status").0.contains("replicating") {
            assert!(begin.elapsed() < TIMEOUT, "the backup does not connect");
            thread::sleep(Duration::from_millis(5));
        }
        for bed in [backup, source] {
            bed.appctl("exit");
        }
    }
}
