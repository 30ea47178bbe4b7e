//! A program: its statements become steps, the results they name become dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::statement::{Expr, Statement, Word, line};
use crate::dialect::file::{Declarations, Document, Places, StepPlace, assemble};
use crate::dialect::scan::Input;
use crate::dialect::tree::did_you_mean;
use crate::dialect::tree::load::{Load, TABLE, TOO_MUCH};
use crate::dialect::{
    Diagnostic, Diagnostics, Environment, Errors, Place, Source, brief, policy_from,
};
use crate::policy::{Defaults, Dialect, Origin, Policy, PolicyParts};
use crate::workflow::{self, MAX_STEPS, Root, Step, StepIx, Template};

/// Names that a result may not take: they mean something else in an argument.
const RESERVED: [&str; 7] = ["input", "true", "True", "false", "False", "null", "None"];

/// Parses an IR program, called `file` in messages and named after that file. Actions that
/// `declared` does not hold are registered functions.
///
/// A call without brackets is not retried, unless `declared` or `environment` set a default for it.
/// A name that is given again means the later result from then on; the id of its step is numbered.
///
/// # Errors
/// Everything that is wrong with the program, by line.
pub fn parse_ir_program(
    file: &str,
    text: &str,
    declared: &Declarations,
    environment: &Environment,
) -> Result<Document, Diagnostics> {
    let source = Source::new(file, text);
    let statements = statements(&source)?;
    let ids = ids(&statements);
    let of_id = ids.iter().enumerate().map(|(n, id)| (id.clone(), n)).collect();
    let defaults = declared.defaults_in(environment);
    let named = BTreeMap::new();
    let mut program = Program { declared, defaults, ids, of_id, named, steps: Vec::new() };
    let mut errors = Errors::default();
    let mut places = Vec::new();
    for (n, (place, statement)) in statements.into_iter().enumerate() {
        if errors.is_full() {
            break;
        }
        let at = place.child(&program.ids[n]).at(offset(&place, &statement.span));
        places.push(StepPlace::at(&at));
        errors.keep(program.add(n, &place, statement));
    }
    errors.or(())?;
    let parts = workflow::WorkflowParts {
        name: name_of(file),
        input: declared.input.clone(),
        actions: declared.actions_in(environment),
        steps: program.steps,
        transitions: Vec::new(),
        rollback: workflow::Rollback::Never,
        search: declared.search.clone(),
    };
    let places = Places {
        steps: Place::whole(&source),
        step: places,
        transition: Vec::new(),
        webhooks: declared.webhooks().cloned().collect(),
        endpoints: declared.endpoints.clone(),
    };
    assemble(parts, places, declared.simulate.clone())
}

/// A file's name without folder and extension.
fn name_of(file: &str) -> String {
    let stem = std::path::Path::new(file).file_stem().and_then(|s| s.to_str());
    stem.filter(|s| !s.is_empty()).unwrap_or("workflow").to_owned()
}

fn offset(line: &Place, span: &Range<usize>) -> Range<usize> {
    let start = line.span().start;
    start + span.start..start + span.end
}

/// Every statement with the place of its line, or everything that is wrong with any line.
pub(in crate::dialect) fn statements(
    source: &Arc<Source>,
) -> Result<Vec<(Place, Statement)>, Diagnostics> {
    let whole = Place::whole(source);
    check_load(&whole)?;
    let (mut found, mut errors, mut start) = (Vec::new(), Errors::default(), 0);
    for text in source.text.split('\n') {
        if errors.is_full() {
            break;
        }
        let place = whole.at(start..start + text.len());
        let read = line(&mut Input::new(text)).map_err(|fault| fault.within(&place));
        found.extend(errors.keep(read).flatten().map(|s| (place, s)));
        start += text.len() + 1;
        if found.len() > MAX_STEPS {
            let message = format!("the program has more than {MAX_STEPS} statements");
            return Err(whole.error(message).help_with("split the program").into());
        }
    }
    errors.or(found)
}

