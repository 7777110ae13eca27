//! The client's address for origins: `Forwarded`, `X-Forwarded-*`, in place of those that
//! came. Spec: RFC 7239.

use std::cell::Cell;
use std::net::IpAddr;

use ipnet::IpNet;
use steppe_mem::{Lease, OverBudget};

use super::client::ClientContext;
use super::snapshot::Snapshot;
use crate::encoder::Encoder;
use crate::field::{FieldBlock, FieldId};
use crate::forwarded::{ForwardedLines, Forwarding, Peer, ReceivedAuthority};
use crate::head::RequestHead;

const FORWARDING_LINES: usize = 4;

/// Room for the values of the four fields, usually.
const FORWARDING_BYTES: usize = 512;

/// The proxies that a snapshot trusts, and the peer of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forwarded<'a> {
    peer: &'a Peer,
    client: &'a ClientContext,
    trusted_proxies: &'a [IpNet],
}

impl<'a> Forwarded<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, peer: &'a Peer, client: &'a ClientContext) -> Self {
        let trusted_proxies = &snapshot.gateway.config.trusted_proxies;
        Self {
            peer,
            client,
            trusted_proxies,
        }
    }

    /// The client, as far as trusted proxies vouch for it.
    pub(super) fn client(self, head: &RequestHead) -> IpAddr {
        if self.peer.is_trusted() {
            self.of(head).client()
        } else {
            self.peer.address()
        }
    }

    /// Replaces the fields that tell where a request comes from by what is true of it.
    pub(super) fn replace(self, head: &mut RequestHead, lease: &Lease) -> Result<(), OverBudget> {
        self.replace_addresses(head, lease)?;
        self.replace_client_cert(&mut head.fields)
    }

    fn replace_addresses(self, head: &mut RequestHead, lease: &Lease) -> Result<(), OverBudget> {
        // Long lists are rare: they get a buffer, after the room on the stack was not enough.
        let mut room = [0; FORWARDING_BYTES];
        let mut encoder = Encoder::new(&mut room);
        let ends = self.write(head, &mut encoder);
        if encoder.finish().is_some() {
            return replace(self.peer, &mut head.fields, &room, ends);
        }
        let ends = Cell::new([0; FORWARDING_LINES]);
        let values = Encoder::encode(lease, 2 * head.fields.bytes().len(), |out| {
            ends.set(self.write(head, out));
        })?;
        replace(self.peer, &mut head.fields, values.filled(), ends.get())
    }

    /// RFC 9440 §2.2: whoever ends TLS says who the client is, and nobody else does.
    fn replace_client_cert(self, fields: &mut FieldBlock) -> Result<(), OverBudget> {
        let Some(tls) = self.client.tls() else {
            return Ok(());
        };
        fields.remove_where(|id| id == FieldId::ClientCert);
        match &tls.client_cert {
            Some(value) => {
                fields.append_known(FieldId::ClientCert, b"client-cert", value.as_bytes())
            }
            None => Ok(()),
        }
    }

    /// Writes the values of the four fields, one after the other; says where each ends.
    fn write(self, head: &RequestHead, out: &mut Encoder<'_>) -> [usize; FORWARDING_LINES] {
        let forwarding = self.of(head);
        forwarding.write_forwarded(out);
        let first = out.written();
        forwarding.write_x_forwarded_for(out);
        let second = out.written();
        forwarding.write_x_forwarded_proto(out);
        let third = out.written();
        forwarding.write_x_forwarded_host(out);
        [first, second, third, out.written()]
    }

    fn of<'b>(
        self,
        head: &'b RequestHead,
    ) -> Forwarding<'b, impl DoubleEndedIterator<Item = &'b [u8]> + Clone>
    where
        'a: 'b,
    {
        let fields = &head.fields;
        let incoming = ForwardedLines {
            forwarded: fields.values(FieldId::Forwarded),
            x_forwarded_for: fields.values(FieldId::XForwardedFor),
            x_forwarded_proto: fields.values(FieldId::XForwardedProto),
            x_forwarded_host: fields.values(FieldId::XForwardedHost),
        };
        let received = ReceivedAuthority {
            host: head.authority(),
            proto: self.client.scheme(),
        };
        Forwarding::new(self.peer, self.trusted_proxies, received, incoming)
    }
}

fn replace(
    peer: &Peer,
    fields: &mut FieldBlock,
    values: &[u8],
    ends: [usize; FORWARDING_LINES],
) -> Result<(), OverBudget> {
    const NAMES: [(FieldId, &[u8]); FORWARDING_LINES] = [
        (FieldId::Forwarded, b"forwarded"),
        (FieldId::XForwardedFor, b"x-forwarded-for"),
        (FieldId::XForwardedProto, b"x-forwarded-proto"),
        (FieldId::XForwardedHost, b"x-forwarded-host"),
    ];
    fields.remove_where(|id| peer.is_replaced(id));
    let mut start = 0;
    for ((id, name), end) in NAMES.into_iter().zip(ends) {
        // A request that names no host has nothing to say in the last one.
        if end > start {
            fields.append_known(id, name, &values[start..end])?;
        }
        start = end;
    }
    Ok(())
}
