//! The modules of a crate, as its sources declare them: what each defines, imports and names.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// The names from the root of the crate to a module; empty for the root itself.
pub(super) type ModulePath = Vec<String>;

/// One `use`: a name, or everything a module has.
pub(super) struct Import {
    /// What it is called here; none for a glob.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
}

/// What one module says.
#[derive(Default)]
pub(super) struct Module {
    /// Types, functions and so on that are defined here.
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of two names and more, wherever they stand.
    pub(super) mentions: Vec<Vec<String>>,
}

/// Every module of a crate.
#[derive(Default)]
pub(super) struct Modules(pub(super) BTreeMap<ModulePath, Module>);

impl Modules {
    /// Of the crate whose root is this file.
    pub(super) fn read(file: &Path) -> Self {
        let mut modules = Self::default();
        let folder = file.parent().expect("a file lies in a folder");
        modules.add_file(file, folder, Vec::new());
        modules
    }

    /// Of a crate in one text, for tests of this test.
    pub(super) fn of_text(text: &str) -> Self {
        let mut modules = Self::default();
        let parsed = syn::parse_file(text).expect("the text is Rust");
        modules.add(&parsed.items, Path::new("."), Path::new("."), Vec::new());
        modules
    }

    /// The names of the modules in the root.
    pub(super) fn roots(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter(|path| path.len() == 1).map(|path| path[0].as_str())
    }

    fn add_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let own = file.parent().expect("a file lies in a folder");
        self.add(&parsed.items, folder, own, path);
    }

    /// `folder` is where modules of this one lie, `own` where its file does.
    fn add(&mut self, items: &[Item], folder: &Path, own: &Path, path: ModulePath) {
        let mut module = Module::default();
        for item in items.iter().filter(|item| !is_for_tests(attributes(item))) {
            module.items.extend(name_of(item));
            let Item::Mod(child) = item else {
                module.visit_item(item);
                continue;
            };
            let name = child.ident.to_string();
            let child_path: ModulePath = path.iter().cloned().chain([name.clone()]).collect();
            if let Some((_, items)) = &child.content {
                self.add(items, &folder.join(&name), own, child_path);
            } else if let Some(file) = path_attribute(&child.attrs) {
                let file = own.join(file);
                let folder = file.parent().expect("a file lies in a folder").to_owned();
                self.add_file(&file, &folder, child_path);
            } else {
                // One style of modules: the file of a folder lies beside it.
                self.add_file(&folder.join(format!("{name}.rs")), &folder.join(&name), child_path);
            }
        }
        self.0.insert(path, module);
    }
}

impl<'ast> Visit<'ast> for Module {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        flatten(&item.tree, &mut Vec::new(), &mut self.imports);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 && path.leading_colon.is_none() {
            self.mentions.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        paths_in(called.tokens.clone(), &mut self.mentions);
        visit::visit_macro(self, called);
    }
}

/// The names that a `use` brings in.
fn flatten(tree: &UseTree, path: &mut Vec<String>, found: &mut Vec<Import>) {
    let at = |path: &[String], last: String| path.iter().cloned().chain([last]).collect::<Vec<_>>();
    match tree {
        UseTree::Path(inner) => {
            path.push(inner.ident.to_string());
            flatten(&inner.tree, path, found);
            path.pop();
        }
        UseTree::Name(name) if name.ident == "self" => found.push(Import { name: path.last().cloned(), path: path.clone() }),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            found.push(Import { path: at(path, name.clone()), name: Some(name) });
        }
        UseTree::Rename(rename) => {
            let path = if rename.ident == "self" { path.clone() } else { at(path, rename.ident.to_string()) };
            found.push(Import { name: Some(rename.rename.to_string()), path });
        }
        UseTree::Glob(_) => found.push(Import { name: None, path: path.clone() }),
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, path, found)),
    }
}

/// The paths among the tokens that a macro is given.
fn paths_in(tokens: TokenStream, found: &mut Vec<Vec<String>>) {
    let (mut path, mut colons) = (Vec::new(), 0);
    let mut finish = |path: &mut Vec<String>| {
        let whole = std::mem::take(path);
        if whole.len() > 1 {
            found.push(whole);
        }
    };
    let mut inner = Vec::new();
    for token in tokens {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
            TokenTree::Ident(name) => {
                if colons != 2 {
                    finish(&mut path);
                }
                path.push(name.to_string());
                colons = 0;
            }
            other => {
                finish(&mut path);
                colons = 0;
                if let TokenTree::Group(group) = other {
                    inner.push(group.stream());
                }
            }
        }
    }
    finish(&mut path);
    inner.into_iter().for_each(|stream| paths_in(stream, found));
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_cfg = attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"));
        is_cfg || attribute.path().is_ident("test")
    })
}

/// The file that `#[path = "…"]` names.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
    let syn::Lit::Str(path) = &literal.lit else { return None };
    Some(path.value())
}

/// The root file of every crate of the workspace, by a name for it: libraries and integration tests.
pub(super) fn crate_roots(root: &Path) -> Vec<(String, PathBuf)> {
    let product = members(&root.join("Cargo.toml"));
    let kinds = [("", "src/lib.rs"), (" (tests)", "tests/it/main.rs")];
    let crates = product
        .into_iter()
        .flat_map(|member| kinds.map(|(kind, file)| (format!("{member}{kind}"), root.join(&member).join(file))));
    crates.filter(|(_, file)| file.exists()).collect()
}

/// The folders of the crates of a workspace.
fn members(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).expect("the workspace has a manifest");
    let (_, members) = text.split_once("members = [").expect("the workspace lists its members");
    let (members, _) = members.split_once(']').expect("the list ends");
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
