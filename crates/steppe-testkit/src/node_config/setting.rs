//! Values that a key of a configuration can have.

use std::net::SocketAddr;
use std::path::Path;

use toml::{Table, Value};

/// A value of a configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting(Value);

impl From<Setting> for Value {
    fn from(setting: Setting) -> Self {
        setting.0
    }
}

impl From<&str> for Setting {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Setting {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Setting {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<&Path> for Setting {
    fn from(path: &Path) -> Self {
        path.to_string_lossy().into_owned().into()
    }
}

impl From<SocketAddr> for Setting {
    fn from(address: SocketAddr) -> Self {
        address.to_string().into()
    }
}

impl From<bool> for Setting {
    fn from(value: bool) -> Self {
        Self(value.into())
    }
}

impl From<i32> for Setting {
    fn from(number: i32) -> Self {
        Self(number.into())
    }
}

impl From<u16> for Setting {
    fn from(number: u16) -> Self {
        i32::from(number).into()
    }
}

impl From<usize> for Setting {
    /// # Panics
    /// When it is above what TOML can say.
    fn from(number: usize) -> Self {
        let number = i64::try_from(number).expect("TOML's integers have 64 bits and a sign");
        Self(number.into())
    }
}

impl From<Table> for Setting {
    fn from(table: Table) -> Self {
        Self(table.into())
    }
}

impl<T: Into<Setting>> From<Vec<T>> for Setting {
    fn from(list: Vec<T>) -> Self {
        let values = list.into_iter().map(|item| item.into().0);
        Self(Value::Array(values.collect()))
    }
}

impl<T: Into<Setting>, const N: usize> From<[T; N]> for Setting {
    fn from(list: [T; N]) -> Self {
        Vec::from(list).into()
    }
}

impl<T: Clone + Into<Setting>> From<&[T]> for Setting {
    fn from(list: &[T]) -> Self {
        list.to_vec().into()
    }
}
