use std::fs;

use super::*;

fn key_file(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/tests/connection/keys");
    fs::read(folder.join(name)).unwrap()
}

fn plain_client(config: Config) -> kube::Result<Client> {
    Client::try_from(config)
}

async fn refreshed(credentials: &mut Credentials) -> bool {
    let former = credentials.digest.0;
    tokio::time::advance(READ_INTERVAL / 2).await;
    assert!(!credentials.is_due());
    tokio::time::advance(READ_INTERVAL / 2).await;
    assert!(credentials.is_due());
    credentials.refresh();
    credentials.digest.0 != former
}

#[tokio::test(start_paused = true)]
async fn a_replaced_certificate_is_used_once_its_key_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let [certificate, key] = ["client.crt", "client.key"].map(|name| folder.path().join(name));
    fs::write(&certificate, key_file("client.pem")).unwrap();
    fs::write(&key, key_file("client-key.pem")).unwrap();
    let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
    let auth = &mut config.auth_info;
    auth.client_certificate = Some(certificate.display().to_string());
    auth.client_key = Some(key.display().to_string());
    let mut credentials = Credentials::new(config, plain_client).unwrap();
    assert!(!refreshed(&mut credentials).await);

    fs::write(&certificate, key_file("server.pem")).unwrap();
    assert!(!refreshed(&mut credentials).await);
    assert_ne!(credentials.error, "");
    fs::write(&key, key_file("server-key.pem")).unwrap();
    assert!(refreshed(&mut credentials).await);
    assert_eq!(credentials.error, "");
    fs::remove_file(&key).unwrap();
    assert!(!refreshed(&mut credentials).await);
    assert_ne!(credentials.error, "");
}

#[test]
fn a_token_has_no_newline_and_is_not_empty() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
    config.auth_info.token_file = Some(file.display().to_string());
    fs::write(&file, "secret\n").unwrap();
    assert_eq!(read_token(&file).unwrap(), "secret");
    let read = with_token(config.clone()).unwrap().auth_info;
    assert!(read.token.is_some() && read.token_file.is_none());
    for content in [Some("\n"), None] {
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let error = with_token(config.clone()).unwrap_err().to_string();
        assert!(error.contains("token"), "{error}");
    }
}
