//! The OPT record and its options. Spec: RFC 6891; subnets RFC 7871, cookies RFC 7873, keepalive RFC
//! 7828, padding RFC 7830, extended errors RFC 8914.

use super::error::WireError;
use super::record::Record;
use super::write::{Full, Writer};

/// An option's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionCode(pub u16);

#[expect(missing_docs, reason = "each is the option of that name")]
impl OptionCode {
    pub const CLIENT_SUBNET: Self = Self(8);
    pub const COOKIE: Self = Self(10);
    pub const TCP_KEEPALIVE: Self = Self(11);
    pub const PADDING: Self = Self(12);
    pub const EXTENDED_ERROR: Self = Self(15);
}

/// An OPT record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opt<'a> {
    /// Largest UDP message that the sender accepts, in bytes.
    pub udp_payload: u16,
    /// The upper eight bits of the response code.
    pub rcode_high: u8,
    /// Version of EDNS; only 0 is defined.
    pub version: u8,
    /// Flags; the first bit is DO.
    pub flags: u16,
    options: &'a [u8],
}

/// The options of an OPT record that a forwarder acts on. Of a repeated option, the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EdnsOptions<'a> {
    /// Cookie of the client.
    pub cookie: Option<ClientCookie<'a>>,
    /// Network that the client names.
    pub subnet: Option<Subnet>,
    /// True if the client asks for a padded response.
    pub has_padding: bool,
    /// True if the client asks for the idle timeout of the connection.
    pub has_keepalive: bool,
}

/// A COOKIE option as a client sends it. RFC 7873 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCookie<'a> {
    /// Client cookie.
    pub client: [u8; 8],
    /// Server cookie that the client returns: empty, or 8 to 32 bytes.
    pub server: &'a [u8],
}

/// A network in a CLIENT-SUBNET option. RFC 7871 §6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subnet {
    /// The address, bits after the prefix zero; IPv4 in the first four bytes.
    pub address: [u8; 16],
    /// Bits of the prefix.
    pub prefix: u8,
    /// 1 for IPv4, 2 for IPv6.
    pub family: u8,
}

impl<'a> Opt<'a> {
    /// DO bit: the sender asks for DNSSEC records. RFC 3225.
    pub const DNSSEC_OK: u16 = 1 << 15;

    /// Reads an OPT record of a message.
    pub(super) fn read(bytes: &'a [u8], record: &Record<'a>) -> Result<Self, WireError> {
        let is_of_root = bytes.get(record.owner_at) == Some(&0);
        if !is_of_root {
            return Err(WireError::Opt);
        }
        let [rcode_high, version, f0, f1] = record.ttl.to_be_bytes();
        let opt = Self {
            udp_payload: record.class.0,
            rcode_high,
            version,
            flags: u16::from_be_bytes([f0, f1]),
            options: record.rdata,
        };
        let mut rest = opt.options;
        while !rest.is_empty() {
            (_, _, rest) = next_option(rest).ok_or(WireError::Opt)?;
        }
        Ok(opt)
    }

    /// True if the sender asks for DNSSEC records.
    #[must_use]
    pub fn is_dnssec_ok(&self) -> bool {
        self.flags & Self::DNSSEC_OK != 0
    }

    /// Codes and data of the options.
    pub fn options(&self) -> impl Iterator<Item = (OptionCode, &'a [u8])> + use<'a> {
        let mut rest = self.options;
        std::iter::from_fn(move || {
            let (code, data, after) = next_option(rest)?;
            rest = after;
            Some((code, data))
        })
    }

    /// Reads the options of a client that the forwarder acts on.
    ///
    /// # Errors
    /// [`WireError::Opt`] for a malformed cookie or subnet: RFC 7873 §5.2.2 and RFC 7871 §7.1.2
    /// require FORMERR.
    pub fn client_options(&self) -> Result<EdnsOptions<'a>, WireError> {
        let mut found = EdnsOptions::default();
        for (code, data) in self.options() {
            match code {
                OptionCode::COOKIE if found.cookie.is_none() => {
                    found.cookie = Some(ClientCookie::read(data)?);
                }
                OptionCode::CLIENT_SUBNET if found.subnet.is_none() => {
                    found.subnet = Some(Subnet::read_query(data)?);
                }
                OptionCode::PADDING => found.has_padding = true,
                OptionCode::TCP_KEEPALIVE => found.has_keepalive = true,
                _ => {}
            }
        }
        Ok(found)
    }

    /// The subnet in a response, and its scope: the number of prefix bits that the answer depends on, 0 for
    /// none. RFC 7871 §7.2.1.
    ///
    /// # Errors
    /// [`WireError::Opt`].
    pub fn subnet_and_scope(&self) -> Result<Option<(Subnet, u8)>, WireError> {
        let mut options = self.options();
        let option = options.find(|(code, _)| *code == OptionCode::CLIENT_SUBNET);
        option.map(|(_, data)| Subnet::read(data)).transpose()
    }
}

