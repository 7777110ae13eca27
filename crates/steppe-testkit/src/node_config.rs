//! A node's configuration as a tree, which tests build and change key by key, and which prints TOML.
//!
//! Every key is reachable by its path with [`NodeConfig::set`] and [`Section::set`]; what is common has a method
//! of its own. `{gateway}`, `{admin}`, `{scratch}` and the names given to [`SteppeBuilder::with`] stay as they are:
//! the builder replaces them when it writes the file.
//!
//! Invariant: an edit never misses. An edit of a listener, upstream, route or filter that is absent panics, and so
//! does adding one twice; a misspelled key is a new one, which the node refuses.
//!
//! Leaves out: which keys and values the node knows. Mistakes in a file's text are tested with raw TOML.
//!
//! [`SteppeBuilder::with`]: crate::SteppeBuilder::with

mod section;
mod setting;
mod tree;

use std::fmt;

use toml::Table;

pub use section::Section;
pub use setting::Setting;
use tree::Element;

/// A configuration of a node.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeConfig {
    root: Table,
}

impl NodeConfig {
    /// One worker, 64 MiB, admin, a log, and a listener at `{gateway}` that speaks HTTP/1.1; neither an upstream nor a
    /// route.
    pub fn bare() -> Self {
        Self::default()
            .set("node.workers", 1)
            .set("node.memory_budget", "64MiB")
            .set("node.drain_timeout", "10s")
            .set("admin.listen", "{admin}")
            .set("log.level", "info")
            .set("log.format", "text")
            .add_listener("{gateway}", |l| l.protocols(["h1"]))
    }

    /// [`NodeConfig::bare`] with the upstream `origin`, which is the server `{origin}`, and the route `all` to it.
    pub fn plain() -> Self {
        Self::bare()
            .add_upstream("origin", |u| u.servers(["{origin}"]))
            .add_route("all", |r| r.path("/{rest*}").upstream("origin"))
    }

    /// The configuration that `toml` is.
    ///
    /// # Panics
    /// When it isn't TOML.
    #[track_caller]
    pub fn parse(toml: &str) -> Self {
        Self {
            root: tree::parse(toml),
        }
    }

    /// Sets the key at a path such as `log.access.file`, with the tables on the way; a value that stands there is
    /// replaced.
    ///
    /// # Panics
    /// When something on the way isn't a table, or is an upstream or a filter that is absent.
    #[must_use]
    #[track_caller]
    pub fn set(mut self, path: &str, value: impl Into<Setting>) -> Self {
        if let Some(named) = named_table(path) {
            tree::expect_table(&mut self.root, named);
        }
        tree::set(&mut self.root, path, value.into().into());
        self
    }

    /// Removes the key at `path`.
    ///
    /// # Panics
    /// When it is absent.
    #[must_use]
    #[track_caller]
    pub fn remove(mut self, path: &str) -> Self {
        tree::remove(&mut self.root, path);
        self
    }

    /// Changes each table of the list at `path`, such as `dns.listener`.
    ///
    /// # Panics
    /// When there is no such list, or an element isn't a table.
    #[must_use]
    #[track_caller]
    pub fn each(mut self, path: &str, change: impl Fn(Section) -> Section) -> Self {
        for table in tree::expect_tables(&mut self.root, path) {
            Section::change(table, &change);
        }
        self
    }

    /// Adds tables written in TOML: those of a list such as `[[http.route]]` after those that it has.
    ///
    /// # Panics
    /// When they aren't TOML, or have a key that stands already.
    #[must_use]
    #[track_caller]
    pub fn with_toml(mut self, toml: &str) -> Self {
        tree::add(&mut self.root, tree::parse(toml));
        self
    }

    /// Sets the number of workers.
    #[must_use]
    #[track_caller]
    pub fn workers(self, count: usize) -> Self {
        self.set("node.workers", count)
    }

