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

#[tokio::test(start_paused = true)]
async fn a_renewal_is_one_write_until_another_client_changes_the_lease() {
    let requests = Arc::new(Mutex::new(Vec::new()));
    let (seen, version) = (requests.clone(), Arc::new(Mutex::new(1)));
    let stored = version.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (seen, stored) = (seen.clone(), stored.clone());
        async move {
            let (head, body) = request.into_parts();
            let is_list = head.uri.path().ends_with("/leases");
            let name = if is_list { "LIST".to_owned() } else { head.method.to_string() };
            seen.lock().unwrap().push(name);
            let body = body.collect_bytes().await.unwrap();
            let sent = serde_json::from_slice(&body).unwrap_or(serde_json::json!({
                "metadata": {"name": "lease", "namespace": "default"}, "spec": {},
            }));
            let mut stored = stored.lock().unwrap();
            let mut object: serde_json::Value = sent;
            let is_outdated =
                head.method == "PUT" && object["metadata"]["resourceVersion"] != stored.to_string();
            if is_outdated {
                object = serde_json::json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": 409, "message": "changed", "reason": "Conflict",
                });
            } else if is_list {
                object = serde_json::json!({"metadata": {}, "items": []});
            } else {
                *stored += i32::from(head.method == "PUT");
                object["metadata"]["resourceVersion"] = stored.to_string().into();
            }
            let code = if is_outdated { 409 } else { 200 };
            let body = Body::from(object.to_string().into_bytes());
            Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let lease = LeaseConfig::new("default", "lease");
    let client = Client::new(service, "default");
    let (mut elector, term) = LeaderElector::new(client, lease, "one".to_owned());
    let mut attempt = async || {
        elector.attempt().await;
        assert!(term.borrow().is_some());
        std::mem::take(&mut *requests.lock().unwrap()).join(" ")
    };
    assert_eq!(attempt().await, "GET LIST PUT LIST");
    assert_eq!(attempt().await, "PUT");
    assert_eq!(attempt().await, "PUT");
    *version.lock().unwrap() += 1;
    assert_eq!(attempt().await, "PUT GET PUT");
    assert_eq!(attempt().await, "PUT");
}