/// Counts what begins a value or a table, before anything is kept of it.
fn check_load(whole: &Place) -> Result<(), Diagnostic> {
    let (mut load, mut quote, mut escaped, mut is_comment) = (Load::new(), None, false, false);
    for (at, b) in whole.source().text.bytes().enumerate() {
        let counts = match (b, quote) {
            (b'\n', _) => {
                (quote, is_comment) = (None, false);
                1
            }
            _ if is_comment => 0,
            (_, Some(open)) => {
                quote = Some(open).filter(|_| escaped || b != open);
                0
            }
            (b'"' | b'\'', None) => {
                quote = Some(b);
                1
            }
            (b'#', None) => {
                is_comment = true;
                0
            }
            (b'{', None) => 1 + TABLE,
            // It may be the name of a result, which becomes a longer reference.
            (b',' | b'[' | b'(', None) => 2,
            (b':', None) => 1,
            _ => 0,
        };
        escaped = b == b'\\' && !escaped;
        let too_much = || whole.at(at..at).error(TOO_MUCH.0).help_with(TOO_MUCH.1);
        load.take(counts).ok_or_else(too_much)?;
    }
    Ok(())
}

/// The id of each statement's step: its result's name, else its action's, numbered when taken.
fn ids(statements: &[(Place, Statement)]) -> Vec<String> {
    let named = statements.iter().filter_map(|(_, s)| s.name.as_ref().map(|n| n.text.to_string()));
    let mut taken: BTreeSet<String> = named.collect();
    let mut numbers: BTreeMap<String, u32> = BTreeMap::new();
    let (mut ids, mut given) = (Vec::new(), BTreeSet::new());
    for (_, statement) in statements {
        let base = match &statement.name {
            Some(name) if given.insert(&name.text) => {
                ids.push(name.text.to_string());
                continue;
            }
            Some(name) => name.text.to_string(),
            None => statement.action.text.replace('.', "_"),
        };
        let number = numbers.entry(base.clone()).or_insert(1);
        let mut id = base.clone();
        while !taken.insert(id.clone()) {
            *number += 1;
            id = format!("{base}_{number}");
        }
        ids.push(id);
    }
    ids
}

fn check_name(name: &Word) -> Result<(), (String, String)> {
    if RESERVED.contains(&&*name.text) {
        let message = format!("`{}` is a reserved word", name.text);
        return Err((message, "choose another name for the result".into()));
    }
    Ok(())
}

struct Program<'d> {
    declared: &'d Declarations,
    defaults: Defaults,
    ids: Vec<String>,
    /// The statement of each id.
    of_id: BTreeMap<String, usize>,
    /// The latest statement of each name among those before.
    named: BTreeMap<Box<str>, usize>,
    steps: Vec<Step>,
}

