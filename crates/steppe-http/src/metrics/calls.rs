//! Calls of gRPC, by method and status.
//!
//! Invariant: a stranger can't make series. A name comes from a request, so it is checked, it is
//! learned only when a server has answered in a way that tells of such a method
//! ([`Code::tells_of_method`]), and there are [`GRPC_METHODS_MAX`] of them at most; every other call
//! counts under [`OTHER`].
//!
//! Names are in a table of all workers that only grows: to find one takes no lock and allocates
//! nothing. What is learned stays until the node ends, whatever the configuration.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use steppe_mem::{Lease, Reservation};
use steppe_telemetry::Counter;

use super::handle::Handle;
use crate::grpc::Code;
use crate::limits::{GRPC_METHOD_BYTES_MAX, GRPC_METHODS_MAX};

/// The service and the method of calls that have no series of their own.
const OTHER: &str = "other";

/// Places of the table: half of them stay free, so that a search is short.
const PLACES: usize = 2 * GRPC_METHODS_MAX;

/// Names that were learned, of all workers.
#[derive(Debug)]
pub(super) struct Methods {
    workers: usize,
    hasher: RandomState,
    /// Where there is no gRPC, there is no table.
    table: OnceLock<MethodTable>,
}

#[derive(Debug)]
struct MethodTable {
    /// By hash, or at the next free place.
    places: Box<[OnceLock<Name>]>,
    /// The number of places taken. Locked while one is being taken.
    learned: Mutex<usize>,
    _charge: Reservation,
}

/// A path: `/` service `/` method.
#[derive(Debug)]
struct Name {
    path: Box<str>,
    charge: Reservation,
}

/// A worker's counts.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CallCells {
    other: ByCode,
    /// By place in the table.
    methods: OnceLock<Box<[OnceLock<Box<ByCode>>]>>,
}

#[derive(Debug)]
struct ByCode([Counter; Code::ALL.len()]);

/// Counts calls.
#[derive(Debug, Clone)]
pub struct CallMetrics {
    cells: Handle<CallCells>,
    methods: Arc<Methods>,
}

/// The method of a call that is not counted yet.
#[derive(Debug)]
pub struct Called(Method);

#[derive(Debug)]
enum Method {
    /// At this place of the table.
    Known(usize),
    /// A name that may be learned.
    New(Name),
    Other,
}

impl Methods {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers,
            hasher: RandomState::new(),
            table: OnceLock::new(),
        }
    }

    /// Every method that has series, with its place, and what counts under [`OTHER`].
    pub(super) fn all(&self) -> impl Iterator<Item = (Option<usize>, (&str, &str))> {
        let places = self.table.get().into_iter().flat_map(|table| &table.places);
        let named = places.enumerate().filter_map(|(place, name)| {
            let parts = parts(name.get()?.path.as_bytes())?;
            Some((Some(place), parts))
        });
        named.chain([(None, (OTHER, OTHER))])
    }

    /// The place of `path`, or the free one where it belongs.
    fn search(&self, table: &MethodTable, path: &str) -> Result<usize, usize> {
        let hash = self.hasher.hash_one(path);
        let first = usize::try_from(hash % PLACES as u64).expect("below the number of places");
        for place in (first..PLACES).chain(0..first) {
            match table.places[place].get() {
                Some(name) if *name.path == *path => return Ok(place),
                Some(_) => {}
                None => return Err(place),
            }
        }
        unreachable!("half of the places stay free")
    }

    fn find(&self, path: &str) -> Option<usize> {
        self.search(self.table.get()?, path).ok()
    }

    fn has_room(&self) -> bool {
        self.table.get().is_none_or(|table| {
            let learned = table.learned.lock();
            *learned.unwrap_or_else(PoisonError::into_inner) < GRPC_METHODS_MAX
        })
    }

    /// Takes a place for `name`, as long as there are some and memory for it.
    fn learn(&self, name: Name) -> Option<usize> {
        let lease = name.charge.lease().clone();
        let table = match self.table.get() {
            Some(table) => table,
            None => {
                let table = MethodTable::new(self.workers, &lease)?;
                self.table.get_or_init(|| table)
            }
        };
        let learned = table.learned.lock();
        let mut learned = learned.unwrap_or_else(PoisonError::into_inner);
        let place = match self.search(table, &name.path) {
            // Another worker was faster.
            Ok(place) => return Some(place),
            Err(place) => place,
        };
        let mut name = name;
        let cells_bytes = self.workers * size_of::<ByCode>();
        if *learned == GRPC_METHODS_MAX || name.charge.try_grow(cells_bytes).is_err() {
            return None;
        }
        *learned += 1;
        table.places[place]
            .set(name)
            .expect("it is free, and the lock is held");
        Some(place)
    }
}