    /// Sets the budget of memory.
    #[must_use]
    #[track_caller]
    pub fn memory_budget(self, size: &str) -> Self {
        self.set("node.memory_budget", size)
    }

    /// Sets what the listener at `{gateway}` speaks.
    #[must_use]
    #[track_caller]
    pub fn protocols<const N: usize>(self, protocols: [&str; N]) -> Self {
        self.listener(|l| l.protocols(protocols))
    }

    /// Changes the listener at `{gateway}`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn listener(self, change: impl FnOnce(Section) -> Section) -> Self {
        self.listener_at("{gateway}", change)
    }

    /// Changes the listener at `address`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn listener_at(self, address: &str, change: impl FnOnce(Section) -> Section) -> Self {
        self.change_element(listener(address), change)
    }

    /// Adds a listener at `address` after the others.
    ///
    /// # Panics
    /// When one listens there already.
    #[must_use]
    #[track_caller]
    pub fn add_listener(self, address: &str, make: impl FnOnce(Section) -> Section) -> Self {
        self.add_element(listener(address), make)
    }

    /// Removes the listener at `address`.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    #[track_caller]
    pub fn remove_listener(mut self, address: &str) -> Self {
        listener(address).remove(&mut self.root);
        self
    }

    /// Changes an upstream.
    ///
    /// # Panics
    /// When it is absent.
    #[must_use]
    #[track_caller]
    pub fn upstream(self, name: &str, change: impl FnOnce(Section) -> Section) -> Self {
        self.change_table(&format!("http.upstream.{name}"), change)
    }

    /// Adds an upstream.
    ///
    /// # Panics
    /// When it is there already.
    #[must_use]
    #[track_caller]
    pub fn add_upstream(self, name: &str, make: impl FnOnce(Section) -> Section) -> Self {
        self.add_table(&format!("http.upstream.{name}"), make(Section::new()))
    }

    /// Changes a filter.
    ///
    /// # Panics
    /// When it is absent.
    #[must_use]
    #[track_caller]
    pub fn filter(self, name: &str, change: impl FnOnce(Section) -> Section) -> Self {
        self.change_table(&format!("http.filter.{name}"), change)
    }

    /// Adds a filter; a route runs it once its `filters` name it.
    ///
    /// # Panics
    /// When it is there already.
    #[must_use]
    #[track_caller]
    pub fn add_filter(self, name: &str, make: impl FnOnce(Section) -> Section) -> Self {
        self.add_table(&format!("http.filter.{name}"), make(Section::new()))
    }

    /// Changes a route.
    ///
    /// # Panics
    /// When it is absent.
    #[must_use]
    #[track_caller]
    pub fn route(self, name: &str, change: impl FnOnce(Section) -> Section) -> Self {
        self.change_element(route(name), change)
    }

    /// Adds a route after the others.
    ///
    /// # Panics
    /// When it is there already.
    #[must_use]
    #[track_caller]
    pub fn add_route(self, name: &str, make: impl FnOnce(Section) -> Section) -> Self {
        self.add_element(route(name), make)
    }

    #[track_caller]
    fn change_table(mut self, path: &str, change: impl FnOnce(Section) -> Section) -> Self {
        Section::change(tree::expect_table(&mut self.root, path), change);
        self
    }

    #[track_caller]
    fn add_table(mut self, path: &str, section: Section) -> Self {
        let is_new = tree::find(&self.root, path).is_none();
        assert!(is_new, "{path} is there already");
        tree::set(&mut self.root, path, section.into_table().into());
        self
    }

    #[track_caller]
    fn change_element(
        mut self,
        element: Element<'_>,
        change: impl FnOnce(Section) -> Section,
    ) -> Self {
        Section::change(element.expect(&mut self.root), change);
        self
    }

    #[track_caller]
    fn add_element(mut self, element: Element<'_>, make: impl FnOnce(Section) -> Section) -> Self {
        let Element { list, key, name } = element;
        let is_new = element.find(&mut self.root).is_none();
        assert!(is_new, "{list} has {name:?} already");
        let section = make(Section::new().set(key, name));
        tree::push(&mut self.root, list, section.into_table());
        self
    }
}

