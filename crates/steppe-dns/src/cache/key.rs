//! The key that a response is cached under.

use crate::limits::NAME_BYTES_MAX;
use crate::siphash::{SipHash13, SipKey};
use crate::wire::{Class, Rtype, Subnet};

/// A question, and all else that its answer depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The name in wire form, in any case, as long as a name may be.
    pub qname: &'a [u8],
    /// The type.
    pub qtype: Rtype,
    /// The class.
    pub qclass: Class,
    /// The view: clients of one view get the same answers.
    pub view: u16,
    /// [`Key::DNSSEC_OK`] and [`Key::CHECKING_DISABLED`].
    pub flags: u8,
    /// The client subnet that the server was sent. RFC 7871 §7.3.
    pub subnet: Option<Subnet>,
}

impl Key<'_> {
    /// The query had DO: the answer has signatures.
    pub const DNSSEC_OK: u8 = 1;
    /// The query had CD: the answer was not validated. RFC 4035 §3.2.2.
    pub const CHECKING_DISABLED: u8 = 2;
    /// The entry has a subnet.
    pub(super) const HAS_SUBNET: u8 = 4;

    /// The keyed hash of the key, the same for every case of the name.
    #[must_use]
    pub fn hash(&self, key: &SipKey) -> u64 {
        let mut name = [0; NAME_BYTES_MAX];
        let len = self.qname.len().min(NAME_BYTES_MAX);
        name[..len].copy_from_slice(&self.qname[..len]);
        name[..len].make_ascii_lowercase();
        let mut hash = SipHash13::new(key);
        let [t0, t1] = self.qtype.0.to_be_bytes();
        let [c0, c1] = self.qclass.0.to_be_bytes();
        let [v0, v1] = self.view.to_be_bytes();
        hash.write(&[t0, t1, c0, c1, v0, v1, self.bits(), 0]);
        hash.write(&name[..len]);
        if let Some(subnet) = self.subnet {
            hash.write(&subnet.address);
            hash.write(&[subnet.prefix, subnet.family]);
        }
        hash.finish()
    }

    pub(super) fn bits(&self) -> u8 {
        let subnet = if self.subnet.is_some() {
            Self::HAS_SUBNET
        } else {
            0
        };
        self.flags & (Self::DNSSEC_OK | Self::CHECKING_DISABLED) | subnet
    }
}
