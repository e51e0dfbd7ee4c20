use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::client::Body;

use super::*;

/// Starts an election at an API server that throttles all requests. Returns the times of the requests
/// within a time.
async fn requests_within(time: Duration, retry_after_s: u32) -> Vec<Instant> {
    let times = Arc::new(Mutex::new(Vec::new()));
    let seen = times.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        seen.lock().unwrap().push(Instant::now());
        let status = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 429,
            "message": "busy", "reason": "TooManyRequests",
            "details": {"retryAfterSeconds": retry_after_s},
        });
        let body = Body::from(status.to_string().into_bytes());
        let answer = Response::builder().status(429).body(body).unwrap();
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let client = Client::new(service, "default");
    let lease = LeaseConfig::new("default", "lease");
    let (elector, _term) = LeaderElector::new(client, lease, "one".to_owned());
    let (stop, stopped) = watch::channel(false);
    let election = tokio::spawn(elector.run(stopped));
    tokio::time::sleep(time).await;
    stop.send_replace(true);
    election.await.unwrap();
    Arc::into_inner(times).unwrap().into_inner().unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_as_long_as_the_api_server_asks() {
    let times = requests_within(Duration::from_secs(100), 30).await;
    assert_eq!(times.len(), 4, "{times:?}");
    for pair in times.windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_secs(30), "{times:?}");
    }
    let quick = requests_within(Duration::from_secs(100), 1).await;
    assert!(quick.len() > 40, "{}", quick.len());
}
