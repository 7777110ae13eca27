//! The pages of the reference: a section each, with an example and the tasks that need it.

/// A page.
pub(super) struct Page {
    /// The section: `http.listener`.
    pub(super) place: &'static str,
    /// Titles and paths of pages about related tasks, from `docs/`.
    pub(super) tasks: &'static [(&'static str, &'static str)],
    /// A complete configuration that has the section.
    pub(super) example: &'static str,
}

macro_rules! page {
    ($place:literal, $example:literal, [$(($title:literal, $path:literal)),* $(,)?]) => {
        Page {
            place: $place,
            tasks: &[$(($title, $path)),*],
            example: include_str!(concat!("examples/", $example, ".toml")),
        }
    };
}

/// The pages, in the order of the table of keys.
pub(super) static PAGES: [Page; 17] = [
    page!(
        "node",
        "node",
        [
            ("Memory", "operate/memory.md"),
            ("Reload, upgrade, drain", "operate/upgrade.md"),
        ]
    ),
    page!(
        "admin",
        "admin",
        [
            ("Monitoring", "operate/monitoring.md"),
            ("Endpoints of admin", "reference/admin.md"),
            ("Certificates", "operate/certificates.md"),
        ]
    ),
    page!(
        "log",
        "log",
        [
            ("Log lines and access-log fields", "reference/logs.md"),
            ("Debugging", "operate/debugging.md"),
        ]
    ),
    page!("trace", "trace", [("Traces", "gateway/traces.md")]),
    page!("site", "site", [("Sites", "gateway/sites.md")]),
    page!(
        "http",
        "http",
        [
            ("Gateway", "gateway/README.md"),
            ("Proxy a service", "gateway/proxy.md"),
        ]
    ),
    page!(
        "http.listener",
        "http-listener",
        [
            ("Proxy a service", "gateway/proxy.md"),
            ("TLS", "gateway/tls.md"),
            ("HTTP/2", "gateway/http2.md"),
        ]
    ),
    page!(
        "http.upstream",
        "http-upstream",
        [
            ("Proxy a service", "gateway/proxy.md"),
            ("Load balancing", "gateway/load-balancing.md"),
            ("Retries and hedging", "gateway/retries.md"),
            ("gRPC", "gateway/grpc.md"),
            ("Routes into the request plane", "plane/gateway.md"),
        ]
    ),
    page!(
        "http.filter",
        "http-filter",
        [("Filters", "gateway/filters/README.md")]
    ),
    page!(
        "http.route",
        "http-route",
        [
            ("Proxy a service", "gateway/proxy.md"),
            ("Static site", "gateway/static-site.md"),
            ("TLS", "gateway/tls.md"),
            ("Sites", "gateway/sites.md"),
            ("Responses of the gateway", "gateway/responses.md"),
        ]
    ),
    page!(
        "dns",
        "dns",
        [
            ("DNS forwarder", "dns/README.md"),
            ("Cache", "dns/cache.md"),
            ("Limits and query log", "dns/limits.md"),
        ]
    ),
    page!(
        "dns.listener",
        "dns-listener",
        [
            ("Home network", "dns/home.md"),
            ("Encrypted DNS", "dns/encrypted.md"),
        ]
    ),
    page!(
        "dns.upstream",
        "dns-upstream",
        [
            ("Upstreams", "dns/upstreams.md"),
            ("Office network", "dns/office.md"),
        ]
    ),
    page!(
        "dns.list",
        "dns-list",
        [("Lists", "dns/lists.md"), ("Home network", "dns/home.md")]
    ),
    page!(
        "dns.rule",
        "dns-rule",
        [
            ("Rules", "dns/rules.md"),
            ("Office network", "dns/office.md")
        ]
    ),
    page!(
        "plane",
        "plane",
        [
            ("Request plane", "plane/README.md"),
            ("Guide", "plane/guide.md"),
            ("Routes into the plane", "plane/gateway.md"),
        ]
    ),
    page!(
        "discovery",
        "discovery",
        [("Discovery", "plane/discovery.md")]
    ),
];

/// The page of a section.
pub(super) fn file_of(place: &str) -> Option<String> {
    let is_there = PAGES.iter().any(|page| page.place == place);
    is_there.then(|| format!("{}.md", place.replace('.', "-")))
}
