//! Resolves sampled addresses to functions: those of this program through its symbol table, those
//! of libraries such as the C library as `pprof` does.
//!
//! A release build has no debug information. The line tables, if there are any, contain function
//! names without their modules.

use std::collections::BTreeMap;
use std::fs;

use findshlibs::{SharedLibrary, TargetSharedLibrary};
use object::{Object, ObjectSymbol, SymbolKind};
use pprof::Symbol;

/// Function names by address; each address is resolved only once.
#[derive(Debug)]
pub(super) struct Names {
    functions: Functions,
    found: BTreeMap<usize, Option<Symbol>>,
}

impl Names {
    pub(super) fn new() -> Names {
        Names {
            functions: Functions::of_this_program(),
            found: BTreeMap::new(),
        }
    }

    /// Returns the functions of a stack, innermost first, omitting those without a name.
    /// `addresses` are as sampled; `resolve` returns the symbol for an index into `addresses`, and
    /// is called once per distinct address.
    pub(super) fn functions(
        &mut self,
        addresses: impl Iterator<Item = usize>,
        resolve: impl Fn(usize) -> Option<Symbol>,
    ) -> Vec<Symbol> {
        let mut calls = Vec::new();
        for (depth, address) in addresses.enumerate() {
            // All addresses except the innermost are return addresses: the call is just before
            // them.
            let address = address - usize::from(depth > 0);
            let functions = &self.functions;
            let found = self.found.entry(address).or_insert_with(|| {
                let symbol = resolve(depth);
                match functions.name_at(address) {
                    None => symbol,
                    Some(name) => Some(Symbol {
                        name: Some(name.to_vec()),
                        addr: None,
                        lineno: symbol.as_ref().and_then(|symbol| symbol.lineno),
                        filename: symbol.and_then(|symbol| symbol.filename),
                    }),
                }
            });
            calls.extend(found.clone());
        }
        calls
    }
}

/// The functions of this program, by address.
#[derive(Debug, Default)]
struct Functions {
    /// The offset that the loader added to the addresses in the file.
    bias: usize,
    /// Start, end and name of each function as stored in the file, sorted by start.
    functions: Vec<(usize, usize, Vec<u8>)>,
}

impl Functions {
    /// Reads the symbol table of the running program; empty if there is none or it can't be read.
    fn of_this_program() -> Functions {
        let path = std::env::current_exe();
        let file = path.and_then(fs::read).unwrap_or_default();
        let Ok(object) = object::File::parse(&*file) else {
            return Functions::default();
        };
        let mut functions: Vec<_> = object
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
            .filter_map(|symbol| {
                let start = usize::try_from(symbol.address()).ok()?;
                let size = usize::try_from(symbol.size()).ok()?;
                let name = symbol.name_bytes().ok()?.to_vec();
                Some((start, start.saturating_add(size), name))
            })
            .collect();
        // Sorted by name, too, so that the choice among several names for one function is
        // deterministic.
        functions.sort_unstable();
        let mut bias = None;
        TargetSharedLibrary::each(|library| {
            // The program itself comes first.
            bias.get_or_insert(library.virtual_memory_bias().0);
        });
        Functions {
            bias: bias.unwrap_or(0),
            functions,
        }
    }

    /// Returns the name of the function that contains this address of the running program; `None`
    /// if there is none.
    fn name_at(&self, address: usize) -> Option<&[u8]> {
        let address = address.checked_sub(self.bias)?;
        let after = self
            .functions
            .partition_point(|(start, ..)| *start <= address);
        let (_, end, name) = self.functions.get(after.checked_sub(1)?)?;
        (address < *end).then_some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_an_address_inside_it() {
        let functions = Functions::of_this_program();
        let here = a_function_is_found_by_an_address_inside_it as fn() as usize;
        let name = functions.name_at(here + 1).expect("tests are not stripped");
        let name = String::from_utf8_lossy(name);
        assert!(
            name.contains("a_function_is_found_by_an_address_inside_it"),
            "{name}"
        );
        assert!(functions.name_at(0).is_none());
    }
}
