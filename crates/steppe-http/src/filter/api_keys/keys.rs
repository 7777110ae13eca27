//! Keys of clients out of a file: a name and a hash in each line.
//!
//! Invariant: of a key, its hash alone is kept, and neither is shown. A file that can't be used changes nothing: the keys
//! that were read last stay in use.
//!
//! A plain SHA-256 will do: keys are random and long, so there is nothing to guess that a slow hash would protect.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use steppe_net::Watch;
use steppe_net::tls::{LoadError, read};
use subtle::ConstantTimeEq;
use tokio::task::spawn_blocking;

use crate::field::is_token;
use crate::limits::{API_KEY_BYTES_MAX, API_KEY_NAME_BYTES_MAX, API_KEYS_MAX};

/// The file of one filter, and what was read of it last.
pub struct KeyFile {
    filter: String,
    path: PathBuf,
    /// As it was before it was read.
    watch: Watch,
    keys: RwLock<Arc<KeyList>>,
}

/// Names by the beginnings of hashes.
#[derive(Default)]
pub(super) struct KeyList(HashMap<Start, (KeyHash, Arc<str>)>);

type KeyHash = [u8; 32];
type Start = [u8; 8];

/// A key that nobody has yet.
pub struct NewKey {
    /// For its client.
    pub text: String,
    /// For the file: SHA-256 of the text, in hexadecimal.
    pub hash: String,
}

/// Tells keys of Steppe from others, for people and for scanners of secrets.
const PREFIX: &str = "stp_";

/// Random bytes of a key.
const RANDOM_BYTES: usize = 32;

impl NewKey {
    /// A random one of 256 bits.
    ///
    /// # Panics
    /// Where the system has no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        let mut random = [0; RANDOM_BYTES];
        let filled = SystemRandom::new().fill(&mut random);
        filled.expect("there are random numbers");
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random));
        let mut hash = String::new();
        for byte in hash_of(text.as_bytes()) {
            let _ = write!(hash, "{byte:02x}");
        }
        Self { text, hash }
    }
}

impl KeyFile {
    /// Reads the file at `path`, of the filter of this name.
    ///
    /// # Errors
    /// The file can't be used; the error names the line.
    pub(super) fn load(filter: &str, path: &Path) -> Result<Self, LoadError> {
        let watch = Watch::new([path.to_owned()]);
        Ok(Self {
            filter: filter.to_owned(),
            path: path.to_owned(),
            watch,
            keys: RwLock::new(Arc::new(KeyList::load(path)?)),
        })
    }

    /// A file without keys, where none was read.
    pub(super) fn empty() -> Self {
        Self {
            filter: String::new(),
            path: PathBuf::new(),
            watch: Watch::new(None),
            keys: RwLock::default(),
        }
    }

    /// The keys that are good now.
    pub(super) fn keys(&self) -> Arc<KeyList> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of keys that are good from now on.
    fn reread(&self) -> Result<usize, LoadError> {
        let read = KeyList::load(&self.path)?;
        let count = read.0.len();
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *keys = Arc::new(read);
        Ok(count)
    }
}

#[cfg(test)]
impl KeyFile {
    /// One with these lines, which does not change.
    pub(super) fn holding(text: &str) -> Self {
        let keys = KeyList::parse(text).expect("it is valid");
        Self {
            keys: RwLock::new(Arc::new(keys)),
            ..Self::empty()
        }
    }
}

/// Reads `file` again whenever it changes, for ever.
///
/// # Cancel safety
/// Safe: a reading that has begun ends by itself.
pub(crate) async fn keep_current(file: Arc<KeyFile>) {
    let mut watch = file.watch.clone();
    loop {
        watch.changed().await;
        let reading = Arc::clone(&file);
        let read = spawn_blocking(move || reading.reread()).await;
        // There is no outcome where the runtime ends.
        let Ok(read) = read else { return };
        let filter = file.filter.as_str();
        match read {
            Ok(keys) => tracing::info!(filter, keys, "changed API keys reloaded"),
            Err(error) => {
                let error = error.to_string();
                tracing::warn!(
                    filter,
                    error,
                    "cannot use the changed API keys: the previous ones stay in use"
                );
            }
        }
    }
}

