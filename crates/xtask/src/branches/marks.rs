//! The branches of a file, and the file with a mark in each.

use std::ops::Range;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, Block, Expr, ExprForLoop, ExprIf, ExprWhile, ImplItemFn, ItemConst, ItemFn,
    ItemImpl, ItemMod, ItemStatic, Local, Signature, TraitItemFn,
};

/// A place that runs or does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// The function, with its type.
    pub function: String,
    /// Which part of it, in words of the source. Empty for the function itself.
    pub part: String,
}

/// A file with marks.
#[derive(Debug, Default)]
pub(super) struct Marked {
    pub(super) text: String,
    /// The branch of each mark, in the order of their numbers.
    pub(super) branches: Vec<Branch>,
}

impl Marked {
    /// `text` with marks, numbered from `first`. Code that the compiler runs has none, nor have tests,
    /// nor the insides of macros.
    pub(super) fn new(text: &str, first: usize) -> syn::Result<Self> {
        let file = syn::parse_file(text)?;
        let mut marker = Marker { text, first, ..Marker::default() };
        marker.visit_file(&file);
        // What is inserted at one place stays in the order in which it was found.
        marker.inserted.sort_by_key(|(at, _)| *at);
        let mut marked = Self { text: String::new(), branches: marker.branches };
        let mut from = 0;
        for (at, mark) in marker.inserted {
            marked.text.push_str(&text[from..at]);
            marked.text.push_str(&mark);
            from = at;
        }
        marked.text.push_str(&text[from..]);
        Ok(marked)
    }
}

#[derive(Default)]
struct Marker<'a> {
    text: &'a str,
    first: usize,
    /// The type and the functions around.
    around: Vec<String>,
    inserted: Vec<(usize, String)>,
    branches: Vec<Branch>,
}

impl Marker<'_> {
    /// The mark of a new branch.
    fn mark(&mut self, part: String) -> String {
        self.branches.push(Branch { function: self.around.join("::"), part });
        format!("crate::taken({});", self.first + self.branches.len() - 1)
    }

    fn insert(&mut self, at: usize, mark: String) {
        self.inserted.push((at, mark));
    }

    fn enter(&mut self, block: &Block, part: String) {
        let mark = self.mark(part);
        self.insert(block.brace_token.span.open().byte_range().end, format!(" {mark}"));
    }

    /// The source there, on one line.
    fn said(&self, range: Range<usize>) -> String {
        self.text[range].split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn function(&mut self, signature: &Signature, attributes: &[Attribute], block: &Block) {
        let is_test = attributes.iter().any(|attribute| attribute.path().is_ident("test"));
        if signature.constness.is_some() || is_test {
            return;
        }
        self.around.push(signature.ident.to_string());
        self.enter(block, String::new());
        self.visit_block(block);
        self.around.pop();
    }
}

