//! Resolves the paths of a crate to modules.

use super::source::{Import, Module, ModulePath, Modules};

/// Maximum number of chained re-exports; longer chains are cycles.
const MAX_STEPS: usize = 16;

/// Returns pairs of modules in which the first module uses an item of the second.
pub(super) fn imports(modules: &Modules) -> Vec<(ModulePath, ModulePath)> {
    let mut found = Vec::new();
    for (from, module) in &modules.0 {
        let paths = module.imports.iter().map(|import| &import.path).chain(&module.mentions);
        let targets = paths.filter_map(|path| modules.leads_to(from, path, MAX_STEPS));
        found.extend(targets.filter(|to| to != from).map(|to| (from.clone(), to)));
    }
    found.sort();
    found.dedup();
    found
}

impl Modules {
    /// Returns the module that defines the item `path`, as seen from `from`, or `None` for other crates.
    fn leads_to(&self, from: &ModulePath, path: &[String], steps: usize) -> Option<ModulePath> {
        let mut at = from.clone();
        let mut rest = path;
        let mut is_anchored = false;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "super" => _ = at.pop(),
                "self" => {}
                _ => break,
            }
            is_anchored = true;
            rest = others;
        }
        while let Some((first, others)) = rest.split_first() {
            let child: ModulePath = at.iter().cloned().chain([first.clone()]).collect();
            if self.0.contains_key(&child) {
                at = child;
            } else if self.0.get(&at)?.items.contains(first) {
                return Some(at);
            } else {
                let to = self.through_import(&at, first, path, steps)?;
                let is_module = to.last() == Some(first);
                return if is_module { self.leads_to(&to, &with_self(others), steps.checked_sub(1)?) } else { Some(to) };
            }
            is_anchored = true;
            rest = others;
        }
        is_anchored.then_some(at)
    }

    /// Resolves a `name` that `at` imports, by name or with a glob.
    fn through_import(&self, at: &ModulePath, name: &str, asked: &[String], steps: usize) -> Option<ModulePath> {
        let steps = steps.checked_sub(1)?;
        let module = self.0.get(at)?;
        let named = |import: &&Import| import.name.as_deref() == Some(name) && import.path != asked;
        if let Some(import) = module.imports.iter().find(named) {
            return self.leads_to(at, &import.path, steps);
        }
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        globs.filter_map(|import| self.leads_to(at, &import.path, steps)).find(|to| to != at && self.defines(to, name))
    }

    fn defines(&self, path: &ModulePath, name: &str) -> bool {
        self.0.get(path).is_some_and(|module: &Module| {
            module.items.contains(name) || module.imports.iter().any(|import| import.name.as_deref() == Some(name))
        })
    }
}

fn with_self(path: &[String]) -> Vec<String> {
    std::iter::once("self".to_owned()).chain(path.iter().cloned()).collect()
}