impl MethodTable {
    fn new(workers: usize, lease: &Lease) -> Option<Self> {
        let a_worker = PLACES * size_of::<OnceLock<Box<ByCode>>>();
        let bytes = PLACES * size_of::<OnceLock<Name>>() + workers * a_worker;
        let charge = lease.try_reserve(bytes).ok()?;
        Some(Self {
            places: std::iter::repeat_with(OnceLock::new).take(PLACES).collect(),
            learned: Mutex::default(),
            _charge: charge,
        })
    }
}

impl Default for ByCode {
    fn default() -> Self {
        Self([const { Counter::new() }; Code::ALL.len()])
    }
}

impl CallCells {
    /// Calls of the method at `place` that ended so; `None`: of those without series.
    pub(super) fn count(&self, place: Option<usize>, code: Code) -> u64 {
        let cells = match place {
            None => Some(&self.other),
            Some(place) => (self.methods.get())
                .and_then(|methods| methods[place].get())
                .map(|cells| &**cells),
        };
        cells.map_or(0, |cells| cells.0[code.index()].value())
    }

    fn of(&self, place: usize) -> &ByCode {
        let methods = self
            .methods
            .get_or_init(|| std::iter::repeat_with(OnceLock::new).take(PLACES).collect());
        methods[place].get_or_init(Box::default)
    }
}

impl CallMetrics {
    pub(super) fn new(cells: Handle<CallCells>, methods: Arc<Methods>) -> Self {
        Self { cells, methods }
    }

    /// A call of `path` begins. A name that may be learned is kept meanwhile, and charged to
    /// `lease` for good if it is.
    #[must_use]
    pub fn begin(&self, path: &[u8], lease: &Lease) -> Called {
        Called(self.method(path, lease).unwrap_or(Method::Other))
    }

    fn method(&self, path: &[u8], lease: &Lease) -> Option<Method> {
        parts(path)?;
        let path = std::str::from_utf8(path).ok()?;
        if let Some(place) = self.methods.find(path) {
            return Some(Method::Known(place));
        }
        if !self.methods.has_room() {
            return None;
        }
        Some(Method::New(Name {
            charge: lease.try_reserve(path.len()).ok()?,
            path: path.into(),
        }))
    }

    /// The call ended with `code`; `told` is what its server said, if it did.
    pub fn ended(&self, called: Called, code: Code, told: Option<Code>) {
        let is_there = told.is_some_and(Code::tells_of_method);
        let place = match called.0 {
            Method::Known(place) => Some(place),
            Method::New(name) if is_there => self.methods.learn(name),
            Method::New(_) | Method::Other => None,
        };
        let cells = &*self.cells.0;
        let by_code = place.map_or(&cells.other, |place| cells.of(place));
        by_code.0[code.index()].increment();
    }
}

/// Service and method of a path, if it is one of gRPC that may be a label.
fn parts(path: &[u8]) -> Option<(&str, &str)> {
    if path.len() > GRPC_METHOD_BYTES_MAX {
        return None;
    }
    let path = std::str::from_utf8(path.strip_prefix(b"/")?).ok()?;
    let (service, method) = path.split_once('/')?;
    // Protocol buffers have no others; the hyphen is for those who write names by hand.
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    (is_name(service) && is_name(method)).then_some((service, method))
}

#[cfg(test)]
mod tests {
    use steppe_mem::Budget;

    use super::*;
    use crate::metrics::{HttpMetrics, Labels};

    /// Says how a call ended, and what its server had said.
    fn call(calls: &CallMetrics, path: &str, code: Code, told: Option<Code>) {
        let budget = Budget::new(1 << 20);
        let called = calls.begin(path.as_bytes(), &budget.root().lease());
        calls.ended(called, code, told);
    }

    fn lines(metrics: &Arc<HttpMetrics>) -> Vec<String> {
        let mut registry = steppe_telemetry::Registry::default();
        registry.register_collector(metrics.collector());
        let text = steppe_telemetry::encode::exposition(&registry).expect("a string takes it");
        let ours = text.lines().filter(|line| line.starts_with("steppe_grpc"));
        ours.map(str::to_owned).collect()
    }

