//! `steppe top`: the admin page in a terminal.
//!
//! The command reads `/events` of a node's admin server on a thread of its own and draws the last
//! event. Invariant: the terminal is restored however the command ends, and bytes of peers reach it
//! only as printable text.

mod draw;
mod feed;
mod panels;
mod plain;
mod tables;
mod text;
mod view;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use anyhow::Context;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::admin_client::Target;
use feed::{Feed, Update};
use view::View;

/// The wait for a key before the feed is read again: short enough that an event shows at once.
const KEYS_TIMEOUT: Duration = Duration::from_millis(200);

/// The node to show.
#[derive(Debug)]
pub struct Options {
    /// `http://host:port`, `host:port`, `https://host:port` or `unix:/path`.
    pub admin: String,
    /// Trusted authorities for https. `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// The file with the token, if admin requires one.
    pub token_file: Option<PathBuf>,
    /// Print one snapshot and end.
    pub once: bool,
}

/// Shows a node until `q`. With `once`, or without a terminal, prints one snapshot.
///
/// # Errors
/// The node does not respond, the response is not a stream of events, or the terminal fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let target = Target::new(
        &options.admin,
        options.ca.as_deref(),
        options.token_file.as_deref(),
    )?;
    // A wrong address is an error of the command, not a screen that retries.
    let feed = Feed::start(target);
    let first = feed.first()?;
    let mut view = View::new(options.admin.clone());
    first.into_iter().for_each(|update| view.update(update));
    if options.once || !io::stdout().is_terminal() {
        return plain::print(&view).context("standard output");
    }
    let terminal = ratatui::try_init().context("the terminal")?;
    let outcome = show(terminal, &mut view, &feed.updates);
    // `ratatui::restore` panics if it cannot report its error.
    _ = ratatui::try_restore();
    outcome
}

fn show(
    mut terminal: DefaultTerminal,
    view: &mut View,
    updates: &Receiver<Update>,
) -> anyhow::Result<()> {
    let mut is_stale = true;
    loop {
        is_stale |= take_updates(view, updates);
        if is_stale {
            terminal.draw(|frame| draw::draw(frame, view))?;
        }
        is_stale = event::poll(KEYS_TIMEOUT)?;
        if is_stale && is_end(&event::read()?, view) {
            return Ok(());
        }
    }
}

/// Takes the updates; true if there was one.
fn take_updates(view: &mut View, updates: &Receiver<Update>) -> bool {
    let mut came = false;
    loop {
        match updates.try_recv() {
            Ok(update) => view.update(update),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => return came,
        }
        came = true;
    }
}

/// Handles a key; true ends the command.
fn is_end(event: &Event, view: &mut View) -> bool {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => is_end_key(*key, view),
        // A resize: the next frame has the new size.
        _ => false,
    }
}

fn is_end_key(key: KeyEvent, view: &mut View) -> bool {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('c') if is_control => return true,
        KeyCode::Esc if view.shows_help => view.shows_help = false,
        KeyCode::Char('q') | KeyCode::Esc => return true,
        KeyCode::Char('?' | 'h') => view.shows_help = !view.shows_help,
        KeyCode::Char('s') => view.sort = view.sort.next(),
        KeyCode::Tab => view.next_panel(),
        KeyCode::Up | KeyCode::Char('k') => scroll(view, -1),
        KeyCode::Down | KeyCode::Char('j') => scroll(view, 1),
        KeyCode::PageUp => scroll(view, -10),
        KeyCode::PageDown => scroll(view, 10),
        KeyCode::Home => scroll(view, isize::MIN),
        _ => {}
    }
    false
}

fn scroll(view: &mut View, rows: isize) {
    view.scroll(rows, tables::rows_that_scroll(view));
}

#[cfg(test)]
mod tests;
