//! Where a file can be mutated, and how: each place is a few insertions that switch between two meanings, so that any number
//! of places fit into one build.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Expr, Lit, Stmt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Turned,
    TenTimes,
    PlusOne,
    Dropped,
    LeftOut,
}

pub const KINDS: [Kind; 5] = [Kind::Turned, Kind::TenTimes, Kind::PlusOne, Kind::Dropped, Kind::LeftOut];

impl Kind {
    pub fn name(self) -> &'static str {
        ["turned", "ten times", "plus one", "dropped", "left out"][self as usize]
    }
}

#[derive(Clone, Debug)]
pub struct Place {
    pub file: String,
    pub folder: usize,
    /// How many of the file were found before.
    pub order: usize,
    pub kind: Kind,
    /// The bytes around which the switch goes.
    pub around: Range<usize>,
    /// What comes before and after them, with `#` for the number of the mutant.
    pub open: &'static str,
    pub close: String,
    /// Bytes between them that are replaced: an operator.
    pub between: Option<(Range<usize>, &'static str)>,
    /// What a reader would change by hand.
    pub shown: (Range<usize>, String),
}

impl Place {
    /// Whether both change the same thing, so that one build cannot have both.
    pub fn is_at(&self, other: &Place) -> bool {
        (&self.file, self.kind, &self.around) == (&other.file, other.kind, &other.around)
    }
}

/// The constants of a file whose value is a number, by the lines that begin with their names.
pub fn numbers(text: &str) -> impl Iterator<Item = String> {
    const NUMBERS: [&str; 9] = ["u8", "u16", "u32", "u64", "usize", "i32", "f64", "Nanos", "Duration"];
    let constants = text.lines().filter_map(|line| line.split_once("const ")?.1.split_once(": "));
    let has_number = |rest: &str| rest.split_once(" =").is_some_and(|(kind, _)| NUMBERS.contains(&kind));
    constants.filter(move |(_, rest)| has_number(rest)).map(|(name, _)| name.to_owned())
}

/// The files that `file`, at `path`, has for tests only: modules without a body, by the beginning of their paths.
pub fn test_files(path: &str, file: &syn::File) -> Vec<String> {
    let folder = path.strip_suffix("/mod.rs").or(path.strip_suffix("/lib.rs"));
    let folder = folder.unwrap_or(path.trim_end_matches(".rs"));
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(&module.ident),
        _ => None,
    });
    modules.flat_map(|name| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]).collect()
}

/// The places of `file`, in order; what encloses comes first. `skipped` counts what cannot have a switch.
pub fn places(
    file: &syn::File,
    path: &str,
    folder: usize,
    numbers: &BTreeSet<String>,
    skipped: &mut BTreeMap<&'static str, usize>,
) -> Vec<Place> {
    let mut finder = Finder { path, folder, numbers, skipped, places: Vec::new() };
    finder.visit_file(file);
    finder.places
}

/// Whether only tests have the item.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| attribute.path().is_ident("test")) || has_condition(attributes, "test")
}

fn has_condition(attributes: &[Attribute], word: &str) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string().contains(word),
        _ => false,
    })
}

struct Finder<'a> {
    path: &'a str,
    folder: usize,
    numbers: &'a BTreeSet<String>,
    skipped: &'a mut BTreeMap<&'static str, usize>,
    places: Vec<Place>,
}

