//! The names in a file's code without its tests: imports, paths, and methods called on `self`.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// A leaf of a `use` declaration: its path (a glob ends in `*`), its name here, and whether other
/// modules see it under that.
pub type Import = (Vec<String>, String, bool);

/// The path of a type, as an `impl` block has it, and the name of a method.
pub type Method = (Vec<String>, String);

/// All that a file names.
#[derive(Debug, Default)]
pub struct Mentions {
    pub imports: Vec<Import>,
    /// The paths in the rest of its code, those of one segment too.
    pub paths: Vec<Vec<String>>,
    /// The methods that it defines.
    pub methods: Vec<Method>,
    /// The methods that it calls as `self.method()` or `Self::method`.
    pub self_calls: Vec<Method>,
    /// The modules in files of their own that it declares for tests.
    pub test_modules: Vec<String>,
    /// The type of the `impl` block that is being read.
    impl_type: Vec<String>,
    /// The `use` declaration that is being read is a re-export.
    is_reexport: bool,
}

impl Mentions {
    pub fn of(code: &syn::File) -> Self {
        let mut mentions = Self::default();
        mentions.visit_file(code);
        mentions
    }

    fn add_self_call(&mut self, method: String) {
        self.self_calls.push((self.impl_type.clone(), method));
    }

    fn add_path(&mut self, path: Vec<String>) {
        if path.len() > 1 && path[0] == "Self" {
            self.add_self_call(path[1].clone());
        }
        self.paths.push(path);
    }

    fn add_import(&mut self, tree: &syn::UseTree, mut path: Vec<String>) {
        let (last, alias) = match tree {
            syn::UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                return self.add_import(&tree.tree, path);
            }
            syn::UseTree::Group(group) => {
                let items = group.items.iter();
                return items.for_each(|item| self.add_import(item, path.clone()));
            }
            syn::UseTree::Name(name) => (name.ident.to_string(), None),
            syn::UseTree::Rename(name) => (name.ident.to_string(), Some(name.rename.to_string())),
            _ => ("*".to_owned(), None),
        };
        if last != "self" || path.is_empty() {
            path.push(last);
        }
        let name = alias.unwrap_or_else(|| path[path.len() - 1].clone());
        self.imports.push((path, name, self.is_reexport));
    }

    /// A macro's arguments are no syntax tree: paths and calls are told by their tokens.
    fn add_tokens(&mut self, tokens: &[String]) {
        let text = |at: usize| tokens.get(at).map_or("", String::as_str);
        let is_name = |at| text(at).starts_with(|c: char| c.is_alphabetic() || c == '_');
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            let mut path = vec![text(at).to_owned()];
            while text(at + 1) == ":" && text(at + 2) == ":" && is_name(at + 3) {
                at += 3;
                path.push(text(at).to_owned());
            }
            at += 1;
            if !is_name(start) || start > 0 && matches!(text(start - 1), "." | "'") {
                continue;
            }
            if path == ["self"] && text(at) == "." && text(at + 2) == "(" {
                self.add_self_call(text(at + 1).to_owned());
            }
            self.add_path(path);
        }
    }
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Mod(item) if is_test(&item.attrs) => {
                self.test_modules.push(item.ident.to_string());
            }
            syn::Item::Fn(syn::ItemFn { attrs, .. })
            | syn::Item::Use(syn::ItemUse { attrs, .. })
                if is_test(attrs) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            let method = function.sig.ident.to_string();
            self.methods.push((self.impl_type.clone(), method));
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.is_reexport = !matches!(item.vis, syn::Visibility::Inherited);
        self.add_import(&item.tree, Vec::new());
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let syn::Type::Path(of_type) = &*item.self_ty {
            self.impl_type = segments(&of_type.path);
        }
        visit::visit_item_impl(self, item);
        self.impl_type.clear();
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if matches!(&*call.receiver, syn::Expr::Path(path) if path.path.is_ident("self")) {
            self.add_self_call(call.method.to_string());
        }
        if call.method == "elapsed" {
            self.add_path(vec!["Instant".to_owned(), "elapsed".to_owned()]);
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add_path(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_path(segments(&call.path));
        self.add_tokens(&tokens_of(call.tokens.clone()));
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    let segments = path.segments.iter();
    segments.map(|segment| segment.ident.to_string()).collect()
}

/// Tells the attributes of an item for tests: `#[cfg(test)]`, or `all` of that and more.
pub fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = tokens_of(list.tokens.clone()).concat();
            let all = condition.strip_prefix("all(").unwrap_or_default();
            condition == "test" || all.split([',', ')']).any(|part| part == "test")
        }
        _ => false,
    })
}

