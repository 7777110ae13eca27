//! Calls by service, method and status in `/metrics`.

use steppe_testkit::{GrpcOrigin, GrpcReply, Metrics, eventually};

use super::{call, call_early, in_front_of, node, status};

const CALLS: &str = "steppe_grpc_calls_total";

fn count(metrics: &Metrics, service: &str, method: &str, status: &str) -> f64 {
    let labels = [("service", service), ("method", method), ("status", status)];
    metrics.sum(CALLS, &labels)
}

#[test]
fn calls_are_counted_by_service_method_and_status() {
    let origin = GrpcOrigin::start(|call| match &*call.path {
        "/shop.Orders/Get" => GrpcReply::message(b"order", 0),
        "/shop.Orders/Find" => GrpcReply::trailers_only(5),
        "/shop.Orders/Odd" => GrpcReply::message(b"odd", 99),
        "/shop.Orders/Mute" => GrpcReply {
            content: vec![b"\0\0\0\0\0".to_vec()],
            ..GrpcReply::default()
        },
        _ => GrpcReply::trailers_only(12),
    });
    let node = in_front_of(&origin);
    for (path, expected) in [
        ("/shop.Orders/Get", Some("0")),
        ("/shop.Orders/Get", Some("0")),
        ("/shop.Orders/Find", Some("5")),
        ("/shop.Orders/Odd", Some("99")),
        ("/shop.Orders/Mute", None),
        ("/shop.Nothing/Get", Some("12")),
        ("/shop.Nothing/Put", Some("12")),
    ] {
        assert_eq!(status(&call(&node, path)), expected, "{path}");
    }
    assert_eq!(status(&call_early(&node, "/a/b/c/d")), Some("12"));
    let of = |service: &'static str, method: &'static str, status: &'static str| {
        let metrics = node.metrics();
        count(&metrics, service, method, status)
    };
    eventually("all are counted", || node.metrics().sum(CALLS, &[]) == 8.0);
    assert_eq!(of("shop.Orders", "Get", "OK"), 2.0);
    assert_eq!(of("shop.Orders", "Find", "NOT_FOUND"), 1.0);
    assert_eq!(of("shop.Orders", "Odd", "UNKNOWN"), 1.0);
    // No response proved that a method `Mute` exists; the last call has no route.
    assert_eq!(of("other", "other", "UNKNOWN"), 1.0);
    assert_eq!(of("other", "other", "UNIMPLEMENTED"), 3.0);
    assert!(!node.metrics().text().contains("Nothing"));
}

#[test]
fn errors_of_the_gateway_count_under_a_name_that_is_known() {
    let origin = GrpcOrigin::start(|_| GrpcReply::message(b"order", 0));
    let address = origin.address();
    let node = node(&[address], |u| u.set("keepalive", 0));
    assert_eq!(status(&call(&node, "/shop.Orders/Get")), Some("0"));
    drop(origin);
    assert_eq!(status(&call_early(&node, "/shop.Orders/Get")), Some("14"));
    assert_eq!(status(&call_early(&node, "/shop.Orders/Put")), Some("14"));
    eventually("all are counted", || node.metrics().sum(CALLS, &[]) == 3.0);
    let metrics = node.metrics();
    assert_eq!(count(&metrics, "shop.Orders", "Get", "OK"), 1.0);
    assert_eq!(count(&metrics, "shop.Orders", "Get", "UNAVAILABLE"), 1.0);
    assert_eq!(count(&metrics, "other", "other", "UNAVAILABLE"), 1.0);
}
