//! The functions, type definitions and inherent `impl` blocks of a file.

use proc_macro2::TokenStream;
use syn::visit::{self, Visit};

use super::file::definitions_in;
use crate::tidy::code::arguments_in;

/// A name and the line that it stands in.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub line: usize,
}

impl Named {
    fn of(ident: &syn::Ident) -> Self {
        let line = ident.span().start().line;
        Self::at(ident.to_string(), line)
    }

    fn at(name: String, line: usize) -> Self {
        Self { name, line }
    }
}

#[derive(Debug)]
pub struct Function {
    pub name: Named,
    /// From the signature to the closing brace; 1 without a body.
    pub lines: usize,
    pub has_tuple: bool,
}

/// All that is counted in the syntax tree of a file.
#[derive(Debug, Default)]
pub struct Shape {
    pub functions: Vec<Function>,
    pub definitions: Vec<Named>,
    /// The types of inherent `impl` blocks.
    pub impls: Vec<Named>,
    /// The functions at hand are as a trait has them.
    is_of_trait: bool,
}

impl Shape {
    /// Reads the tokens of a file; one that does not parse has nothing.
    pub fn of(stream: TokenStream) -> Self {
        let mut shape = Self::default();
        if let Ok(file) = syn::parse2::<syn::File>(stream) {
            shape.visit_file(&file);
        }
        shape
    }

    fn add_function(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) {
        let first = signature.fn_token.span.start().line;
        let last = body.map_or(first, |body| body.brace_token.span.close().end().line);
        let has_tuple = signature.inputs.iter().any(|input| match input {
            syn::FnArg::Typed(argument) => is_tuple(&argument.ty),
            syn::FnArg::Receiver(_) => false,
        });
        self.functions.push(Function {
            name: Named::of(&signature.ident),
            lines: last - first + 1,
            has_tuple: has_tuple && !self.is_of_trait,
        });
    }
}

/// Tells a tuple, a reference to one, and an `Option` of one.
fn is_tuple(ty: &syn::Type) -> bool {
    // A type that stands for itself alone is no tuple, and `()` stands for none.
    let inside = arguments_in(ty);
    inside.len() > 1
}

impl<'ast> Visit<'ast> for Shape {
    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let outer = std::mem::replace(&mut self.is_of_trait, item.trait_.is_some());
        if let (None, syn::Type::Path(of_type)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = of_type.path.segments.last()
        {
            let line = item.impl_token.span.start().line;
            self.impls.push(Named::at(last.ident.to_string(), line));
        }
        visit::visit_item_impl(self, item);
        self.is_of_trait = outer;
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.add_function(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.add_function(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.add_function(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.definitions.push(Named::of(&item.ident));
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.definitions.push(Named::of(&item.ident));
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast syn::ItemUnion) {
        self.definitions.push(Named::of(&item.ident));
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.definitions.push(Named::of(&item.ident));
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.definitions.push(Named::of(&item.ident));
        visit::visit_item_type(self, item);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let found = definitions_in(call.tokens.clone()).into_iter();
        let found = found.map(|(name, line)| Named::at(name, line));
        self.definitions.extend(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(code: &str) -> Shape {
        Shape::of(code.parse().unwrap())
    }

    fn names(named: &[Named]) -> Vec<&str> {
        named.iter().map(|named| &named.name[..]).collect()
    }

    #[test]
    fn functions_with_tuples_are_told_from_those_without() {
        for code in [
            "fn f(a: u8, (b, c): (u8, u8)) {}",
            "impl A { fn f(&self, a: &mut (u8, u8)) {} }",
            "trait A { fn f(a: Option<(u8, u8)>); }",
        ] {
            assert!(shape(code).functions[0].has_tuple, "{code}");
        }
        for code in [
            "fn f(a: (), A(b, c): A, d: &[(u8, u8)], e: impl Fn((u8, u8))) { |(g, h): (u8, u8)| g; }",
            "impl A for B { fn f(&self, a: (u8, u8)) {} }",
            "fn f() -> (u8, u8) {}",
        ] {
            assert!(!shape(code).functions[0].has_tuple, "{code}");
        }
    }

    #[test]
    fn the_length_of_a_function_is_from_its_signature_to_its_brace() {
        let code = "/// Doc.\n#[inline]\npub fn f(\n) {\n\n fn g() {}\n}\ntrait A { fn h(\n); }";
        let found: Vec<(String, usize)> = shape(code)
            .functions
            .into_iter()
            .map(|function| (function.name.name, function.lines))
            .collect();
        assert_eq!(
            found,
            [
                ("f".to_owned(), 5),
                ("g".to_owned(), 1),
                ("h".to_owned(), 1)
            ]
        );
    }

    #[test]
    fn definitions_and_inherent_impls_are_found() {
        let code = "struct A; enum B {} trait C { type X; } type D = A; m! { struct E {} }\n\
                    impl C for A { type X = A; } impl a::B<u8> { } impl dyn C {}";
        let found = shape(code);
        assert_eq!(names(&found.definitions), ["A", "B", "C", "D", "E"]);
        assert_eq!(names(&found.impls), ["B"]);
        assert_eq!(found.impls[0].line, 2);
    }
}