impl Finder<'_> {
    fn add(
        &mut self,
        kind: Kind,
        around: Range<usize>,
        open: &'static str,
        close: &str,
        shown: (Range<usize>, String),
    ) {
        let (file, folder, order, close) = (self.path.to_owned(), self.folder, self.places.len(), close.to_owned());
        self.places.push(Place { file, folder, order, kind, around, open, close, between: None, shown });
    }

    fn skip(&mut self, what: &'static str) {
        *self.skipped.entry(what).or_default() += 1;
    }

    fn number(&mut self, kind: Kind, expr: &Expr) {
        let bytes = range(expr);
        let text = expr.span().source_text().unwrap_or_default();
        let (open, by) = match kind {
            Kind::TenTimes => ("::forebay::mutant::ten_times(#, ", " * 10"),
            _ => ("::forebay::mutant::plus_one(#, ", " + 1"),
        };
        self.add(kind, bytes.clone(), open, ")", (bytes, format!("({text}{by})")));
    }

    /// By its bound, or around: both are the same place to the draw.
    fn comparison(&mut self, expr: &Expr, op: &BinOp) {
        let (usual, others): (&str, &[&str]) = match op {
            BinOp::Lt(_) => ("<", &["<=", ">"]),
            BinOp::Le(_) => ("<=", &["<", ">="]),
            BinOp::Gt(_) => (">", &[">=", "<"]),
            BinOp::Ge(_) => (">=", &[">", "<="]),
            BinOp::Eq(_) => ("==", &["!="]),
            _ => ("!=", &["=="]),
        };
        for other in others {
            let close = format!("), |a, b| a {usual} b, |a, b| a {other} b)");
            let shown = (range(op), (*other).to_owned());
            self.add(Kind::Turned, range(expr), "::forebay::mutant::either(#, &(", &close, shown);
            self.places.last_mut().expect("it was added").between = Some((range(op), "), &("));
        }
    }

    fn condition(&mut self, condition: &Expr, has_else: bool) {
        let bytes = range(condition);
        let mut add =
            |open, close, by: &str| self.add(Kind::Dropped, bytes.clone(), open, close, (bytes.clone(), by.to_owned()));
        if has_let(condition) {
            // A chain with `let` cannot stand in parentheses, and needs none.
            add("!::forebay::mutant::on(#) && ", "", "false");
        } else {
            add("!::forebay::mutant::on(#) && (", ")", "false");
            if has_else {
                add("::forebay::mutant::on(#) || (", ")", "true");
            }
        }
    }

    fn enter(&mut self, attributes: &[Attribute], constness: Option<syn::token::Const>) -> bool {
        if constness.is_some() {
            self.skip("const functions");
        }
        // The copy has all features: what takes that one is missing is not compiled.
        constness.is_none() && !is_test(attributes) && !has_condition(attributes, "not")
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Binary(binary) => match binary.op {
                BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) | BinOp::Eq(_) | BinOp::Ne(_) => {
                    self.comparison(expr, &binary.op);
                }
                BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_) => self.number(Kind::PlusOne, expr),
                _ => {}
            },
            Expr::Lit(literal) => {
                let is_zero = |digits: &str| digits.parse() == Ok(0.0);
                match &literal.lit {
                    Lit::Int(int) if is_zero(int.base10_digits()) => self.number(Kind::PlusOne, expr),
                    Lit::Int(_) => {
                        self.number(Kind::TenTimes, expr);
                        self.number(Kind::PlusOne, expr);
                    }
                    Lit::Float(float) if !is_zero(float.base10_digits()) => self.number(Kind::TenTimes, expr),
                    _ => {}
                }
            }
            Expr::Path(path) => {
                let name = path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
                if self.numbers.contains(&name) {
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
            let bytes = range(statement);
            self.add(Kind::LeftOut, bytes.clone(), "if !::forebay::mutant::on(#) { ", " }", (bytes, String::new()));
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if self.enter(&module.attrs, None) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if self.enter(&function.attrs, function.sig.constness) {
            visit::visit_block(self, &function.block);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if self.enter(&function.attrs, function.sig.constness) {
            visit::visit_block(self, &function.block);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if self.enter(&block.attrs, None) {
            visit::visit_item_impl(self, block);
        }
    }

    fn visit_expr_repeat(&mut self, array: &'ast syn::ExprRepeat) {
        self.visit_expr(&array.expr);
    }

    // What the compiler must know: values of constants, patterns, and numbers in types.
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {
        self.skip("constants");
    }
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {
        self.skip("constants");
    }
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {
        self.skip("constants");
    }
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {
        self.skip("constants");
    }
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'ast syn::AngleBracketedGenericArguments) {}
    // What a macro is given is tokens, not yet expressions.
    fn visit_macro(&mut self, _: &'ast syn::Macro) {
        self.skip("macro calls");
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