impl Program<'_> {
    fn add(&mut self, n: usize, line: &Place, statement: Statement) -> Result<(), Diagnostic> {
        let at = |word: &Word| line.child(&word.text).at(offset(line, &word.span));
        if let Some(name) = &statement.name {
            check_name(name).map_err(|e| at(name).error(e.0).help_with(e.1))?;
        }
        let id = self.ids[n].clone();
        let place = line.child(&id).at(offset(line, &statement.span));
        let args = self.template(n, &place.at(line.span()), &statement.args)?;
        let (policy, origin) = self.policy(&place, &statement.action.text, statement.brackets)?;
        self.steps.push(Step {
            after: self.dependencies(&args),
            args,
            origin,
            ..Step::new(id, statement.action.text, policy)
        });
        self.named.extend(statement.name.map(|name| (name.text, n)));
        Ok(())
    }

    fn policy(
        &self,
        place: &Place,
        action: &str,
        brackets: Option<super::bracket::Brackets>,
    ) -> Result<(Policy, Origin), Diagnostic> {
        let Some(brackets) = brackets else {
            let kind = self.declared.actions.get(action).map(|a| a.kind).unwrap_or_default();
            let resolved = self.defaults.resolve(None, action, kind);
            return Ok(match resolved {
                (_, Origin::BuiltIn) => (Policy::no_retries(Dialect::Ir), Origin::Task),
                given => given,
            });
        };
        let mut parts = PolicyParts::new(Dialect::Ir);
        brackets.into_parts(&mut parts);
        policy_from(parts, place).map(|policy| (policy, Origin::Task))
    }

    /// The steps that `args` read, in text order.
    fn dependencies(&self, args: &Template) -> Vec<StepIx> {
        let paths = args.paths();
        let read = paths.iter().filter_map(|path| match path.root() {
            Root::Step(id) => self.of_id.get(id).copied(),
            _ => None,
        });
        let read: BTreeSet<usize> = read.collect();
        read.into_iter().filter_map(|n| u16::try_from(n).ok()).map(StepIx).collect()
    }

    fn template(
        &self,
        n: usize,
        line: &Place,
        args: &[(Word, Expr)],
    ) -> Result<Template, Diagnostic> {
        let value = |(key, expr): &(Word, Expr)| {
            Ok((key.text.to_string(), self.value(n, &line.child(&key.text), expr)?))
        };
        let object: Map<String, Value> = args.iter().map(value).collect::<Result<_, _>>()?;
        Template::try_from(Value::Object(object)).map_err(|e| line.refuse(&e))
    }

    fn value(&self, n: usize, line: &Place, expr: &Expr) -> Result<Value, Diagnostic> {
        Ok(match expr {
            Expr::Null => Value::Null,
            Expr::Bool(b) => Value::Bool(*b),
            Expr::Number(number) => Value::Number(number.clone()),
            Expr::Text(text) => self.text(n, line, text)?,
            Expr::Path(path) => Value::String(self.reference(n, line, path)?),
            Expr::List(items) => {
                items.iter().map(|i| self.value(n, line, i)).collect::<Result<_, _>>()?
            }
            Expr::Table(pairs) => {
                let value =
                    |(k, v): &(Box<str>, Expr)| Ok((k.to_string(), self.value(n, line, v)?));
                Value::Object(pairs.iter().map(value).collect::<Result<_, _>>()?)
            }
        })
    }

    /// A text, whose own `${...}` are read like those of a workflow file.
    fn text(&self, n: usize, line: &Place, text: &Word) -> Result<Value, Diagnostic> {
        let value = Value::String(text.text.to_string());
        let place = line.at(offset(line, &text.span));
        let template = Template::try_from(value.clone()).map_err(|e| place.refuse(&e))?;
        for path in template.paths() {
            match path.root() {
                Root::Step(id) => self.check_earlier(n, &place, id)?,
                Root::Item | Root::Index => {
                    return Err(place.error(format!(
                        "`{}` exists only in a fan-out",
                        brief(&path.to_string())
                    )));
                }
                Root::Result => {
                    return Err(place.error(format!(
                        "`{}` exists only in a condition",
                        brief(&path.to_string())
                    )));
                }
                Root::Input | Root::LastError | Root::Errors => {}
            }
        }
        Ok(value)
    }

    /// `x.a` as `${steps.x.result.a}`, `input.a` as `${input.a}`.
    fn reference(&self, n: usize, line: &Place, path: &Word) -> Result<String, Diagnostic> {
        let place = line.at(offset(line, &path.span));
        let (root, rest) = match path.text.split_once('.') {
            Some((root, rest)) => (root, format!(".{rest}")),
            None => (&*path.text, String::new()),
        };
        if rest.split('.').skip(1).any(str::is_empty) {
            let message = format!("`{}` has an empty part between its dots", brief(&path.text));
            return Err(place.error(message));
        }
        if root == "input" {
            return Ok(format!("${{input{rest}}}"));
        }
        let id = match self.named.get(root) {
            Some(latest) => &self.ids[*latest],
            None => root,
        };
        self.check_earlier(n, &place, id)?;
        Ok(format!("${{steps.{id}.result{rest}}}"))
    }

    fn check_earlier(&self, n: usize, place: &Place, id: &str) -> Result<(), Diagnostic> {
        let found = self.of_id.get(id);
        if found.is_some_and(|first| *first < n) {
            return Ok(());
        }
        let known = self.ids[..n].iter().map(String::as_str).chain(["input"]);
        let help = match found.is_some() {
            true => "a call can only use results of earlier lines; move it down".to_owned(),
            false => format!("{}; put a text in quotes", did_you_mean(id, known)),
        };
        Err(place
            .error(format!("no earlier line gives a result named `{}`", brief(id)))
            .help_with(help))
    }
}
