//! Go: the text form of `net/http/pprof` (`debug=1`), which names functions and lines itself.
//!
//! Source: `runtime/pprof` (`writeHeapInternal`, `printCountProfile`). The heap is sampled; the binary form
//! is scaled up by Go, the text is not, so it is scaled here in the same way (`scaleHeapSample`).

use super::{Amount, Kind, Profile, ProfileError};

/// Adds the memory in use by a heap profile.
///
/// # Errors
/// Where the text is no heap profile.
pub fn heap(text: &str, profile: &mut Profile) -> Result<(), ProfileError> {
    let not_one = || ProfileError::Format("a heap profile of Go (text, debug=1)");
    let head = text
        .lines()
        .next()
        .filter(|head| head.starts_with("heap profile: "));
    // The head has twice the mean number of bytes between samples.
    let period = head.and_then(|head| head.rsplit_once("@ heap/")?.1.trim().parse().ok());
    let rate: f64 = period.ok_or_else(not_one)?;
    for record in records(text) {
        // `OBJECTS: BYTES [ALLOCATED: BYTES] @ ADDRESSES`
        let (in_use, _) = record.head.split_once('[').ok_or_else(not_one)?;
        let (count, bytes) = in_use.split_once(':').ok_or_else(not_one)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| not_one());
        let (count, bytes) = scaled(number(count)?, number(bytes)?, rate / 2.0);
        let amount = Amount {
            bytes: Some(bytes),
            count: Some(count),
        };
        if let Some(site) = record.site() {
            profile.add(Kind::Heap, &site, amount);
        }
    }
    Ok(())
}

/// Adds the number of goroutines at each site.
///
/// # Errors
/// Where the text is no profile of goroutines.
pub fn goroutines(text: &str, profile: &mut Profile) -> Result<(), ProfileError> {
    let not_one = || ProfileError::Format("a goroutine profile of Go (text, debug=1)");
    if !text.starts_with("goroutine profile: total ") {
        return Err(not_one());
    }
    for record in records(text) {
        // `COUNT @ ADDRESSES`
        let (count, _) = record.head.split_once('@').ok_or_else(not_one)?;
        let count = count.trim().parse().map_err(|_| not_one())?;
        let amount = Amount {
            bytes: None,
            count: Some(count),
        };
        if let Some(site) = record.site() {
            profile.add(Kind::Goroutines, &site, amount);
        }
    }
    Ok(())
}

/// A line of figures, and the frames below it.
struct Record<'a> {
    head: &'a str,
    /// Function, then file and line, innermost frame first.
    frames: Vec<(&'a str, &'a str)>,
}

impl Record<'_> {
    /// `FUNCTION (FILE:LINE)` of the innermost frame that is not of Go's own library, else of the innermost.
    fn site(&self) -> Option<String> {
        let own = self.frames.iter().find(|(function, _)| is_own(function));
        let (function, place) = own.or(self.frames.first())?;
        Some(format!("{function} ({place})"))
    }
}

fn records(text: &str) -> impl Iterator<Item = Record<'_>> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let is_head = |line: &&str| line.starts_with(|first: char| first.is_ascii_digit());
        let head = lines.find(is_head)?;
        let mut frames = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with('#')) {
            frames.extend(frame(line));
        }
        Some(Record { head, frames })
    })
}

/// `#  0xADDRESS  FUNCTION+0xOFFSET  FILE:LINE`, set apart by tabs. A line of labels is no frame.
fn frame(line: &str) -> Option<(&str, &str)> {
    let mut fields = line.split('\t').filter(|field| !field.is_empty());
    let (_, _, function) = (fields.next()?, fields.next()?, fields.next()?);
    let place = fields.next()?;
    let function = function
        .rsplit_once("+0x")
        .map_or(function, |(name, _)| name);
    Some((function, place))
}

/// True for functions outside Go's own library: `go.uber.org/zap.New`, not `net/http.(*conn).serve`.
fn is_own(function: &str) -> bool {
    let path_end = function.find(['(', '[']).unwrap_or(function.len());
    let path = &function[..path_end];
    let first = match path.split_once('/') {
        Some((first, _)) => first,
        None => path.split('.').next().unwrap_or_default(),
    };
    !LIBRARY.contains(&first)
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate, and a float saturates"
)]
fn scaled(count: u64, bytes: u64, rate: f64) -> (u64, u64) {
    if count == 0 || bytes == 0 || rate <= 1.0 {
        return (count, bytes);
    }
    // A sample is taken once in `rate` bytes on average: divide by the probability that an object of this
    // size is sampled.
    let mean = bytes as f64 / count as f64;
    let scale = 1.0 / (1.0 - (-mean / rate).exp());
    let scale = |number: u64| (number as f64 * scale) as u64;
    (scale(count), scale(bytes))
}

/// First elements of the paths of Go's own packages (`go list std`, 1.26).
const LIBRARY: [&str; 50] = [
    "archive",
    "bufio",
    "bytes",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "vendor",
    "weak",
];

#[cfg(test)]
mod tests {
    use super::*;

    const HEAP: &str = include_str!("../../testdata/profiles/go-heap.txt");
    const GOROUTINES: &str = include_str!("../../testdata/profiles/go-goroutines.txt");

    fn told(read: fn(&str, &mut Profile) -> Result<(), ProfileError>, text: &str) -> Vec<String> {
        let mut profile = Profile::default();
        read(text, &mut profile).unwrap();
        let grown = Profile::default().grown(&profile, 3);
        grown
            .iter()
            .map(|it| format!("{:?} {:?} {}", it.bytes, it.count, it.site))
            .collect()
    }

    #[test]
    fn goroutines_are_told_by_the_line_of_the_program() {
        assert_eq!(
            told(goroutines, GOROUTINES),
            ["None Some(1200) main.main.func1.1 (example.com/shop/main.go:10)"]
        );
    }

    #[test]
    fn what_the_heap_holds_is_scaled_up_from_samples() {
        assert_eq!(
            told(heap, HEAP),
            [
                "Some(4202501) Some(2052) main.remember (example.com/shop/main.go:5)",
                "Some(1048688) Some(9363) main.main.func1.1 (example.com/shop/main.go:10)"
            ]
        );
    }

    #[test]
    fn functions_of_the_library_are_told_apart() {
        for library in [
            "runtime.gopark",
            "net/http.(*conn).serve",
            "slices.Grow[main.T]",
        ] {
            assert!(!is_own(library), "{library}");
        }
        for own in [
            "main.main.func1.1",
            "go.uber.org/zap.(*Logger).Info",
            "shop/cart.Add",
        ] {
            assert!(is_own(own), "{own}");
        }
    }

    #[test]
    fn what_is_no_profile_is_refused() {
        let mut profile = Profile::default();
        let page = "<html>404</html>";
        assert!(heap(page, &mut profile).is_err());
        assert!(goroutines(page, &mut profile).is_err());
        assert!(heap("heap profile: 1: 2 [3: 4] @ heap/x", &mut profile).is_err());
        let cut = "heap profile: 1: 2 [3: 4] @ heap/1048576\n12: 3";
        assert!(heap(cut, &mut profile).is_err());
        assert!(profile.is_empty());
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[0-9:@#\\[\\]\\n\\ta-z./+ ]{0,200}") {
            let mut profile = Profile::default();
            _ = heap(&format!("heap profile: 1: 2 [3: 4] @ heap/1048576\n{text}"), &mut profile);
            _ = goroutines(&format!("goroutine profile: total 1\n{text}"), &mut profile);
        }
    }
}