impl<'a> Visit<'a> for Marker<'_> {
    fn visit_item_mod(&mut self, module: &'a ItemMod) {
        let is_test = |a: &Attribute| {
            a.path().is_ident("cfg") && self.said(a.span().byte_range()).contains("(test)")
        };
        if !module.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, of: &'a ItemImpl) {
        let name = self.said(of.self_ty.span().byte_range());
        let name = match &of.trait_ {
            Some((of, _)) => format!("<{name} as {}>", self.said(of.span().byte_range())),
            None => name,
        };
        self.around.push(name);
        visit::visit_item_impl(self, of);
        self.around.pop();
    }

    // The compiler runs them.
    fn visit_item_const(&mut self, _: &'a ItemConst) {}
    fn visit_item_static(&mut self, _: &'a ItemStatic) {}

    fn visit_item_fn(&mut self, function: &'a ItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &'a ImplItemFn) {
        self.function(&function.sig, &function.attrs, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &'a TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, &function.attrs, block);
        }
    }

    fn visit_expr_if(&mut self, choice: &'a ExprIf) {
        let asked = self.said(choice.cond.span().byte_range());
        self.enter(&choice.then_branch, format!("if {asked}"));
        let otherwise = format!("if not {asked}");
        match choice.else_branch.as_ref().map(|(_, other)| &**other) {
            Some(Expr::Block(block)) => self.enter(&block.block, otherwise),
            // What is asked next has branches of its own.
            Some(_) => {}
            None => {
                visit::visit_expr_if(self, choice);
                let mark = self.mark(otherwise);
                let end = choice.then_branch.brace_token.span.close().byte_range().end;
                return self.insert(end, format!(" else {{ {mark} }}"));
            }
        }
        visit::visit_expr_if(self, choice);
    }

    fn visit_arm(&mut self, arm: &'a Arm) {
        let part = self.said(arm.pat.span().byte_range());
        match &*arm.body {
            Expr::Block(block) if block.label.is_none() => self.enter(&block.block, part),
            body => {
                let range = body.span().byte_range();
                let mark = self.mark(part);
                self.insert(range.start, format!("{{ {mark} "));
                visit::visit_arm(self, arm);
                return self.insert(range.end, " }".to_owned());
            }
        }
        visit::visit_arm(self, arm);
    }

    fn visit_local(&mut self, local: &'a Local) {
        if let Some((_, diverge)) = local.init.as_ref().and_then(|init| init.diverge.as_ref())
            && let Expr::Block(block) = &**diverge
        {
            let pattern = self.said(local.pat.span().byte_range());
            self.enter(&block.block, format!("not {pattern}"));
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_for_loop(&mut self, each: &'a ExprForLoop) {
        let over = self.said(each.expr.span().byte_range());
        self.enter(&each.body, format!("for each of {over}"));
        visit::visit_expr_for_loop(self, each);
    }

    fn visit_expr_while(&mut self, again: &'a ExprWhile) {
        let asked = self.said(again.cond.span().byte_range());
        self.enter(&again.body, format!("while {asked}"));
        visit::visit_expr_while(self, again);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    fn marked(text: &str) -> (String, Vec<String>) {
        let marked = Marked::new(text, 5).unwrap();
        assert!(syn::parse_file(&marked.text).is_ok(), "{}", marked.text);
        let words = |Branch { function, part }: Branch| format!("{function}: {part}");
        (marked.text, marked.branches.into_iter().map(words).collect())
    }

    #[test]
    fn each_branch_has_a_mark() {
        let (text, branches) = marked(
            "impl Of for S { fn a(&self) -> u32 { if x > 1 { f() } match y { A => 1, B if z => { 2 } } } }",
        );
        assert_eq!(
            text,
            "impl Of for S { fn a(&self) -> u32 { crate::taken(5); if x > 1 { crate::taken(6); f() } \
             else { crate::taken(7); } match y { A => { crate::taken(8); 1 }, B if z => { \
             crate::taken(9); 2 } } } }"
        );
        let function = "<S as Of>::a";
        assert_eq!(
            branches,
            ["", "if x > 1", "if not x > 1", "A", "B if z"]
                .map(|part| format!("{function}: {part}"))
        );
    }

    #[test]
    fn marks_nest() {
        let (text, branches) = marked(
            "fn a() { let Some(b) = c else { return }; match d { A => if e { f() }, _ => {} }\n\
             for g in h { while i { if j { 1 } else if k { 2 } else { 3 }; } } }",
        );
        assert!(text.contains(
            "A => { crate::taken(7); if e { crate::taken(8); f() } else { crate::taken(9); } },"
        ));
        let parts: Vec<_> = branches.iter().map(|b| b.trim_start_matches("a: ")).collect();
        assert_eq!(
            parts,
            [
                "",
                "not Some(b)",
                "A",
                "if e",
                "if not e",
                "_",
                "for each of h",
                "while i",
                "if j",
                "if k",
                "if not k"
            ]
        );
    }

    #[test]
    fn what_the_compiler_runs_and_tests_have_no_marks() {
        let text = "const A: u32 = if B { 1 } else { 2 };\nconst fn c() { if d {} }\n\
                    #[cfg(test)]\nmod tests { fn e() {} }\n#[test]\nfn f() {}\n";
        assert_eq!(marked(text), (text.to_owned(), vec![]));
    }
}
