//! Access to the control API: web pages, other hosts and requests without the token are refused.

use std::net::SocketAddr;

use ovsdb_sim::Sim;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Sends an HTTP request with these headers and returns the status of the answer.
async fn status(address: SocketAddr, method: &str, headers: &[(&str, &str)], body: &str) -> String {
    let len = body.len();
    let headers: String =
        headers.iter().flat_map(|(name, value)| [name, ": ", value, "\r\n"]).collect();
    let text = format!("{method} / HTTP/1.1\r\ncontent-length: {len}\r\n{headers}");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("{text}\r\n{body}").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    String::from_utf8(answer[9..].to_vec()).unwrap()
}

async fn go_down(address: SocketAddr, headers: &[(&str, &str)]) -> String {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"sim_go_down","params":[]}"#;
    let headers = [&[("content-type", "application/json")], headers].concat();
    status(address, "POST", &headers, body).await
}

async fn open_web_socket(address: SocketAddr, headers: &[(&str, &str)]) -> String {
    let upgrade = [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    status(address, "GET", &[&upgrade, headers].concat(), "").await
}

#[tokio::test]
async fn web_pages_and_foreign_hosts_are_refused() {
    let sim = Sim::builder().build().unwrap();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = control.address();
    let own = address.to_string();
    let page = ("origin", "http://evil.example");
    for refused in [
        &[("host", "evil.example")][..],
        &[("host", "evil.example:8080"), page],
        &[("host", own.as_str()), page],
        &[("host", own.as_str()), ("origin", "null")],
    ] {
        assert_eq!(go_down(address, refused).await, "403", "{refused:?}");
        assert_eq!(open_web_socket(address, refused).await, "403", "{refused:?}");
    }
    assert!(sim.connect().is_ok(), "the server is up");
    for host in [own.as_str(), "localhost"] {
        assert_eq!(open_web_socket(address, &[("host", host)]).await, "101");
        assert_eq!(go_down(address, &[("host", host)]).await, "200");
    }
    assert!(sim.connect().is_err(), "the server is down");
}

#[tokio::test]
async fn other_addresses_need_a_token() {
    let sim = Sim::builder().build().unwrap();
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let error = sim.serve_control(any).await.unwrap_err();
    assert!(error.to_string().contains("token"), "{error}");
    let control = sim.serve_control_with_token(any, "secret").await.unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], control.address().port()));
    let host = ("host", "sim.example");
    for refused in [
        &[host][..],
        &[host, ("authorization", "Bearer secre")],
        &[host, ("authorization", "secret")],
    ] {
        assert_eq!(go_down(address, refused).await, "401", "{refused:?}");
        assert_eq!(open_web_socket(address, refused).await, "401", "{refused:?}");
    }
    let token = ("authorization", "Bearer secret");
    let page = ("origin", "http://evil.example");
    assert_eq!(go_down(address, &[host, token, page]).await, "403");
    assert!(sim.connect().is_ok(), "the server is up");
    assert_eq!(go_down(address, &[host, token]).await, "200");
    assert!(sim.serve_control_with_token(any, "").await.is_err());
}
