//! Files with the credentials of the API server's client, which others replace.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use jiff::{SignedDuration, Timestamp};
use kube::client::{AuthError, Body};
use kube::{Client, Config, Error};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tower::{BoxError, Service};

/// Shortest interval between two reads of the files. A token is replaced minutes before its end, and
/// client-go uses a former one for up to a minute, too. The monotonic clock measures it, so that a
/// wall clock that is set back does not stop the reads.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// Time before the end of a certificate of a credential plugin at which a new one is requested.
const RENEWAL_TIME: SignedDuration = SignedDuration::from_secs(60);

/// Makes a client that follows the files of its configuration: certificate, key and token. Each
/// change makes new connections; watches go on with the former ones until they end.
///
/// Changed files that cannot be used, such as a certificate without its key yet, are logged and read
/// again later. The former credentials stay in use.
///
/// # Errors
/// The present files cannot be used, or `build` fails.
pub(crate) fn following_client(
    config: Config,
    build: fn(Config) -> kube::Result<Client>,
) -> kube::Result<Client> {
    let namespace = config.default_namespace.clone();
    let credentials = Credentials::new(config, build)?;
    if credentials.files.is_empty() && credentials.client.valid_until().is_none() {
        return Ok(credentials.client);
    }
    let credentials = FollowingService(Arc::new(Mutex::new(credentials)));
    Ok(Client::new(credentials, namespace))
}

/// Sends each request with the present credentials.
struct FollowingService(Arc<Mutex<Credentials>>);

impl Service<Request<Body>> for FollowingService {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let credentials = self.0.clone();
        Box::pin(async move {
            let client = present_client(credentials).await?;
            Ok(client.send(request).await?)
        })
    }
}

/// The client with the present credentials. Files and credential plugins are read on a thread that
/// may block.
async fn present_client(credentials: Arc<Mutex<Credentials>>) -> Result<Client, BoxError> {
    let mut credentials = credentials.lock_owned().await;
    if !credentials.is_due() {
        return Ok(credentials.client.clone());
    }
    let refreshed = tokio::task::spawn_blocking(move || {
        credentials.refresh();
        credentials.client.clone()
    });
    Ok(refreshed.await?)
}

/// Client with its credentials, and the files that they are from.
struct Credentials {
    /// The configuration with the names of the files.
    config: Config,
    build: fn(Config) -> kube::Result<Client>,
    files: Vec<PathBuf>,
    client: Client,
    /// Digest of the files that the client was made from.
    digest: FilesDigest,
    /// Time of the last read.
    read: Instant,
    /// Why the present files cannot be used; empty: they are in use.
    error: String,
}

/// Digest of the content of several files.
#[derive(Eq, PartialEq)]
struct FilesDigest([u8; 32]);

impl Credentials {
    fn new(config: Config, build: fn(Config) -> kube::Result<Client>) -> kube::Result<Self> {
        let auth = &config.auth_info;
        let certificate = [&auth.client_certificate, &auth.client_key];
        let mut files: Vec<PathBuf> = certificate.into_iter().flatten().map(Into::into).collect();
        files.extend(config.root_cert_file.clone());
        if auth.token.is_none() {
            files.extend(auth.token_file.as_ref().map(Into::into));
        }
        let digest = FilesDigest::of(&files);
        Ok(Self {
            client: build(with_token(config.clone())?)?,
            config,
            build,
            files,
            digest,
            read: Instant::now(),
            error: String::new(),
        })
    }

    fn is_due(&self) -> bool {
        self.read.elapsed() >= READ_INTERVAL
    }

    /// Reads the files, and makes another client if they have changed.
    fn refresh(&mut self) {
        self.read = Instant::now();
        let end = self.client.valid_until();
        let is_expiring = end.is_some_and(|end| Timestamp::now() + RENEWAL_TIME >= end);
        let digest = FilesDigest::of(&self.files);
        if digest == self.digest && !is_expiring {
            self.error.clear();
            return;
        }
        match with_token(self.config.clone()).and_then(self.build) {
            Ok(client) => {
                self.client = client;
                self.digest = digest;
                self.error.clear();
                tracing::info!("the credentials for the API server have changed");
            }
            Err(error) => {
                let error = error.to_string();
                if self.error != error {
                    tracing::warn!(
                        error,
                        "cannot use the changed credentials for the API server; the former ones stay in use"
                    );
                    self.error = error;
                }
            }
        }
    }
}

impl FilesDigest {
    /// Digest of the content of files. A file that cannot be read is different from any other.
    fn of(files: &[PathBuf]) -> Self {
        let mut digest = Sha256::new();
        for file in files {
            match std::fs::read(file) {
                Ok(content) => {
                    digest.update((content.len() as u64).to_be_bytes());
                    digest.update(content);
                }
                Err(_) => digest.update(u64::MAX.to_be_bytes()),
            }
        }
        Self(digest.finalize().into())
    }
}

/// The configuration with the token of its file, without the newline at the end, as client-go reads
/// it.
fn with_token(mut config: Config) -> kube::Result<Config> {
    let auth = &mut config.auth_info;
    if auth.token.is_none()
        && let Some(file) = auth.token_file.take()
    {
        let token = read_token(Path::new(&file));
        let unreadable = |error| Error::Auth(AuthError::ReadTokenFile(error, (&file).into()));
        auth.token = Some(token.map_err(unreadable)?.into());
    }
    Ok(config)
}

fn read_token(file: &Path) -> std::io::Result<String> {
    let content = std::fs::read_to_string(file)?;
    let token = content.trim();
    if token.is_empty() {
        return Err(std::io::Error::other("the file is empty"));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests;
