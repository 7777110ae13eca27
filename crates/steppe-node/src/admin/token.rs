//! The bearer token for access to admin beyond loopback.
//!
//! Invariant: the token is compared in constant time and never shown, by `Debug` or in an error.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use subtle::ConstantTimeEq;

use super::limits::TOKEN_BYTES_MAX;

/// A token, the credentials after `Bearer`.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

/// The reason why a file has no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file has nothing but white space.
    #[error("token file \"{}\" is empty", .0.display())]
    Empty(PathBuf),
    /// The file is larger than any token.
    #[error("token file \"{}\" has more than {TOKEN_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// The text has characters that a field value can't carry (RFC 6750 §2.1).
    #[error("token file \"{}\" has characters that a bearer token cannot have", .0.display())]
    NotAToken(PathBuf),
}

impl Token {
    /// Reads a token file; white space around the token is ignored.
    ///
    /// # Errors
    /// [`TokenError`]
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.permissions().mode();
        if mode & 0o004 != 0 {
            tracing::warn!(file = %path.display(), "the admin token file is readable by every user");
        }
        let mut bytes = Vec::new();
        file.take(TOKEN_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if bytes.len() as u64 > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLarge(path.to_owned()));
        }
        let token = bytes.trim_ascii();
        if token.is_empty() {
            return Err(TokenError::Empty(path.to_owned()));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err(TokenError::NotAToken(path.to_owned()));
        }
        Ok(Self(token.into()))
    }

    /// True if an `Authorization` value carries this token. The time may reveal the token's length,
    /// but not its content.
    #[must_use]
    pub fn opens(&self, authorization: &[u8]) -> bool {
        let Some((scheme, credentials)) = authorization.split_at_checked(SCHEME.len()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(SCHEME) && bool::from(credentials.trim_ascii().ct_eq(&self.0))
    }
}

/// The authentication scheme; schemes are case-insensitive (RFC 9110 §11.1).
const SCHEME: &[u8] = b"bearer ";

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::tests::TempDir;

    fn token(content: &[u8]) -> Result<Token, TokenError> {
        let dir = TempDir::new();
        let path = dir.path().join("admin.token");
        std::fs::write(&path, content).expect("a temporary directory is writable");
        Token::read(&path)
    }

    #[test]
    fn white_space_around_it_is_ignored() {
        let token = token(b"\n s3cret/+=._~-\r\n").expect("a token");
        assert!(token.opens(b"Bearer s3cret/+=._~-"));
        assert!(token.opens(b"bearer  s3cret/+=._~-"));
        assert!(!format!("{token:?}").contains("s3cret"));
    }

    #[test]
    fn anything_else_does_not_open() {
        let token = token(b"s3cret").expect("a token");
        let closed: [&[u8]; 7] = [
            b"",
            b"Bearer",
            b"Bearer ",
            b"Bearer s3cre",
            b"Bearer s3cret2",
            b"Basic s3cret",
            b"s3cret",
        ];
        for authorization in closed {
            assert!(
                !token.opens(authorization),
                "{}",
                authorization.escape_ascii()
            );
        }
    }

    #[test]
    fn what_is_no_token_is_refused_without_showing_it() {
        assert!(matches!(token(b" \n"), Err(TokenError::Empty(_))));
        assert!(matches!(
            token(&[b'a'; 5_000]),
            Err(TokenError::TooLarge(_))
        ));
        let refused = token(b"two words").expect_err("a space is no token character");
        assert!(matches!(refused, TokenError::NotAToken(_)));
        assert!(!refused.to_string().contains("two"));
        let missing = Token::read(Path::new("/nonexistent/token")).expect_err("no such file");
        assert!(
            missing
                .to_string()
                .starts_with("cannot read /nonexistent/token: ")
        );
    }
}
