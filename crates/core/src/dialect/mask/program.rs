//! IR programs.

use crate::dialect::ir::{self, Expr, Statement};
use crate::dialect::scan::quote;
use crate::dialect::{Diagnostics, Source};
use crate::failure::sanitise::MASK;
use crate::policy::{Dialect, Policy, PolicyParts};

/// An IR program without its secrets: a statement a line. Names, paths and brackets stay, every value
/// is masked.
///
/// # Errors
/// Every line that breaks the grammar.
pub fn masked_program(file: &str, text: &str) -> Result<String, Diagnostics> {
    let statements = ir::statements(&Source::new(file, text))?;
    let lines = statements.into_iter().enumerate().map(|(n, (_, s))| statement(n, s) + "\n");
    Ok(lines.collect())
}

fn statement(n: usize, statement: Statement) -> String {
    let name = |text: &str| match super::plain(text) {
        same if same == text => same,
        _ => format!("hidden_{n}"),
    };
    let result = statement.name.map(|word| format!("{} = ", name(&word.text))).unwrap_or_default();
    let pairs = statement.args.iter().map(|(key, value)| (&*key.text, value));
    let args = joined(pairs, '=');
    let policy = statement.brackets.and_then(|brackets| {
        let mut parts = PolicyParts::new(Dialect::Ir);
        brackets.into_parts(&mut parts);
        super::brackets(Policy::try_from(parts).ok()?)
    });
    let brackets = policy.map(|text| format!("  {text}")).unwrap_or_default();
    format!("{result}@{}({args}){brackets}", name(&statement.action.text))
}

fn joined<'e>(pairs: impl Iterator<Item = (&'e str, &'e Expr)>, separator: char) -> String {
    let (mut hidden, mut all) = (0, Vec::new());
    for (key, value) in pairs {
        let mut shown = super::plain(key);
        if shown != key {
            hidden += 1;
            shown = format!("{MASK}{hidden}");
        }
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        let is_bare = shown.bytes().all(is_plain)
            && !shown.starts_with(|c: char| c.is_ascii_digit())
            && !shown.is_empty();
        let shown = if is_bare { shown } else { quote(&shown) };
        all.push(format!("{shown}{separator}{}", expr(value)));
    }
    all.join(", ")
}

fn expr(value: &Expr) -> String {
    match value {
        Expr::Null => "null".to_owned(),
        Expr::Bool(_) | Expr::Number(_) => quote(MASK),
        Expr::Text(text) => quote(&super::value(&text.text)),
        Expr::Path(path) if super::plain(&path.text) == *path.text => path.text.to_string(),
        Expr::Path(_) => quote(MASK),
        Expr::List(items) => {
            format!("[{}]", items.iter().map(expr).collect::<Vec<_>>().join(", "))
        }
        Expr::Table(pairs) => {
            format!("{{{}}}", joined(pairs.iter().map(|(k, v)| (&**k, v)), ':'))
        }
    }
}
