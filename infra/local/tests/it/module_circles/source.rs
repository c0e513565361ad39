//! Parses the modules of a crate: their items, imports and paths.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree};

/// Names from the crate's root to a module; empty for the root.
pub(super) type ModulePath = Vec<String>;

/// A name imported by `use`, or a glob.
pub(super) struct Import {
    /// Local name; `None` for a glob.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
}

/// A parsed module.
#[derive(Default)]
pub(super) struct Module {
    /// Types, functions and other items that are defined here.
    pub(super) items: BTreeSet<String>,
    pub(super) imports: Vec<Import>,
    /// Paths of at least two names, in any position.
    pub(super) mentions: Vec<Vec<String>>,
}

/// Every module of a crate.
#[derive(Default)]
pub(super) struct Modules(pub(super) BTreeMap<ModulePath, Module>);

impl Modules {
    /// Parses the crate with this root file.
    pub(super) fn read(file: &Path) -> Self {
        let mut modules = Self::default();
        let folder = file.parent().expect("the file has no folder");
        modules.add_file(file, folder, Vec::new());
        modules
    }

    /// Parses a crate from a single text, for this test's own tests.
    pub(super) fn parse_text(text: &str) -> Self {
        let mut modules = Self::default();
        let parsed = syn::parse_file(text).expect("invalid Rust");
        modules.add(&parsed.items, Path::new("."), Path::new("."), Vec::new());
        modules
    }

    /// Returns the names of the root modules.
    pub(super) fn roots(&self) -> impl Iterator<Item = &str> {
        self.0.keys().filter(|path| path.len() == 1).map(|path| path[0].as_str())
    }

    fn add_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let own = file.parent().expect("the file has no folder");
        self.add(&parsed.items, folder, own, path);
    }

    /// `folder` contains the submodules, `own` the module's file.
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
                let folder = file.parent().expect("the file has no folder").to_owned();
                self.add_file(&file, &folder, child_path);
            } else {
                // A module's file is next to its folder; mod.rs is not used.
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

/// Collects the names that a `use` imports.
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

/// Collects the paths in a macro's tokens.
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

/// Returns the file in `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    let syn::Expr::Lit(literal) = &attribute.meta.require_name_value().ok()?.value else { return None };
    let syn::Lit::Str(path) = &literal.lit else { return None };
    Some(path.value())
}

/// Returns the root files of the workspace's libraries and integration tests, with a name for each.
pub(super) fn crate_roots(root: &Path) -> Vec<(String, PathBuf)> {
    let product = members(&root.join("Cargo.toml"));
    let kinds = [("", "src/lib.rs"), (" (tests)", "tests/it/main.rs")];
    let crates = product
        .into_iter()
        .flat_map(|member| kinds.map(|(kind, file)| (format!("{member}{kind}"), root.join(&member).join(file))));
    crates.filter(|(_, file)| file.exists()).collect()
}

/// Returns the folders of a workspace's crates.
fn members(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).expect("the workspace has no manifest");
    let (_, members) = text.split_once("members = [").expect("the workspace has no members");
    let (members, _) = members.split_once(']').expect("the list has no end");
    members.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}
