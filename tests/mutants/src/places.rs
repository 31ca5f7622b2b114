//! Finds the places where a file can be mutated. Each place is a switch between the original text
//! and the text with a mistake, so one build contains many places.

use std::collections::BTreeMap;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, ImplItem, Item, Lit, Stmt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Turned,
    TenTimes,
    PlusOne,
    Dropped,
    LeftOut,
}

pub const KINDS: [Kind; 5] = [Kind::Turned, Kind::TenTimes, Kind::PlusOne, Kind::Dropped, Kind::LeftOut];

/// The text before and after the bytes of a switch. `#` is replaced by the number of the mutant,
/// `~` by the text with the mistake.
type Switch = (&'static str, &'static str);

const EXPRESSION: Switch = ("(if ::forebay::mutant::on(#) { ~ } else { ", " })");
const STATEMENT: Switch = ("if ::forebay::mutant::on(#) { ~ } else { ", " }");
/// A chain with `let` cannot stand in parentheses or a block.
const CHAIN: Switch = ("!::forebay::mutant::on(#) && ", "");

#[derive(Clone, Debug)]
pub struct Place {
    pub file: String,
    pub folder: usize,
    pub kind: Kind,
    switch: Switch,
    /// The bytes between the two parts of the switch.
    pub around: Range<usize>,
    /// The mistake: the bytes `at` are replaced by the text `by`.
    pub at: Range<usize>,
    pub by: String,
}

/// `text` with a switch for each of `places`, by number. The number of lines stays.
pub fn rewrite<'a>(text: &str, places: impl Iterator<Item = (usize, &'a Place)>) -> String {
    let mut places = Vec::from_iter(places);
    places.sort_by_key(|(_, place)| place.around.len());
    let mut added = BTreeMap::<usize, (String, String)>::new();
    for (number, place) in places {
        let Place { around, at, by, switch: (open, close), .. } = place;
        let mutated = [&text[around.start..at.start], by, &text[at.end..around.end]].concat();
        // On one line, so comments must be removed.
        let mutated: String = mutated.lines().flat_map(|line| line.split("//").next()).collect();
        let open = open.replace('#', &number.to_string()).replace('~', &mutated);
        // Inner switches are already added. The outer one opens before them and closes after them.
        added.entry(around.end).or_default().0.push_str(close);
        added.entry(around.start).or_default().1.insert_str(0, &open);
    }
    let (mut rewritten, mut copied) = (String::new(), 0);
    for (at, (closes, opens)) in added {
        rewritten += &[&text[copied..at], &closes, &opens].concat();
        copied = at;
    }
    rewritten + &text[copied..]
}

/// Finds the places of one file; `places` has the places found so far.
pub struct Finder<'a> {
    pub path: &'a str,
    pub folder: usize,
    pub places: Vec<Place>,
}

