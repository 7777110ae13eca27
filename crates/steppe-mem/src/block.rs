//! The memory of a buffer, in use or idle in a pool.

use memmap2::MmapMut;

use crate::account::Reservation;
use crate::alloc::{block_bytes, signed};
use crate::clients::count_pooled;
use crate::size_class::SizeClass;

/// Memory of one buffer, in use or idle.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) storage: Storage,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) class: SizeClass,
    /// The reservation of the block; `None` while it is idle.
    pub(crate) charge: Option<Reservation>,
}

/// Memory of one buffer.
#[derive(Debug)]
pub(crate) enum Storage {
    /// Heap memory, up to 256 KiB.
    Heap(Box<[u8]>),
    /// A mapping of its own above that, given back to the system when dropped.
    Mapped(MmapMut),
}

impl Block {
    pub(crate) fn new(class: SizeClass) -> Box<Self> {
        Box::new(Self {
            storage: Storage::new(class),
            start: 0,
            end: 0,
            class,
            charge: None,
        })
    }
}

impl Storage {
    pub(crate) fn new(class: SizeClass) -> Self {
        if class.is_mapped()
            && let Ok(mapping) = MmapMut::map_anon(class.bytes())
        {
            return Self::Mapped(mapping);
        }
        count_pooled(signed(block_bytes(class.bytes())));
        Self::Heap(vec![0; class.bytes()].into_boxed_slice())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if let Self::Heap(bytes) = self {
            count_pooled(-signed(block_bytes(bytes.len())));
        }
    }
}