impl KeyList {
    fn load(path: &Path) -> Result<Self, LoadError> {
        let bytes = read(path)?;
        let text = std::str::from_utf8(&bytes);
        let text = text.map_err(|_| LoadError::content(path, "not UTF-8 text"))?;
        Self::parse(text).map_err(|problem| LoadError::content(path, problem))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut keys = HashMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |problem: &str| format!("line {}: {problem}", number + 1);
            let (name, hash) = parse_line(line).map_err(wrong)?;
            // By chance, no two hashes begin alike.
            match keys.entry(start_of(&hash)) {
                Entry::Occupied(_) => return Err(wrong("duplicate key")),
                Entry::Vacant(place) => _ = place.insert((hash, Arc::from(name))),
            }
            if keys.len() > API_KEYS_MAX {
                return Err(wrong(&format!("more than {API_KEYS_MAX} keys")));
            }
        }
        match keys.is_empty() {
            true => Err("no keys in the file".to_owned()),
            false => Ok(Self(keys)),
        }
    }

    /// The name that this key has.
    ///
    /// The look-up takes a time that depends on the hash of what was sent. That tells nothing: who tries keys can't
    /// choose their hashes, and no hash leads back to a key. Whole hashes are compared in constant time all the same.
    pub(super) fn name_of(&self, key: &[u8]) -> Option<Arc<str>> {
        if key.len() > API_KEY_BYTES_MAX {
            return None;
        }
        let sent = hash_of(key);
        let (hash, name) = self.0.get(&start_of(&sent))?;
        bool::from(hash.ct_eq(&sent)).then(|| Arc::clone(name))
    }
}

/// `NAME SHA256-HEX`. What stands in the place of the hash may be a key, and is not shown.
fn parse_line(line: &str) -> Result<(&str, KeyHash), &'static str> {
    const FORM: &str = "expected NAME and the SHA-256 of its key, 64 hexadecimal digits";
    let (name, hash) = line.split_once([' ', '\t']).ok_or(FORM)?;
    if !is_token(name.as_bytes()) || name.len() > API_KEY_NAME_BYTES_MAX {
        return Err("a name consists of 1 to 128 letters, digits and !#$%&'*+-.^_`|~");
    }
    let hash = hash.trim_start();
    if hash.starts_with(PREFIX) {
        return Err(
            "a key stands in place of its SHA-256: make a new key, this one was written down",
        );
    }
    Ok((name, decode(hash).ok_or(FORM)?))
}

/// The bytes that 64 hexadecimal digits stand for.
fn decode(text: &str) -> Option<KeyHash> {
    let digit = |letter: u8| char::from(letter).to_digit(16);
    let mut hash = KeyHash::default();
    if text.len() != 2 * hash.len() {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::try_from(digit(digits[0])? << 4 | digit(digits[1])?).ok()?;
    }
    Some(hash)
}

fn hash_of(key: &[u8]) -> KeyHash {
    let mut hash = KeyHash::default();
    hash.copy_from_slice(digest(&SHA256, key).as_ref());
    hash
}

fn start_of(hash: &KeyHash) -> Start {
    *hash.first_chunk().expect("it is longer")
}

