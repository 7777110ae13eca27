//! Filters, by their kind.

use std::path::PathBuf;

use steppe_config::typed::{Fields, Named, Node, Typed};
use steppe_http::config::keys::{cache, compress};
use steppe_http::config::{
    BasicAuth, Cors, ErrorContent, ErrorPage, ErrorPages, ErrorsOf, FieldEdits, FieldRewrite,
    Filter, FilterKind, ForwardAuth, IpRules, JsonEdits, JwksUrl, Jwt, JwtKey, PathEdit,
    QueryEdits, Rate, RateLimit, RateStore, Redirect, RequestId, Rule, Transform, Unreadable,
};

use crate::config::typed::ByName;

pub(in crate::config) fn filter(
    entry: &Named,
    upstream: &dyn Fn(&str) -> Option<usize>,
) -> Option<Filter> {
    let Typed::Variant { name, fields, .. } = &entry.value.typed else {
        return None;
    };
    let kind = match *name {
        "cache" => FilterKind::Cache(cache::build(fields)?),
        "compress" => FilterKind::Compress(compress::build(fields)?),
        "cors" => FilterKind::Cors(cors(fields)?),
        "jwt" => FilterKind::Jwt(jwt(fields)?),
        "basic-auth" => FilterKind::BasicAuth(BasicAuth {
            users: fields.take("users_file")?,
            realm: fields.take("realm")?,
            forward_user: fields.optional("forward_user")?,
            cache_entries: fields.take("cache_entries")?,
        }),
        "error-pages" => FilterKind::ErrorPages(ErrorPages {
            of: match fields.take::<&str>("of")? {
                "all" => ErrorsOf::All,
                _ => ErrorsOf::Gateway,
            },
            pages: fields
                .list("pages")
                .iter()
                .map(error_page)
                .collect::<Option<_>>()?,
        }),
        "forward-auth" => FilterKind::ForwardAuth(ForwardAuth {
            upstream: upstream(&fields.take::<String>("upstream")?)?,
            path: fields.take("path")?,
            request_headers: fields.take("request_headers")?,
            response_headers: fields.take("response_headers")?,
            timeout: fields.take("timeout")?,
        }),
        "authorize" => {
            let rules = fields.list("rules").iter().map(rule);
            FilterKind::Authorize(rules.collect::<Option<_>>()?)
        }
        "ip" => FilterKind::Ip(ip(fields)?),
        "rate-limit" => FilterKind::RateLimit(rate_limit(&entry.name, fields)?),
        "redirect" => FilterKind::Redirect(Redirect {
            status: fields.take("status")?,
            to: fields.take("to")?,
        }),
        "request-id" => FilterKind::RequestId(RequestId {
            header: fields.take("header")?,
            keep: fields.take("keep")?,
        }),
        "security-headers" => FilterKind::SecurityHeaders(security_headers(fields)?),
        "transform" => FilterKind::Transform(transform(fields)?),
        _ => return None,
    };
    Some(Filter {
        name: entry.name.clone(),
        kind,
    })
}

fn cors(cors: &Fields) -> Option<Cors> {
    Some(Cors {
        origins: cors.take("origins")?,
        methods: cors.take("methods")?,
        headers: cors.take("headers")?,
        expose: cors.take("expose")?,
        credentials: cors.take("credentials")?,
        max_age: cors.optional("max_age")?,
    })
}

fn error_page(page: &Node) -> Option<ErrorPage> {
    let page = page.fields()?;
    let file: Option<PathBuf> = page.optional("file")?;
    let body: Option<String> = page.optional("body")?;
    let content = file.map(ErrorContent::File);
    Some(ErrorPage {
        statuses: page.take("status")?,
        content: content.or(body.map(ErrorContent::Text))?,
        content_type: page.optional("content_type")?,
    })
}

fn ip(ip: &Fields) -> Option<IpRules> {
    let allow: Option<Vec<_>> = ip.optional("allow")?;
    let deny: Option<Vec<_>> = ip.optional("deny")?;
    Some(IpRules {
        allow: allow.unwrap_or_default(),
        deny: deny.unwrap_or_default(),
    })
}

fn jwt(jwt: &Fields) -> Option<Jwt> {
    let audience: Option<Vec<_>> = jwt.optional("audience")?;
    let (sets, remote) = match jwt.node("jwks") {
        None => (Vec::new(), None),
        Some(set) => jwks(set.fields()?)?,
    };
    Some(Jwt {
        issuer: jwt.optional("issuer")?,
        audience: audience.unwrap_or_default(),
        leeway: jwt.take("leeway")?,
        keys: jwt
            .list("keys")
            .iter()
            .map(jwt_key)
            .collect::<Option<_>>()?,
        sets,
        remote,
        from: jwt.take("from")?,
        forward_claims: jwt.take("forward_claims")?,
        cache_entries: jwt.take("cache_entries")?,
    })
}

fn jwks(set: &Fields) -> Option<(Vec<PathBuf>, Option<JwksUrl>)> {
    let file: Option<PathBuf> = set.optional("file")?;
    let url: Option<String> = set.optional("url")?;
    let (refresh, cooldown) = (set.optional("refresh")?, set.optional("cooldown")?);
    let ca = set.optional("ca")?;
    let remote = match (url, refresh.zip(cooldown)) {
        (Some(url), Some((refresh, cooldown))) => Some(JwksUrl {
            url,
            refresh,
            cooldown,
            ca,
        }),
        // A file has neither.
        _ => None,
    };
    Some((file.into_iter().collect(), remote))
}