impl Finder<'_> {
    fn add(&mut self, kind: Kind, switch: Switch, around: Range<usize>, at: Range<usize>, by: String) {
        let (file, folder) = (self.path.to_owned(), self.folder);
        self.places.push(Place { file, folder, kind, switch, around, at, by });
    }

    fn number(&mut self, kind: Kind, expr: &Expr) {
        let text = expr.span().source_text().unwrap_or_default();
        let change = if kind == Kind::TenTimes { "10, 0" } else { "1, 1" };
        let by = format!("::forebay::mutant::Number::times_plus({text}, {change})");
        self.add(kind, EXPRESSION, range(expr), range(expr), by);
    }

    fn condition(&mut self, condition: &Expr, has_else: bool) {
        let (around, is_chain) = (range(condition), has_let(condition));
        let switch = if is_chain { CHAIN } else { EXPRESSION };
        for by in if has_else && !is_chain { &["false", "true"][..] } else { &["false"] } {
            self.add(Kind::Dropped, switch, around.clone(), around.clone(), (*by).to_owned());
        }
    }

    /// The compiler must know the values of constants, and tests are not mutated. The copy has all
    /// features, so items for the absence of a feature are not compiled.
    fn has_no_switch(&self, attributes: &[Attribute], constness: Option<syn::token::Const>) -> bool {
        let is_for_others = |attribute: &Attribute| match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => {
                ["test", "not"].iter().any(|word| list.tokens.to_string().contains(word))
            }
            meta => meta.path().is_ident("test"),
        };
        constness.is_some() || attributes.iter().any(is_for_others)
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => {
                let others: &[&str] = match binary.op {
                    BinOp::Lt(_) => &["<=", ">"],
                    BinOp::Le(_) => &["<", ">="],
                    BinOp::Gt(_) => &[">=", "<"],
                    BinOp::Ge(_) => &[">", "<="],
                    BinOp::Eq(_) => &["!="],
                    BinOp::Ne(_) => &["=="],
                    _ => &[],
                };
                for other in others {
                    self.add(Kind::Turned, EXPRESSION, range(expr), range(&binary.op), (*other).to_owned());
                }
                if matches!(binary.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_)) {
                    self.number(Kind::PlusOne, expr);
                }
            }
            Expr::Lit(literal) => {
                let (is_whole, digits) = match &literal.lit {
                    Lit::Int(int) => (true, int.base10_digits().parse()),
                    Lit::Float(float) => (false, float.base10_digits().parse()),
                    _ => return,
                };
                if digits != Ok(0.0) {
                    self.number(Kind::TenTimes, expr);
                }
                if is_whole {
                    self.number(Kind::PlusOne, expr);
                }
            }
            Expr::Path(path) => {
                // A constant. If it is not a number, the mutant does not compile, and another one
                // replaces it.
                let name = path.path.segments.last().map(|name| name.ident.to_string()).unwrap_or_default();
                if name.len() > 1 && !name.contains(char::is_lowercase) && !is_fixed(&path.path) {
                    self.number(Kind::TenTimes, expr);
                }
            }
            Expr::If(branch) => self.condition(&branch.cond, branch.else_branch.is_some()),
            Expr::While(repeated) => self.condition(&repeated.cond, false),
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, false);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(expr, Some(_)) = statement
            && is_call(expr)
        {
            self.add(Kind::LeftOut, STATEMENT, range(statement), range(statement), String::new());
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, constness) = match item {
            Item::Fn(function) => (&function.attrs, function.sig.constness),
            Item::Impl(block) => (&block.attrs, None),
            Item::Mod(module) => (&module.attrs, None),
            Item::Trait(item) => (&item.attrs, None),
            _ => return,
        };
        if !self.has_no_switch(attributes, constness) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(function) = item
            && !self.has_no_switch(&function.attrs, function.sig.constness)
        {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_expr_repeat(&mut self, array: &'ast syn::ExprRepeat) {
        self.visit_expr(&array.expr);
    }

    // Patterns, numbers in types, and the tokens of macros cannot have a switch.
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

/// Whether ten times this constant is the same constant: zero, infinity, or the maximum of its
/// type.
fn is_fixed(path: &syn::Path) -> bool {
    let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
    let saturates =
        |of| "u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize Nanos Duration".split(' ').any(|it| it == of);
    match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [.., "Nanos" | "Duration", "ZERO"] | [.., "f32" | "f64", "INFINITY" | "NEG_INFINITY"] => true,
        [.., of, "MAX"] => saturates(of),
        _ => false,
    }
}

fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Call(_) | Expr::MethodCall(_) => true,
        Expr::Try(tried) => is_call(&tried.expr),
        Expr::Binary(binary) => {
            matches!(binary.op, BinOp::AddAssign(_) | BinOp::SubAssign(_) | BinOp::MulAssign(_) | BinOp::DivAssign(_))
        }
        _ => false,
    }
}

fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn range(part: &impl Spanned) -> Range<usize> {
    part.span().byte_range()
}
