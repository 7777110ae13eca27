//! The folder of a run: its files, how they are written and read again.
//!
//! ```text
//! manifest.json  epochs.csv  samples.csv  <variant>-<run>.hlog  verdict.json
//! metrics.csv (of targets that have metrics)  report.md  report.html  junit.xml  summary.md  logs/
//! ```
//!
//! `.hlog` is the log format of HdrHistogram (one interval an epoch, a tag a load), which its tools
//! read. Rows are written when they come: a run that is killed keeps what it has seen.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Epoch, Manifest, MetricRow, Sample, Verdict};

/// A folder that a run is written to.
pub struct Folder {
    path: PathBuf,
    epochs: csv::Writer<File>,
    samples: csv::Writer<File>,
}

/// Everything of a folder but its samples, which may be many ([`Folder::samples`]).
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRun {
    pub path: PathBuf,
    pub manifest: Manifest,
    pub epochs: Vec<Epoch>,
    /// `None`: the run was killed before it could judge.
    pub verdict: Option<Verdict>,
}

/// Why a folder can't be written or read.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// A second run in the same folder would bury the first.
    #[error("{0} already contains a run")]
    Taken(PathBuf),
    /// The folder is not empty, and has no `manifest.json`.
    #[error("{0} is not empty, and contains no run")]
    NotOurs(PathBuf),
    /// There is no `manifest.json`.
    #[error("{0} contains no run (no manifest.json)")]
    NoRun(PathBuf),
    #[error("can't write {path}")]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("can't read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file exists, and can't be parsed.
    #[error("{path} is damaged: {reason}")]
    Damaged { path: PathBuf, reason: String },
}

impl Folder {
    /// Makes a folder for a new run.
    ///
    /// # Errors
    /// When the folder is not empty, or can't be written.
    pub fn create(path: &Path) -> Result<Self, FolderError> {
        if path.join(MANIFEST).exists() {
            return Err(FolderError::Taken(path.to_owned()));
        }
        let is_used = fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some());
        if is_used {
            return Err(FolderError::NotOurs(path.to_owned()));
        }
        let logs = path.join(LOGS);
        fs::create_dir_all(&logs).map_err(|source| FolderError::Write { path: logs, source })?;
        Ok(Self {
            path: path.to_owned(),
            epochs: rows(&path.join(EPOCHS))?,
            samples: rows(&path.join(SAMPLES))?,
        })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file for the output of a process of the run.
    pub fn log_path(&self, name: &str) -> PathBuf {
        self.path
            .join(LOGS)
            .join(format!("{}.log", file_name(name)))
    }

    /// Adds a row to `epochs.csv`, and flushes it and all rows of samples so far.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_epoch(&mut self, epoch: &Epoch) -> Result<(), FolderError> {
        let path = self.path.join(EPOCHS);
        write_row(&mut self.epochs, &path, epoch)?;
        self.epochs
            .flush()
            .map_err(|source| FolderError::Write { path, source })?;
        let path = self.path.join(SAMPLES);
        self.samples
            .flush()
            .map_err(|source| FolderError::Write { path, source })
    }

    /// Adds a row to `samples.csv`; the next [`Folder::write_epoch`] flushes it.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_sample(&mut self, sample: &Sample) -> Result<(), FolderError> {
        write_row(&mut self.samples, &self.path.join(SAMPLES), sample)
    }

    /// Adds rows to `metrics.csv`, which exists only for targets that have metrics.
    ///
    /// # Errors
    /// When they can't be written.
    pub fn write_metrics(&self, rows: &[MetricRow]) -> Result<(), FolderError> {
        if rows.is_empty() {
            return Ok(());
        }
        let path = self.path.join(METRICS);
        let write = || -> io::Result<()> {
            let is_new = !path.exists();
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            let mut writer = csv::WriterBuilder::new()
                .has_headers(is_new)
                .from_writer(file);
            for row in rows {
                writer.serialize(row).map_err(io::Error::other)?;
            }
            writer.flush()
        };
        write().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })
    }

    /// Adds an epoch's histogram (response times in microseconds) to the log of its run.
    ///
    /// # Errors
    /// When it can't be written.
    #[expect(clippy::too_many_arguments, reason = "older than the limit")]
    pub fn write_histogram(
        &self,
        run: (&str, u32),
        load: &str,
        interval: (Duration, Duration),
        histogram: &Histogram<u64>,
    ) -> Result<(), FolderError> {
        let (variant, number) = run;
        let path = self
            .path
            .join(format!("{}-{number}.hlog", file_name(variant)));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            let mut serializer = V2DeflateSerializer::new();
            let mut log =
                IntervalLogWriterBuilder::new().begin_log_with(&mut file, &mut serializer)?;
            let tag = file_name(load);
            log.write_histogram(histogram, interval.0, interval.1, Tag::new(&tag))
                .map_err(|error| io::Error::other(error.to_string()))
        };
        write().map_err(|source| FolderError::Write {
            path: path.clone(),
            source,
        })
    }

    /// Replaces `manifest.json`, whole or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), FolderError> {
        write_json(&self.path.join(MANIFEST), manifest)
    }

    /// Replaces `verdict.json`, whole or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write_verdict(&self, verdict: &Verdict) -> Result<(), FolderError> {
        write_json(&self.path.join(VERDICT), verdict)
    }

    /// Reads the folder of a run, without its samples.
    ///
    /// # Errors
    /// Where there is no run, or its files are damaged.
    pub fn load(path: &Path) -> Result<LoadedRun, FolderError> {
        let manifest = path.join(MANIFEST);
        if !manifest.exists() {
            return Err(FolderError::NoRun(path.to_owned()));
        }
        let verdict = path.join(VERDICT);
        Ok(LoadedRun {
            path: path.to_owned(),
            manifest: read_json(&manifest)?,
            epochs: whole_rows(read_rows(&path.join(EPOCHS))?.collect())?,
            verdict: verdict.exists().then(|| read_json(&verdict)).transpose()?,
        })
    }

    /// The rows of `samples.csv`, one after the other.
    ///
    /// # Errors
    /// When the file can't be opened; each row says for itself whether it can be read.
    pub fn samples(
        path: &Path,
    ) -> Result<impl Iterator<Item = Result<Sample, FolderError>>, FolderError> {
        read_rows(&path.join(SAMPLES))
    }
}

