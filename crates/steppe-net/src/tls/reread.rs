//! Reloading of a listener's changed files.
//!
//! Files are polled every [`TLS_REREAD_EVERY`]: that works on every file system, through links that are
//! swapped (Kubernetes) and files that are replaced (ACME clients), where notifications are lost.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::outdated::Outdated;
use super::server::{ListenerTls, Reread};
use crate::clock;
use crate::limits::TLS_REREAD_EVERY;

/// Polls the files of `tls` forever, reloads changed ones, and logs the results.
///
/// # Cancel safety
/// Safe: a look that has begun ends by itself.
#[expect(
    clippy::disallowed_methods,
    reason = "the one task of a listener that looks at its files"
)]
pub async fn keep_current(tls: Arc<ListenerTls>) {
    let mut last = LastLogged::of(&tls);
    loop {
        sleep(TLS_REREAD_EVERY).await;
        let looking = Arc::clone(&tls);
        let looked = spawn_blocking(move || looking.reread(clock::now()));
        // There is no outcome where the runtime ends.
        let Ok(outcome) = looked.await else { return };
        last.log(tls.listener(), outcome);
        last.warn_of_outdated(&tls);
    }
}

/// Errors and certificates that were logged last.
#[derive(Debug, Default)]
struct LastLogged {
    error: Option<String>,
    outdated: Vec<Outdated>,
}

impl LastLogged {
    /// The certificates that [`ListenerTls::load`] has logged.
    fn of(tls: &ListenerTls) -> Self {
        Self {
            error: None,
            outdated: tls.outdated(),
        }
    }

    /// Warns once of each certificate that clients refuse by its dates: a new one, or one that has expired since.
    fn warn_of_outdated(&mut self, tls: &ListenerTls) {
        let outdated = tls.outdated();
        let unlogged = outdated.iter().filter(|each| !self.outdated.contains(each));
        unlogged.for_each(|each| each.warn(tls.listener()));
        self.outdated = outdated;
    }

    /// Logs a change, and each error once for as long as it lasts.
    fn log(&mut self, listener: &str, outcome: Reread) {
        match outcome {
            Reread::Unchanged => self.error = None,
            Reread::Changed(files) => {
                self.error = None;
                let files = names(&files);
                tracing::info!(listener, files, "changed TLS files reloaded");
            }
            Reread::Failed(error) => {
                let error = error.to_string();
                if self.error.as_ref() != Some(&error) {
                    tracing::error!(
                        listener,
                        error,
                        "cannot use the changed TLS files: the previous certificate stays in use"
                    );
                    self.error = Some(error);
                }
            }
        }
    }
}

fn names(files: &[PathBuf]) -> String {
    let names: Vec<_> = files.iter().map(|file| file.to_string_lossy()).collect();
    names.join(", ")
}