/// Tables whose keys are names that other tables refer to.
const OF_NAMES: [&str; 3] = ["http.upstream.", "http.filter.", "dns.upstream."];

/// The part of `path` that ends with such a name, where a key of its table follows.
fn named_table(path: &str) -> Option<&str> {
    let of_names = OF_NAMES.iter().find(|table| path.starts_with(**table))?;
    let name_len = path[of_names.len()..].find('.')?;
    Some(&path[..of_names.len() + name_len])
}

fn listener(address: &str) -> Element<'_> {
    Element {
        list: "http.listener",
        key: "listen",
        name: address,
    }
}

fn route(name: &str) -> Element<'_> {
    Element {
        list: "http.route",
        key: "name",
        name,
    }
}

impl fmt::Display for NodeConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(config: &NodeConfig, expected: Expect) {
        let text = config.to_string();
        expected.assert_eq(&text);
        assert_eq!(NodeConfig::parse(&text), *config);
    }

    fn plain() -> NodeConfig {
        NodeConfig::plain()
    }

    /// The message of the panic that `edit` ends with.
    fn panic_of(edit: fn() -> NodeConfig) -> String {
        let panic = std::panic::catch_unwind(edit).expect_err("it panics");
        let text = panic.downcast_ref::<String>().cloned();
        text.unwrap_or_else(|| (*panic.downcast_ref::<&str>().expect("a text")).to_owned())
    }

    #[test]
    fn the_plain_one_prints_toml() {
        check(
            &NodeConfig::plain(),
            expect![[r#"
                [node]
                workers = 1
                memory_budget = "64MiB"
                drain_timeout = "10s"

                [admin]
                listen = "{admin}"

                [log]
                level = "info"
                format = "text"

                [[http.listener]]
                listen = "{gateway}"
                protocols = ["h1"]

                [http.upstream.origin]
                servers = ["{origin}"]

                [[http.route]]
                name = "all"
                path = "/{rest*}"
                upstream = "origin"
            "#]],
        );
    }

    #[test]
    fn every_part_can_be_changed() {
        let config = NodeConfig::plain()
            .workers(2)
            .memory_budget("24MiB")
            .set("log.access.file", "{scratch}/access.log")
            .set("http.trusted_proxies", ["127.0.0.1/32"])
            .remove("node.drain_timeout")
            .listener(|l| l.protocols(["h1", "h2c"]).set("timeouts.header", "1s"))
            .add_listener("127.0.0.1:{more}", |l| l)
            .upstream("origin", |u| {
                let weighed = Section::new().set("address", "a:1").set("weight", 3);
                u.servers([Setting::from(weighed), "b:1".into()])
            })
            .add_upstream("no", |u| u.set("respond.status", 403))
            .route("all", |r| {
                r.remove("upstream").with_toml("files.root = \"/x\"")
            })
            .add_route("more", |r| r.path("/more").upstream("no").filters(["f"]))
            .add_filter("f", |f| f.set("kind", "cache").set("bytes", "16MiB"))
            .filter("f", |f| f.set("bytes", "4MiB"));
        check(
            &config,
            expect![[r#"
                [node]
                workers = 2
                memory_budget = "24MiB"

                [admin]
                listen = "{admin}"

                [log]
                level = "info"
                format = "text"

                [log.access]
                file = "{scratch}/access.log"

                [http]
                trusted_proxies = ["127.0.0.1/32"]

                [[http.listener]]
                listen = "{gateway}"
                protocols = ["h1", "h2c"]

                [http.listener.timeouts]
                header = "1s"

                [[http.listener]]
                listen = "127.0.0.1:{more}"

                [http.upstream.origin]
                servers = [{ address = "a:1", weight = 3 }, "b:1"]

                [http.upstream.no.respond]
                status = 403

                [[http.route]]
                name = "all"
                path = "/{rest*}"

                [http.route.files]
                root = "/x"

                [[http.route]]
                name = "more"
                path = "/more"
                upstream = "no"
                filters = ["f"]

                [http.filter.f]
                kind = "cache"
                bytes = "4MiB"
            "#]],
        );
    }

    #[test]
    fn listeners_are_moved_and_removed_and_every_element_of_a_list_is_changed() {
        let config = NodeConfig::parse(
            "[[http.listener]]\nlisten = \"a:1\"\n[[http.listener]]\nlisten = \"a:2\"\n\
             [[dns.listener]]\nlisten = \"a:3\"\n[[dns.listener]]\nlisten = \"a:4\"\n",
        );
        let config = config
            .listener_at("a:1", |l| l.set("listen", "{gateway}"))
            .remove_listener("a:2")
            .each("dns.listener", |l| {
                let address = format!("{}0", l.text("listen"));
                l.set("listen", address)
            });
        check(
            &config,
            expect![[r#"
                [[http.listener]]
                listen = "{gateway}"

                [[dns.listener]]
                listen = "a:30"

                [[dns.listener]]
                listen = "a:40"
            "#]],
        );
    }

    #[test]
    fn tables_in_toml_are_added_as_the_end_of_the_file_would_add_them() {
        let by_text = NodeConfig::parse("[[http.route]]\nname = \"a\"\n[log]\nlevel = \"info\"\n")
            .with_toml("[[http.route]]\nname = \"b\"\n[log.access]\nfile = \"x\"\n");
        let whole = "[[http.route]]\nname = \"a\"\n[log]\nlevel = \"info\"\n\
                     [[http.route]]\nname = \"b\"\n[log.access]\nfile = \"x\"\n";
        assert_eq!(by_text, NodeConfig::parse(whole));
    }

    #[test]
    fn an_edit_that_misses_panics() {
        let cases: [(fn() -> NodeConfig, _); 16] = [
            (
                || plain().upstream("orgin", |u| u),
                "there is no http.upstream.orgin",
            ),
            (
                || plain().set("http.upstream.orgin.keepalive", 1),
                "there is no http.upstream.orgin",
            ),
            (|| plain().filter("f", |f| f), "there is no http.filter.f"),
            (|| plain().route("al", |r| r), "http.route has no \"al\""),
            (
                || NodeConfig::parse("").listener(|l| l),
                "http.listener has no \"{gateway}\"",
            ),
            (
                || plain().add_upstream("origin", |u| u),
                "http.upstream.origin is there already",
            ),
            (
                || plain().add_route("all", |r| r),
                "http.route has \"all\" already",
            ),
            (
                || plain().add_listener("{gateway}", |l| l),
                "http.listener has \"{gateway}\" already",
            ),
            (
                || plain().remove_listener("127.0.0.1:1"),
                "http.listener has no \"127.0.0.1:1\"",
            ),
            (
                || plain().each("dns.listener", |l| l),
                "there is no list dns.listener",
            ),
            (|| plain().remove("node.worker"), "there is no node.worker"),
            (
                || plain().route("all", |r| r.remove("files.root")),
                "there is no files.root",
            ),
            (
                || plain().set("node.workers.count", 1),
                "node.workers is no table",
            ),
            (
                || plain().set("http.route.name", "a"),
                "http.route is no table",
            ),
            (
                || plain().with_toml("[node]\nworkers = 2"),
                "node.workers is there already",
            ),
            (
                || plain().listener(|l| l.with_toml("protocols = [\"h2\"]")),
                "protocols is there already",
            ),
        ];
        for (edit, message) in cases {
            assert_eq!(panic_of(edit), message);
        }
        let panic = panic_of(|| plain().with_toml("[node"));
        assert!(panic.starts_with("TOML parse error"), "{panic}");
    }
}
