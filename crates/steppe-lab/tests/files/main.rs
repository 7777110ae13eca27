//! Files that people write and read: scenarios, and the reports of runs.

mod chromium;
mod documents;
mod page;
mod runs;
mod scenario;
mod texts;
