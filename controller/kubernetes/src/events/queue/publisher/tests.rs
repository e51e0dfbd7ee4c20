//! Events on an API server that does not answer some of them.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::client::Body;
use tower::service_fn;

use super::*;

/// Paths of the requests.
type Requests = Arc<Mutex<Vec<(String, String)>>>;

/// A client of a server that answers requests about events, except those in the namespace `slow`.
fn client(requests: &Requests) -> Client {
    let requests = Arc::clone(requests);
    let service = service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path().to_owned();
        let method = request.method().to_string();
        requests.lock().unwrap().push((method, path.clone()));
        async move {
            if path.contains("/slow/") {
                std::future::pending::<()>().await;
            }
            let event = serde_json::to_vec(&Event::default()).unwrap();
            Ok::<_, std::io::Error>(http::Response::new(Body::from(event)))
        }
    });
    Client::new(service, "default")
}

fn emit(events: &EventSender, namespace: &str, name: &str, note: &str) {
    let regarding = ObjectReference {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("{namespace}/{name}")),
        ..ObjectReference::default()
    };
    assert!(events.emit_about(regarding, EventReason::Problem("Wrong"), note));
}

/// Methods of the requests in a namespace.
fn methods(requests: &Requests, namespace: &str) -> Vec<String> {
    let requests = requests.lock().unwrap();
    let own = requests.iter().filter(|(_, path)| path.contains(&format!("/{namespace}/")));
    own.map(|(method, _)| method.clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn events_without_an_answer_do_not_delay_those_about_other_objects() {
    let requests = Requests::default();
    let (events, publisher) = event_channel(client(&requests), "x".into(), Timing::default());
    let publisher = tokio::spawn(publisher);
    for number in 0..100 {
        emit(&events, "slow", &number.to_string(), "no answer");
    }
    emit(&events, "blue", "a", "one");
    emit(&events, "blue", "a", "one");
    emit(&events, "blue", "a", "other");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(methods(&requests, "blue"), ["POST", "PATCH", "POST"]);
    drop(events);
    publisher.await.unwrap();
}
