//! Names that servers take for one: those that hand fields on as variables (CGI, RFC 3875 §4.1.18) read
//! `X_User` as `X-User`.

/// True if such a server takes two names for one: they differ at most in case, and in underscores for hyphens.
pub(super) fn is_alias(left: &[u8], right: &[u8]) -> bool {
    let fold = |byte: &u8| match byte {
        b'_' => b'-',
        byte => byte.to_ascii_lowercase(),
    };
    left.len() == right.len() && left.iter().map(fold).eq(right.iter().map(fold))
}
