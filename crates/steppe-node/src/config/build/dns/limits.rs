//! `[dns.limits]` out of a file that was read.

use std::num::NonZeroU32;

use steppe_config::typed::Fields;
use steppe_dns::config::{Limits, Rebinding};

use crate::config::typed::ByName;

pub(super) fn limits(limits: &Fields) -> Option<Limits> {
    Some(Limits {
        client_qps: rate(limits.take("client_qps")?)?,
        unproven_bytes_per_s: rate(limits.take("unproven_bytes_per_s")?)?,
        zone_misses_per_s: rate(limits.take("zone_misses_per_s")?)?,
        cname_depth: limits.take("cname_depth")?,
        rebinding: match limits.take("rebinding")? {
            "refuse" => Rebinding::Refuse,
            "allow" => Rebinding::Allow,
            _ => return None,
        },
    })
}

/// A rate a second, of which 0 is none.
#[expect(clippy::option_option, reason = "invalid and off are two things")]
fn rate(per_second: u64) -> Option<Option<NonZeroU32>> {
    Some(NonZeroU32::new(u32::try_from(per_second).ok()?))
}