    #[test]
    fn paths_of_grpc_have_a_service_and_a_method() {
        for (path, expected) in [
            ("/a.b.C/Get", Some(("a.b.C", "Get"))),
            (
                "/grpc.health.v1.Health/Check",
                Some(("grpc.health.v1.Health", "Check")),
            ),
            ("/a_1-x/b", Some(("a_1-x", "b"))),
            ("", None),
            ("/", None),
            ("//", None),
            ("/a", None),
            ("/a/", None),
            ("/a/b/c", None),
            ("a/b", None),
            ("/a/b\"} 1", None),
            ("/a/%0A", None),
            ("/ä/b", None),
        ] {
            assert_eq!(parts(path.as_bytes()), expected, "{path}");
        }
        let long = format!("/{}/b", "a".repeat(GRPC_METHOD_BYTES_MAX - 3));
        assert!(parts(long.as_bytes()).is_some());
        assert!(parts(format!("{long}b").as_bytes()).is_none());
        assert!(parts(b"/a/\xff").is_none());
    }

    #[test]
    fn calls_of_all_workers_count_under_names_that_servers_know() {
        let metrics = HttpMetrics::new(Labels::default(), 2);
        let (one, other) = (metrics.worker(0).calls(), metrics.worker(1).calls());
        call(&one, "/a.B/Get", Code::Ok, Some(Code::Ok));
        call(&other, "/a.B/Get", Code::Ok, Some(Code::Ok));
        call(&other, "/a.B/Get", Code::Unavailable, None);
        call(&one, "/a.B/Put", Code::NotFound, Some(Code::NotFound));
        for code in Code::ALL.into_iter().filter(|code| !code.tells_of_method()) {
            call(&one, "/no/such", code, Some(code));
        }
        call(&one, "/no/such", Code::Cancelled, None);
        call(&one, "/a.B/Get?", Code::Ok, Some(Code::Ok));
        let mut lines = lines(&metrics);
        lines.sort();
        let sample = |service, method, status, count: u64| {
            format!(
                "steppe_grpc_calls_total{{service=\"{service}\",method=\"{method}\",\
                 status=\"{status}\"}} {count}"
            )
        };
        assert_eq!(
            lines,
            [
                sample("a.B", "Get", "OK", 2),
                sample("a.B", "Get", "UNAVAILABLE", 1),
                sample("a.B", "Put", "NOT_FOUND", 1),
                sample("other", "other", "CANCELLED", 1),
                sample("other", "other", "OK", 1),
                sample("other", "other", "PERMISSION_DENIED", 1),
                sample("other", "other", "RESOURCE_EXHAUSTED", 1),
                sample("other", "other", "UNAUTHENTICATED", 1),
                sample("other", "other", "UNAVAILABLE", 1),
                sample("other", "other", "UNIMPLEMENTED", 1),
            ]
        );
    }

    #[test]
    fn names_are_bounded_charged_and_outlive_a_reload() {
        let budget = Budget::new(1 << 20);
        let metrics = HttpMetrics::new(Labels::default(), 1);
        let calls = metrics.worker(0).calls();
        let get = |path: &str| {
            let called = calls.begin(path.as_bytes(), &budget.root().lease());
            calls.ended(called, Code::Ok, Some(Code::Ok));
        };
        assert_eq!(budget.root().reserved_bytes(), 0, "no gRPC, no table");
        (0..2 * GRPC_METHODS_MAX).for_each(|at| get(&format!("/a/m{at}")));
        let reserved = budget.root().reserved_bytes();
        let least = GRPC_METHODS_MAX * size_of::<ByCode>();
        assert!(reserved >= least as u64, "{reserved}");
        (0..2 * GRPC_METHODS_MAX).for_each(|at| get(&format!("/a/m{at}")));
        assert_eq!(budget.root().reserved_bytes(), reserved, "nothing more");
        metrics.relabel(Labels::default());
        let lines = lines(&metrics);
        assert_eq!(lines.len(), GRPC_METHODS_MAX + 1);
        let others = format!("status=\"OK\"}} {}", 2 * GRPC_METHODS_MAX);
        let is_other = |line: &&String| line.contains("service=\"other\"");
        let other = lines.iter().find(is_other).expect("they are counted");
        assert!(other.ends_with(&others), "{other}");
    }

    #[test]
    fn without_memory_calls_count_as_others() {
        let metrics = HttpMetrics::new(Labels::default(), 1);
        let calls = metrics.worker(0).calls();
        let budget = Budget::new(1);
        let called = calls.begin(b"/a/b", &budget.root().lease());
        calls.ended(called, Code::Ok, Some(Code::Ok));
        let lines = lines(&metrics);
        assert!(lines.len() == 1 && lines[0].contains("other"), "{lines:?}");
    }
}
