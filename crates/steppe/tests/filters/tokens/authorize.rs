//! `authorize`: the rule that decides about a request, over each protocol.

use super::*;

const RULES: &str = "[http.filter.rules]\nkind = \"authorize\"\nrules = [\
    { path = \"/open/{rest*}\" }, \
    { path = \"/closed/{rest*}\", deny = true }, \
    { methods = [\"GET\", \"HEAD\"], any_scope = [\"read\", \"all\"] }, \
    { methods = [\"DELETE\"], claims = { \"realm.roles\" = \"admin\", level = [\"3\", \"4\"] } }, \
    { methods = [\"POST\", \"PUT\"], all_scopes = [\"read\", \"write\"], claims = { role = [\"admin\", \"editor\"] } }]\n";

/// Checks the status of a request with a token of these claims.
#[track_caller]
fn decides(method: &str, target: &str, claims: Value, expected: u16) {
    let site = Site::start(Protocol::H1, HS, "", RULES);
    let token = bearer(&signed(claims));
    over_each(|protocol| {
        let answer = ask(&site.node, protocol, method, target, &token);
        assert_eq!(answer.status(), expected, "{protocol:?}");
    });
    let passed = if expected == 200 { 2 } else { 0 };
    let line = format!("{method} {target} HTTP/1.1\r\n");
    assert_eq!(site.origin.received().matches(&line).count(), passed);
}

#[test]
fn a_path_may_be_open_to_everybody() {
    decides("POST", "/open/x", json!({}), 200);
}

#[test]
fn a_path_may_be_closed_to_everybody() {
    decides("GET", "/closed/x", json!({ "scope": "read" }), 403);
}

#[test]
fn one_scope_of_several_is_enough() {
    decides("GET", "/", json!({ "scope": "other read" }), 200);
}

#[test]
fn scopes_may_be_a_list_by_another_name() {
    decides("GET", "/", json!({ "scp": ["all"] }), 200);
}

#[test]
fn scopes_may_be_a_list() {
    decides("GET", "/", json!({ "scope": ["read"] }), 200);
}

#[test]
fn what_begins_like_a_scope_is_none() {
    decides("GET", "/", json!({ "scope": "reader" }), 403);
}

#[test]
fn scopes_of_another_type_are_none() {
    decides("GET", "/", json!({ "scope": { "read": true } }), 403);
}

#[test]
fn a_token_without_scopes_has_none() {
    decides("GET", "/", json!({}), 403);
}

#[test]
fn all_scopes_and_a_claim_are_enough() {
    decides(
        "PUT",
        "/",
        json!({ "scope": "read write", "role": "editor" }),
        200,
    );
}

#[test]
fn scopes_have_no_order_and_one_role_of_a_list_is_enough() {
    decides(
        "PUT",
        "/",
        json!({ "scope": "write read", "role": ["x", "admin"] }),
        200,
    );
}

#[test]
fn a_scope_that_is_missing_refuses() {
    decides(
        "PUT",
        "/",
        json!({ "scope": "write", "role": "admin" }),
        403,
    );
}

#[test]
fn a_claim_that_is_missing_refuses() {
    decides("PUT", "/", json!({ "scope": "read write" }), 403);
}

#[test]
fn what_begins_like_a_value_is_none() {
    decides(
        "PUT",
        "/",
        json!({ "scope": "read write", "role": "admins" }),
        403,
    );
}

#[test]
fn a_claim_of_another_type_has_no_value() {
    decides(
        "PUT",
        "/",
        json!({ "scope": "read write", "role": { "admin": 1 } }),
        403,
    );
}

#[test]
fn a_claim_may_be_a_member_of_a_member_and_a_number() {
    decides(
        "DELETE",
        "/",
        json!({ "realm": { "roles": ["admin"] }, "level": 3 }),
        200,
    );
}

#[test]
fn a_claims_own_name_may_have_dots() {
    decides(
        "DELETE",
        "/",
        json!({ "realm.roles": "admin", "level": "4" }),
        200,
    );
}

#[test]
fn each_claim_has_to_be_one_of_its_values() {
    decides(
        "DELETE",
        "/",
        json!({ "realm": { "roles": ["admin"] }, "level": 5 }),
        403,
    );
}

#[test]
fn an_empty_list_has_no_value() {
    decides(
        "DELETE",
        "/",
        json!({ "realm": { "roles": [] }, "level": 3 }),
        403,
    );
}

#[test]
fn what_no_rule_is_for_is_refused() {
    decides(
        "PATCH",
        "/",
        json!({ "scope": "read write", "role": "admin" }),
        403,
    );
}

#[test]
fn what_a_token_lacks_is_said() {
    let site = Site::start(Protocol::H1, HS, "", RULES);
    let token = bearer(&signed(json!({})));
    over_each(|protocol| {
        let refused = ask(&site.node, protocol, "PUT", "/", &token);
        let says = "Bearer error=\"insufficient_scope\", scope=\"read write\"";
        assert_eq!(refused.field("www-authenticate"), Some(says));
    });
}

#[test]
fn a_path_is_judged_in_its_normal_form() {
    let site = Site::start(Protocol::H1, HS, "", RULES);
    let token = bearer(&signed(json!({ "scope": "read" })));
    over_each(|protocol| {
        for target in [
            "/open/../closed/x",
            "/open/%2e%2e/closed/x",
            "/%63losed/x",
            "/closed//x",
        ] {
            let status = ask(&site.node, protocol, "GET", target, &token).status();
            assert!(matches!(status, 403 | 400), "{target}: {status}");
        }
    });
}
