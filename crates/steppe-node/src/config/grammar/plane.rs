//! Strings of the request plane.
//!
//! Spec: `docs/plane-protocol.md` §5.

use steppe_plane::limits::SERVICE_BYTES_MAX;

use super::{Read, Refusal};
use crate::config::mistake::shown;

/// The name of a service.
pub(in crate::config) fn service(text: &str) -> Read<String> {
    let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_name && text.len() <= SERVICE_BYTES_MAX {
        return Ok(text.to_owned());
    }
    let refusal = Refusal::new(format!("`{}` is not the name of a service", shown(text)));
    Err(refusal.help(format!(
        "write 1 to {SERVICE_BYTES_MAX} visible ASCII characters, such as \"embed\""
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_visible_ascii() {
        for text in ["echo", "a.Service/Method", &"x".repeat(SERVICE_BYTES_MAX)] {
            assert_eq!(service(text), Ok(text.to_owned()));
        }
        for text in ["", "two words", "größe", &"x".repeat(SERVICE_BYTES_MAX + 1)] {
            assert!(service(text).is_err(), "{text:?}");
        }
    }
}
