//! Hosts of routes.

use steppe_http::config::HostPattern;

use steppe_config::mistake::shown;

/// A name, an address, or a wildcard.
///
/// # Errors
/// The problem, and a way to mend it.
pub(in crate::config) fn host(text: &str) -> Result<HostPattern, (String, String)> {
    const FORMS: &str =
        "write a name such as \"www.example.com\", \"*.example.com\", or an IP address";
    if let Some((_, rest)) = text.split_once("://") {
        let host = shown(rest.split(['/', ':']).next().unwrap_or(rest));
        return Err((
            format!("`{}` is a URL, not a host", shown(text)),
            format!("write the host alone: \"{host}\"; a route's `path` takes the path"),
        ));
    }
    HostPattern::parse(text).map_err(|error| (error.to_string(), FORMS.to_owned()))
}
