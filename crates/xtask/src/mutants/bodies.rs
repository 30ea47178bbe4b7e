//! The bodies of a file's functions, and which of them a patch changes.

use std::ops::Range;

use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn, TypeImplTrait};

/// The functions that are in no other function, in the order of the text.
#[derive(Default)]
struct Bodies(Vec<Body>);

struct Body {
    /// From brace to brace.
    range: Range<usize>,
    /// Whether one of two bodies can be chosen while the program runs. Not where the compiler runs it,
    /// and not where the body decides its type.
    can_switch: bool,
}

impl Bodies {
    fn of(text: &str) -> Option<Self> {
        let mut bodies = Self::default();
        bodies.visit_file(&syn::parse_file(text).ok()?);
        Some(bodies)
    }

    fn add(&mut self, signature: &Signature, block: &Block) {
        let mut opaque = Opaque(false);
        opaque.visit_return_type(&signature.output);
        let can_switch = signature.constness.is_none() && !opaque.0;
        self.0.push(Body { range: block.span().byte_range(), can_switch });
    }
}

impl Visit<'_> for Bodies {
    fn visit_item_fn(&mut self, function: &ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }
}

/// Whether a type says `impl`.
struct Opaque(bool);

impl<'a> Visit<'a> for Opaque {
    fn visit_type_impl_trait(&mut self, of: &'a TypeImplTrait) {
        self.0 = true;
        visit::visit_type_impl_trait(self, of);
    }
}

/// A body that a patch changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Changed {
    /// Its place in the text before.
    pub(super) range: Range<usize>,
    /// What stands there afterwards, from brace to brace.
    pub(super) body: String,
}

/// The bodies that differ, where nothing else does and each can stand behind a switch.
pub(super) fn changed(before: &str, after: &str) -> Option<Vec<Changed>> {
    let (old, new) = (Bodies::of(before)?.0, Bodies::of(after)?.0);
    if old.len() != new.len() {
        return None;
    }
    let (mut changed, mut from) = (Vec::new(), (0, 0));
    for (old, new) in old.iter().zip(&new) {
        if before.get(from.0..old.range.start)? != after.get(from.1..new.range.start)? {
            return None;
        }
        let (was, body) = (before.get(old.range.clone())?, after.get(new.range.clone())?);
        if was != body {
            if !old.can_switch || !new.can_switch {
                return None;
            }
            changed.push(Changed { range: old.range.clone(), body: body.to_owned() });
        }
        from = (old.range.end, new.range.end);
    }
    let is_same_after = before.get(from.0..)? == after.get(from.1..)?;
    (is_same_after && !changed.is_empty()).then_some(changed)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failing test panics")]

    use super::*;

    const TEXT: &str = "struct S;\nimpl S {\n    fn a(&self) -> u32 { 1 }\n    const fn b() -> u32 { 2 }\n}\n\
        trait T {\n    fn c(&self) -> u32 { 3 }\n}\nasync fn d() -> u32 { 4 }\n\
        fn e() -> impl Fn() -> u32 { || 5 }\nfn f() -> u32 {\n    fn g() -> u32 { 6 }\n    g()\n}\n";

    fn bodies(from: &str, to: &str) -> Option<Vec<String>> {
        let changed = changed(TEXT, &TEXT.replacen(from, to, 1))?;
        Some(changed.into_iter().map(|changed| changed.body).collect())
    }

    #[test]
    fn a_changed_body_is_found_where_a_switch_can_choose_it() {
        assert_eq!(bodies("1 }", "7 }").unwrap(), ["{ 7 }"]);
        assert_eq!(bodies("3 }", "7 }").unwrap(), ["{ 7 }"]);
        assert_eq!(bodies("4 }", "7 }").unwrap(), ["{ 7 }"]);
        // The outer function's.
        assert_eq!(bodies("6 }", "7 }").unwrap(), ["{\n    fn g() -> u32 { 7 }\n    g()\n}"]);
        let range = changed(TEXT, &TEXT.replacen("1 }", "7 }", 1)).unwrap()[0].range.clone();
        assert_eq!(&TEXT[range], "{ 1 }");
    }

    #[test]
    fn anything_else_takes_a_build_of_its_own() {
        for (from, to) in
            [("2 }", "7 }"), ("5 }", "7 }"), ("struct S", "struct U"), ("d() ->", "h() ->")]
        {
            assert_eq!(bodies(from, to), None, "{from}");
        }
        assert_eq!(changed(TEXT, TEXT), None);
        assert_eq!(changed(TEXT, "fn {"), None);
        assert_eq!(changed(TEXT, &format!("{TEXT}fn h() {{}}\n")), None);
    }
}