fn next_option(bytes: &[u8]) -> Option<(OptionCode, &[u8], &[u8])> {
    let (&[c0, c1, l0, l1], rest) = bytes.split_first_chunk::<4>()?;
    let len = usize::from(u16::from_be_bytes([l0, l1]));
    let (data, after) = rest.split_at_checked(len)?;
    Some((OptionCode(u16::from_be_bytes([c0, c1])), data, after))
}

impl<'a> ClientCookie<'a> {
    fn read(data: &'a [u8]) -> Result<Self, WireError> {
        let (&client, server) = data.split_first_chunk::<8>().ok_or(WireError::Opt)?;
        match server.len() {
            0 | 8..=32 => Ok(Self { client, server }),
            _ => Err(WireError::Opt),
        }
    }
}

impl Subnet {
    /// Address family of IPv4.
    pub const IPV4: u8 = 1;
    /// Address family of IPv6.
    pub const IPV6: u8 = 2;

    /// The network of an address with a prefix of this many bits.
    #[must_use]
    pub fn of(address: std::net::IpAddr, prefix: u8) -> Self {
        let (family, bits, mut bytes) = match address {
            std::net::IpAddr::V4(v4) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&v4.octets());
                (Self::IPV4, 32, bytes)
            }
            std::net::IpAddr::V6(v6) => (Self::IPV6, 128, v6.octets()),
        };
        let prefix = prefix.min(bits);
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        bytes = (u128::from_be_bytes(bytes) & mask).to_be_bytes();
        Self {
            address: bytes,
            prefix,
            family,
        }
    }

    /// Reads the option of a query, whose scope must be zero. RFC 7871 §6.
    fn read_query(data: &[u8]) -> Result<Self, WireError> {
        match Self::read(data)? {
            (subnet, 0) => Ok(subnet),
            _ => Err(WireError::Opt),
        }
    }

    /// Reads a network and its scope. Bits after the prefix must be zero.
    fn read(data: &[u8]) -> Result<(Self, u8), WireError> {
        let (&[f0, family, prefix, scope], sent) =
            data.split_first_chunk::<4>().ok_or(WireError::Opt)?;
        let bits = match (f0, family) {
            (0, Self::IPV4) => 32,
            (0, Self::IPV6) => 128,
            _ => return Err(WireError::Opt),
        };
        let needed = usize::from(prefix).div_ceil(8);
        if prefix > bits || scope > bits || sent.len() != needed {
            return Err(WireError::Opt);
        }
        let mut address = [0; 16];
        address[..needed].copy_from_slice(sent);
        let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
        if u128::from_be_bytes(address) & !mask != 0 {
            return Err(WireError::Opt);
        }
        let subnet = Self {
            address,
            prefix,
            family,
        };
        Ok((subnet, scope))
    }

    /// Appends the option.
    ///
    /// # Errors
    /// [`Full`].
    pub(super) fn write(&self, scope: u8, out: &mut Writer<'_>) -> Result<(), Full> {
        let address = &self.address[..usize::from(self.prefix).div_ceil(8)];
        let len = super::write::length(4 + address.len())?;
        out.numbers([OptionCode::CLIENT_SUBNET.0, len, u16::from(self.family)])?;
        out.bytes(&[self.prefix, scope])?;
        out.bytes(address)
    }
}

/// Appends an option.
///
/// # Errors
/// [`Full`].
pub(super) fn write_option(
    out: &mut Writer<'_>,
    code: OptionCode,
    parts: &[&[u8]],
) -> Result<(), Full> {
    let len = super::write::length(parts.iter().map(|part| part.len()).sum())?;
    out.numbers([code.0, len])?;
    parts.iter().try_for_each(|part| out.bytes(part))
}

/// Writer of an OPT record's options.
pub(super) struct OptWriter {
    length_at: usize,
}

impl OptWriter {
    /// Bytes of an OPT record without options.
    pub(super) const FIXED_BYTES: usize = 11;

    /// Appends the fixed part.
    pub(super) fn begin(
        out: &mut Writer<'_>,
        udp_payload: u16,
        rcode_high: u8,
        flags: u16,
    ) -> Result<Self, Full> {
        out.bytes(&[0])?;
        out.numbers([super::code::Rtype::OPT.0, udp_payload])?;
        out.bytes(&[rcode_high, 0])?;
        out.numbers([flags, 0])?;
        Ok(Self {
            length_at: out.len() - 2,
        })
    }

    /// Pads the message to a multiple of `block`, limited by the buffer and by `bytes_max`.
    pub(super) fn pad(
        &self,
        out: &mut Writer<'_>,
        block: usize,
        bytes_max: usize,
    ) -> Result<(), Full> {
        let with_option = out.len() + 4;
        let padded = with_option.next_multiple_of(block).min(bytes_max);
        let Some(len) = padded.checked_sub(with_option) else {
            return Ok(());
        };
        out.numbers([OptionCode::PADDING.0, super::write::length(len)?])?;
        out.zeros(len)
    }

    /// Writes the length of the options.
    pub(super) fn finish(self, out: &mut Writer<'_>) -> Result<(), Full> {
        let len = super::write::length(out.len() - self.length_at - 2)?;
        out.set_number(self.length_at, len);
        Ok(())
    }
}
