//! SERVICES: the services that a worker offers. `docs/plane/protocol.md` §9.
//!
//! The frame replaces the previous list of its sender; an empty one withdraws all services. Each
//! entry is a length and fields, so that a newer version may add some.

use super::field::{FieldError, Fields, put, text_of, u32_of, unknown};
use super::head::SERVICE_NAME;
use crate::limits::{CONTROL_BYTES_MAX, SERVICES_MAX};

const NAME: u8 = 1;
const CALLS_MAX: u8 = 2;

/// One service of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Service<'a> {
    /// Name of the service, as in requests.
    pub name: &'a str,
    /// Maximum of concurrent calls; `None` if unlimited.
    pub calls_max: Option<u32>,
}

/// The checked services of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Services<'a>(&'a [u8]);

impl<'a> Services<'a> {
    /// Reads a payload.
    ///
    /// # Errors
    /// [`FieldError`]; among them [`FieldError::Truncated`] for more than [`SERVICES_MAX`] services, and
    /// [`FieldError::Value`] for a repeated name.
    pub fn read(payload: &'a [u8]) -> Result<Self, FieldError> {
        let mut rest = payload;
        let mut count = 0;
        while !rest.is_empty() {
            let (entry, after) = split_entry(rest).ok_or(FieldError::Truncated)?;
            let service = read_entry(entry)?;
            let before = Self(&payload[..payload.len() - rest.len()]);
            if before.iter().any(|it| it.name == service.name) {
                return Err(FieldError::Value(NAME));
            }
            (rest, count) = (after, count + 1);
            if count > SERVICES_MAX {
                return Err(FieldError::Truncated);
            }
        }
        Ok(Self(payload))
    }

    /// The services, in the order in which they were sent.
    pub fn iter(&self) -> impl Iterator<Item = Service<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (entry, after) = split_entry(rest)?;
            rest = after;
            read_entry(entry).ok()
        })
    }
}

fn split_entry(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = bytes.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(len)))
}

fn read_entry(entry: &[u8]) -> Result<Service<'_>, FieldError> {
    let mut service = Service {
        name: "",
        calls_max: None,
    };
    for field in Fields::new(entry) {
        let (number, value) = field?;
        match number {
            NAME => service.name = text_of(number, value, SERVICE_NAME)?,
            CALLS_MAX => service.calls_max = Some(u32_of(number, value)?),
            _ => unknown(number)?,
        }
    }
    if service.name.is_empty() {
        return Err(FieldError::Missing(NAME));
    }
    Ok(service)
}

/// Appends the payload for `services`.
///
/// # Errors
/// [`FieldError::Value`] if a name is invalid, or if the services do not fit a frame; `out` is
/// unchanged then.
pub fn write_services(services: &[Service<'_>], out: &mut Vec<u8>) -> Result<(), FieldError> {
    let before = out.len();
    let written = write_entries(services, out);
    let is_short = services.len() <= SERVICES_MAX && out.len() - before <= CONTROL_BYTES_MAX;
    let written = written.and(is_short.then_some(()).ok_or(FieldError::Value(NAME)));
    if written.is_err() {
        out.truncate(before);
    }
    written
}

fn write_entries(services: &[Service<'_>], out: &mut Vec<u8>) -> Result<(), FieldError> {
    for service in services.iter().take(SERVICES_MAX) {
        text_of(NAME, service.name.as_bytes(), SERVICE_NAME)?;
        let calls_bytes = service.calls_max.map_or(0, |_| 7);
        let len = 3 + service.name.len() + calls_bytes;
        let len = u16::try_from(len).expect("a name was checked");
        out.extend_from_slice(&len.to_be_bytes());
        put(out, NAME, service.name.as_bytes());
        if let Some(calls_max) = service.calls_max {
            put(out, CALLS_MAX, &calls_max.to_be_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMBED: Service<'_> = Service {
        name: "embed",
        calls_max: Some(96),
    };
    const ECHO: Service<'_> = Service {
        name: "echo",
        calls_max: None,
    };

    fn written(services: &[Service<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        write_services(services, &mut out).expect("they fit");
        out
    }

    #[test]
    fn lists_round_trip() {
        for list in [&[][..], &[EMBED], &[EMBED, ECHO]] {
            let bytes = written(list);
            let read = Services::read(&bytes).expect("valid");
            assert_eq!(read.iter().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn entries_are_checked_and_may_have_more() {
        let bytes = written(&[EMBED]);
        for cut in 1..bytes.len() {
            assert!(Services::read(&bytes[..cut]).is_err(), "{cut}");
        }
        let mut entry = bytes[2..].to_vec();
        put(&mut entry, 0x80, b"of a newer version");
        let len = u16::try_from(entry.len()).expect("short").to_be_bytes();
        let bytes = [&len[..], &entry].concat();
        let read = Services::read(&bytes).expect("valid");
        assert_eq!(read.iter().next(), Some(EMBED));
        let nameless = [0, 7, CALLS_MAX, 0, 4, 0, 0, 0, 1];
        assert_eq!(Services::read(&nameless), Err(FieldError::Missing(NAME)));
    }

    #[test]
    fn too_many_are_refused_whole() {
        let names: Vec<String> = (0..=SERVICES_MAX).map(|at| format!("s{at}")).collect();
        let of_name = |name: &String| {
            let entry = Service { name, ..ECHO };
            written(&[entry])
        };
        let bytes: Vec<u8> = names.iter().flat_map(of_name).collect();
        assert_eq!(Services::read(&bytes), Err(FieldError::Truncated));
        let many = vec![ECHO; SERVICES_MAX + 1];
        let mut out = vec![1];
        assert!(write_services(&many, &mut out).is_err());
        assert_eq!(out, [1]);
        let long = "x".repeat(128);
        let long = Service {
            name: &long,
            calls_max: None,
        };
        assert!(write_services(&vec![long; SERVICES_MAX], &mut out).is_err());
        assert_eq!(out, [1]);
        let bytes = [written(&[ECHO, EMBED]), written(&[ECHO])].concat();
        assert_eq!(Services::read(&bytes), Err(FieldError::Value(NAME)));
    }
}