/// All tokens in order, those inside of brackets too; every bracket is a parenthesis.
pub fn tokens_of(stream: TokenStream) -> Vec<String> {
    let mut tokens = Vec::new();
    for tree in stream {
        if let TokenTree::Group(group) = tree {
            tokens.push("(".to_owned());
            tokens.extend(tokens_of(group.stream()));
            tokens.push(")".to_owned());
        } else {
            tokens.push(tree.to_string());
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mentions(code: &str) -> Mentions {
        Mentions::of(&syn::parse_file(code).unwrap())
    }

    fn joined(paths: &[Vec<String>]) -> Vec<String> {
        paths.iter().map(|path| path.join("::")).collect()
    }

    #[test]
    fn declarations_are_read_to_their_leaves() {
        let code = "use a::{self, b::{C, D as E}, f::*,}; pub(crate) use g; pub use crate::h;";
        let imports = mentions(code).imports;
        let imports: Vec<String> = imports
            .iter()
            .map(|(path, name, is_reexport)| {
                let export = if *is_reexport { "pub " } else { "" };
                format!("{export}{name} = {}", path.join("::"))
            })
            .collect();
        assert_eq!(
            imports,
            [
                "a = a",
                "C = a::b::C",
                "E = a::b::D",
                "* = a::f::*",
                "pub g = g",
                "pub h = crate::h",
            ]
        );
    }

    #[test]
    fn precise_capturing_declares_nothing() {
        let code = "use a::b; fn f() -> impl C + use<> { { d } } fn g() -> impl C + use<T> {}";
        assert_eq!(mentions(code).imports.len(), 1);
    }

    #[test]
    fn paths_are_read_and_fields_are_not() {
        let found = mentions("mod x; fn f(a: b::C) { a.d.e(); super::g::<H>(); }").paths;
        assert_eq!(joined(&found), ["b::C", "a", "super::g", "H"]);
        let found = mentions("fn f() { m!(a.d, b::C { x: 'y' }, &'z e); }").paths;
        assert_eq!(joined(&found), ["m", "a", "b::C", "x", "e"]);
    }

    #[test]
    fn calls_on_self_are_read_in_macros_too() {
        let code = "impl a::B<C> { fn f(&self) { self.g(); m!(self.h()); Self::i(); self.x.j() } }";
        let found = mentions(code);
        let calls = found.self_calls.iter().map(|call| &call.1[..]);
        assert_eq!(calls.collect::<Vec<_>>(), ["g", "h", "i"]);
        assert_eq!(found.self_calls[0].0, ["a", "B"]);
        assert_eq!(found.methods[0].1, "f");
    }

    #[test]
    fn tests_are_not_read_and_their_files_are_named() {
        let code = "#[cfg(test)] mod x; #[cfg(test)] fn f() { a() } #[cfg(test)] use k::L;\n\
                    impl C { #[cfg(all(unix, test))] fn d() {} } #[cfg(any(unix, test))] use e;\n\
                    #[cfg(not(test))] fn g() { h() } #[cfg(all(unix, not(test)))] fn i() { j() }";
        let found = mentions(code);
        assert_eq!(joined(&found.paths), ["C", "h", "j"]);
        assert_eq!(found.imports.len(), 1);
        assert_eq!(found.test_modules, ["x"]);
        assert!(found.methods.is_empty());
    }
}