/// All rows but a last one that is damaged: a run that was killed may have cut it short.
fn whole_rows<T>(mut rows: Vec<Result<T, FolderError>>) -> Result<Vec<T>, FolderError> {
    if rows.last().is_some_and(Result::is_err) {
        rows.pop();
    }
    rows.into_iter().collect()
}

/// Puts a file of text (a report) into a run's folder, whole or not at all.
///
/// # Errors
/// When it can't be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), FolderError> {
    let written = || -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let mut file = File::create(&name)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&name, path)
    };
    written().map_err(|source| FolderError::Write {
        path: path.to_owned(),
        source,
    })
}

fn rows(path: &Path) -> Result<csv::Writer<File>, FolderError> {
    let file = File::create(path).map_err(|source| FolderError::Write {
        path: path.to_owned(),
        source,
    })?;
    Ok(csv::Writer::from_writer(file))
}

fn write_row<T: Serialize>(
    rows: &mut csv::Writer<File>,
    path: &Path,
    row: &T,
) -> Result<(), FolderError> {
    rows.serialize(row).map_err(|error| FolderError::Write {
        path: path.to_owned(),
        source: io::Error::other(error.to_string()),
    })
}

fn read_rows<T: DeserializeOwned>(
    path: &Path,
) -> Result<impl Iterator<Item = Result<T, FolderError>> + use<T>, FolderError> {
    let file = open(path)?;
    let path = path.to_owned();
    let damaged = move |error: csv::Error| FolderError::Damaged {
        path: path.clone(),
        reason: error.to_string(),
    };
    Ok(csv::Reader::from_reader(file)
        .into_deserialize()
        .map(move |row| row.map_err(&damaged)))
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FolderError> {
    let mut text = serde_json::to_string_pretty(value).map_err(|error| FolderError::Write {
        path: path.to_owned(),
        source: io::Error::other(error),
    })?;
    text.push('\n');
    write_text(path, &text)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let text = io::read_to_string(open(path)?).map_err(|source| FolderError::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_str(&text).map_err(|error| FolderError::Damaged {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Opens a regular file only: opening a pipe would block, and a device has no end.
fn open(path: &Path) -> Result<File, FolderError> {
    let failed = |source| FolderError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Err(FolderError::Damaged {
            path: path.to_owned(),
            reason: "not a regular file".to_owned(),
        });
    }
    File::open(path).map_err(failed)
}

/// A variant's or load's name as part of a file's name.
pub fn file_name(name: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    name.chars().map(plain).collect()
}

const MANIFEST: &str = "manifest.json";
const EPOCHS: &str = "epochs.csv";
const METRICS: &str = "metrics.csv";
const SAMPLES: &str = "samples.csv";
const VERDICT: &str = "verdict.json";
const LOGS: &str = "logs";

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("steppe-lab-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn rows_come_back_as_they_went() {
        let path = fresh("rows");
        let mut folder = Folder::create(&path).unwrap();
        let epoch = Epoch {
            variant: "two, \"arenas\"".to_owned(),
            rss_bytes: Some(4096),
            p99_us: Some(1.5),
            ..Epoch::default()
        };
        folder.write_epoch(&epoch).unwrap();
        let sample = Sample {
            at_ms: 7,
            rss_bytes: Some(1),
            ..Sample::default()
        };
        folder.write_sample(&sample).unwrap();
        folder.write_epoch(&Epoch::default()).unwrap();
        let epochs: Vec<Epoch> = read_rows(&path.join(EPOCHS))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(epochs, [epoch, Epoch::default()]);
        let samples: Vec<Sample> = Folder::samples(&path)
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(samples, [sample]);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_not_opened() {
        let devices = Path::new("/dev/null");
        let json = read_json::<Manifest>(devices).unwrap_err().to_string();
        let rows = read_rows::<Epoch>(devices).err().unwrap().to_string();
        for error in [json, rows] {
            assert!(error.ends_with("not a regular file"), "{error}");
        }
    }

    #[test]
    fn a_second_run_is_refused() {
        let path = fresh("second");
        let folder = Folder::create(&path).unwrap();
        assert!(matches!(
            Folder::create(&path),
            Err(FolderError::NotOurs(_))
        ));
        write_text(&folder.path().join(MANIFEST), "{}").unwrap();
        assert!(matches!(Folder::create(&path), Err(FolderError::Taken(_))));
        fs::remove_dir_all(&path).unwrap();
    }
}