/// Names are shown elsewhere, keys nowhere.
impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("KeyFile");
        shown.field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steppe_testkit::Scratch;
    use tokio::runtime::Builder;
    use tokio::task::LocalSet;

    use super::*;

    /// `printf secret | sha256sum`.
    const SECRET: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn a_key_is_known_by_its_hash() {
        let new = NewKey::generate();
        let text = format!(
            "# clients\n\n  ci\t {}\r\nphone {}\nci {}\n",
            SECRET.to_uppercase(),
            new.hash,
            NewKey::generate().hash
        );
        let keys = KeyList::parse(&text).expect("it is valid");
        assert_eq!(keys.name_of(b"secret").as_deref(), Some("ci"));
        assert_eq!(keys.name_of(new.text.as_bytes()).as_deref(), Some("phone"));
        for unknown in [
            &b""[..],
            b"secret ",
            b"Secret",
            SECRET.as_bytes(),
            new.hash.as_bytes(),
        ] {
            assert_eq!(keys.name_of(unknown), None);
        }
    }

    fn load(folder: &Scratch) -> Result<KeyFile, LoadError> {
        KeyFile::load("clients", &folder.join("keys"))
    }

    #[test]
    fn a_changed_file_is_read_again_and_a_broken_one_is_not_used() {
        let folder = Scratch::new("api-keys");
        assert!(load(&folder).is_err(), "there is no file");
        folder.write("keys", format!("ci {SECRET}\n"));
        let file = Arc::new(load(&folder).expect("it is valid"));
        let name = || file.keys().name_of(b"secret");
        assert_eq!(name().as_deref(), Some("ci"));
        folder.write("keys", "ci secret\n");
        assert!(file.reread().is_err());
        assert_eq!(name().as_deref(), Some("ci"));
        let runtime = Builder::new_current_thread().enable_time().build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), async {
            let kept = tokio::task::spawn_local(keep_current(Arc::clone(&file)));
            folder.write("keys", format!("phone {SECRET}\n"));
            while name().as_deref() != Some("phone") {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            kept.abort();
        });
        assert_eq!(file.reread().ok(), Some(1));
    }

    #[test]
    fn a_hash_that_begins_like_another_is_another() {
        let other = format!("{}{}", &SECRET[..16], "0".repeat(48));
        let keys = KeyList::parse(&format!("ci {other}\n")).expect("it is valid");
        assert_eq!(keys.name_of(b"secret"), None);
    }

    #[test]
    fn a_key_that_is_too_long_is_not_hashed() {
        for (bytes, expected) in [
            (API_KEY_BYTES_MAX, Some("a")),
            (API_KEY_BYTES_MAX + 1, None),
        ] {
            let key = vec![b'x'; bytes];
            let hash: String = hash_of(&key)
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let keys = KeyList::parse(&format!("a {hash}")).expect("it is valid");
            assert_eq!(keys.name_of(&key).as_deref(), expected, "{bytes}");
        }
    }

    #[test]
    fn keys_are_random_and_long() {
        let (one, other) = (NewKey::generate(), NewKey::generate());
        assert!(
            one.text != other.text && one.text.starts_with(PREFIX),
            "{}",
            one.text
        );
        assert_eq!((one.text.len(), one.hash.len()), (PREFIX.len() + 43, 64));
        assert_eq!(format!("{one:?}"), "NewKey { .. }");
    }

    #[test]
    fn what_is_wrong_has_its_line_and_shows_no_key() {
        let new = NewKey::generate();
        let lines = (0..=API_KEYS_MAX).map(|at| format!("a {at:016x}{}\n", "0".repeat(48)));
        let many: String = lines.collect();
        let beyond = format!("line {0}: more than {API_KEYS_MAX}", API_KEYS_MAX + 1);
        let long = format!("{} {SECRET}", "a".repeat(API_KEY_NAME_BYTES_MAX + 1));
        for (text, expected) in [
            ("# nobody\n", "no keys in the file"),
            ("ci\n", "line 1: expected NAME"),
            ("\nci abc\n", "line 2: expected NAME"),
            (
                &*format!("ci {}zz\n", &SECRET[2..]),
                "line 1: expected NAME",
            ),
            (&*format!("ci {SECRET} x\n"), "line 1: expected NAME"),
            (&*format!("a:b {SECRET}\n"), "line 1: a name"),
            (&*long, "line 1: a name"),
            (
                &*format!("ci {SECRET}\nb {SECRET}"),
                "line 2: duplicate key",
            ),
            (&*format!("ci {}\n", new.text), "line 1: a key stands"),
            (&*many, &*beyond),
        ] {
            let problem = KeyList::parse(text).map(|_| ()).expect_err(expected);
            assert!(problem.starts_with(expected), "{problem}");
            assert!(
                !problem.contains(&new.text) && !problem.contains(&SECRET[..8]),
                "{problem}"
            );
        }
    }
}