fn jwt_key(key: &Node) -> Option<JwtKey> {
    let key = key.fields()?;
    let secret: Option<_> = key.optional("secret_file")?;
    let public_key: Option<_> = key.optional("public_key_file")?;
    Some(JwtKey {
        id: key.optional("id")?,
        algorithm: key.take("algorithm")?,
        file: secret.or(public_key)?,
    })
}

fn rule(rule: &Node) -> Option<Rule> {
    let rule = rule.fields()?;
    let list = |name| {
        rule.optional::<Vec<String>>(name)
            .map(Option::unwrap_or_default)
    };
    let mut claims: Vec<(String, Vec<String>)> = Vec::new();
    for (name, value) in rule.take::<Vec<(String, String)>>("claims")? {
        match claims.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => claims.push((name, vec![value])),
        }
    }
    let mut methods = list("methods")?;
    if methods.iter().any(|method| method == "*") {
        methods.clear();
    }
    Some(Rule {
        methods,
        path: rule.optional("path")?,
        any_scope: list("any_scope")?,
        all_scopes: list("all_scopes")?,
        claims,
        denies: rule.take("deny")?,
    })
}

fn rate_limit(name: &str, limit: &Fields) -> Option<RateLimit> {
    let requests: Option<u32> = limit.optional("rate")?;
    let (per, burst) = (limit.take("per")?, limit.optional("burst")?);
    let rate = requests.map(|requests| Rate {
        requests,
        per,
        burst: burst.unwrap_or(requests),
    });
    let store: Option<String> = limit.optional("store")?;
    let prefix = |key| u8::try_from(limit.take::<u64>(key)?).ok();
    Some(RateLimit {
        name: name.to_owned(),
        rate,
        concurrent: limit.optional("concurrent")?,
        key: limit.take("key")?,
        prefix: (prefix("ipv4_prefix")?, prefix("ipv6_prefix")?),
        entries: limit.take("entries")?,
        store: match store {
            None => None,
            Some(url) => Some(RateStore::parse(&url)?),
        },
    })
}

fn security_headers(keys: &Fields) -> Option<Vec<(String, String)>> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: Option<&str>| {
        fields.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    };
    let nosniff = keys.take::<bool>("nosniff")?.then_some("nosniff");
    add("x-content-type-options", nosniff);
    let frame_options = keys.take::<&str>("frame_options")?;
    add(
        "x-frame-options",
        Some(frame_options).filter(|option| *option != "off"),
    );
    let opener: Option<&str> = keys.optional("cross_origin_opener_policy")?;
    add("cross-origin-opener-policy", opener);
    for (name, key) in [
        ("referrer-policy", "referrer_policy"),
        ("content-security-policy", "content_security_policy"),
        ("permissions-policy", "permissions_policy"),
    ] {
        let value: Option<String> = keys.optional(key)?;
        add(name, value.as_deref().filter(|value| !value.is_empty()));
    }
    Some(fields)
}

fn transform(transform: &Fields) -> Option<Transform> {
    let query = transform.table("query")?;
    Some(Transform {
        path: transform
            .list("path")
            .iter()
            .map(path_edit)
            .collect::<Option<_>>()?,
        query: QueryEdits {
            remove: query.take("remove")?,
            set: query.take("set")?,
        },
        request: edits(transform.table("request_headers")?)?,
        response: edits(transform.table("response_headers")?)?,
        request_json: json_edits(transform, "request_json")?,
        response_json: json_edits(transform, "response_json")?,
    })
}

/// `Some(None)`: there are none.
pub(in crate::config) fn json_edits(transform: &Fields, key: &str) -> Option<Option<JsonEdits>> {
    let Some(edits) = transform.node(key) else {
        return Some(None);
    };
    let edits = edits.fields()?;
    let pairs = |key| {
        edits
            .optional::<Vec<(String, String)>>(key)
            .map(Option::unwrap_or_default)
    };
    let remove: Option<Vec<_>> = edits.optional("remove")?;
    Some(Some(JsonEdits {
        remove: remove.unwrap_or_default(),
        rename: pairs("rename")?,
        set: pairs("set")?,
        max_bytes: edits.take("max_bytes")?,
        unreadable: match edits.take::<&str>("unreadable")? {
            "pass" => Unreadable::Pass,
            _ => Unreadable::Refuse,
        },
    }))
}

fn rewrite(rewrite: &Node) -> Option<FieldRewrite> {
    let rewrite = rewrite.fields()?;
    Some(FieldRewrite {
        header: rewrite.take("header")?,
        from: rewrite.optional("from")?,
        pattern: rewrite.take("pattern")?,
        to: rewrite.take("to")?,
    })
}

fn path_edit(edit: &Node) -> Option<PathEdit> {
    let edit = edit.fields()?;
    Some(PathEdit {
        pattern: edit.take("pattern")?,
        to: edit.take("to")?,
    })
}

fn edits(edits: &Fields) -> Option<FieldEdits> {
    Some(FieldEdits {
        rewrite: edits
            .list("rewrite")
            .iter()
            .map(rewrite)
            .collect::<Option<_>>()?,
        remove: edits.take("remove")?,
        set: edits.take("set")?,
        append: edits.take("append")?,
    })
}
