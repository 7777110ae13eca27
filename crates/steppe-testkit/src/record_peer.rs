//! A client of TLS 1.3 that writes its records itself, among them records that no library sends.
//!
//! Spec: RFC 8446 §5.2 and §5.3.

use std::net::SocketAddr;

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce};
use aws_lc_rs::aead::{NONCE_LEN, UnboundKey};
use rustls::ConnectionTrafficSecrets;

use crate::peer::Peer;
use crate::tls_client::TlsClient;

/// The content type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentType {
    /// `change_cipher_spec`, 20.
    ChangeCipherSpec = 20,
    /// `alert`, 21.
    Alert = 21,
    /// `handshake`, 22.
    Handshake = 22,
    /// `application_data`, 23.
    Data = 23,
}

/// A client after a regular handshake.
#[derive(Debug)]
pub struct RecordPeer {
    peer: Peer,
    own: Direction,
    server: Direction,
}

/// Key, IV and sequence number of one direction.
#[derive(Debug)]
struct Direction {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    sequence: u64,
}

impl RecordPeer {
    /// Connects to `address`, asks for `name`, and completes the handshake.
    ///
    /// # Panics
    /// When there is no session.
    #[track_caller]
    pub fn connect(address: SocketAddr, name: &str) -> Self {
        let peer = Peer::connect(address);
        let tls = TlsClient::new().handshake(peer.stream(), name);
        let tls = tls.expect("the handshake succeeds");
        let secrets = tls.dangerous_extract_secrets();
        let secrets = secrets.expect("its configuration allows that");
        Self {
            peer,
            own: Direction::new(secrets.tx),
            server: Direction::new(secrets.rx),
        }
    }

    /// The bytes of a protected record.
    ///
    /// # Panics
    /// When it is larger than 64 KiB.
    pub fn seal(&mut self, kind: ContentType, content: &[u8]) -> Vec<u8> {
        let mut sealed = content.to_vec();
        sealed.push(kind as u8);
        let bytes = sealed.len() + AES_256_GCM.tag_len();
        let bytes = u16::try_from(bytes).expect("a record has a length of 16 bits");
        let mut record = [&[ContentType::Data as u8, 3, 3], &bytes.to_be_bytes()[..]].concat();
        let (key, nonce) = self.own.next();
        key.seal_in_place_append_tag(nonce, Aad::from(&record), &mut sealed)
            .expect("its size is fine");
        record.extend(sealed);
        record
    }

    /// The connection, for bytes as they are.
    pub fn socket(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// Sends a protected record.
    ///
    /// # Panics
    /// When the server does not take it.
    #[track_caller]
    pub fn send(&mut self, kind: ContentType, content: &[u8]) -> &mut Self {
        let record = self.seal(kind, content);
        self.peer.send(record);
        self
    }

    /// Reads a record: its type and content.
    ///
    /// # Panics
    /// When none comes, or not with the keys of the handshake.
    #[track_caller]
    pub fn record(&mut self) -> (u8, Vec<u8>) {
        let header = self.peer.bytes(5);
        let bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let mut sealed = self.peer.bytes(bytes);
        let (key, nonce) = self.server.next();
        let opened = key.open_in_place(nonce, Aad::from(&header), &mut sealed);
        let opened = opened.expect("it is sealed by the server");
        let (kind, content) = opened.split_last().expect("it has a type");
        (*kind, content.to_vec())
    }

    /// Reads content until `part` has come so often, and returns all of it.
    ///
    /// # Panics
    /// When something else comes but tickets.
    #[track_caller]
    pub fn text_with(&mut self, part: &str, times: usize) -> String {
        let mut got = String::new();
        while got.matches(part).count() < times {
            match self.record() {
                (23, content) => got.push_str(&String::from_utf8_lossy(&content)),
                (22, _) => {}
                other => panic!("no content but {other:?} after {got}"),
            }
        }
        got
    }

    /// Reads the alert that ends the connection: its description.
    ///
    /// # Panics
    /// When something else comes but tickets.
    #[track_caller]
    pub fn alert(&mut self) -> u8 {
        loop {
            match self.record() {
                (21, alert) => return alert[1],
                (22, _) => {}
                other => panic!("no alert but {other:?}"),
            }
        }
    }
}

impl Direction {
    fn new((sequence, secrets): (u64, ConnectionTrafficSecrets)) -> Self {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => panic!("a suite that nobody knows here"),
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).expect("it has the key's size");
        let iv = iv.as_ref().try_into().expect("it has the size of a nonce");
        Self {
            key: LessSafeKey::new(key),
            iv,
            sequence,
        }
    }

    fn next(&mut self) -> (&LessSafeKey, Nonce) {
        let mut nonce = self.iv;
        let sequence = self.sequence.to_be_bytes();
        let tail = nonce.iter_mut().skip(NONCE_LEN - sequence.len());
        tail.zip(sequence).for_each(|(byte, with)| *byte ^= with);
        self.sequence += 1;
        (&self.key, Nonce::assume_unique_for_key(nonce))
    }
}
