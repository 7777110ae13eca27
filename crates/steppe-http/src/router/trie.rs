//! Path tries: routes by the segments of their paths.
//!
//! Lookup goes depth first, literal before capture before rest, which is the order of
//! specificity. A node is reached by one sequence of segments only, so none is visited twice.

use hashbrown::HashTable;

use crate::limits::PATTERN_SEGMENTS_MAX;
use crate::path::{PatternSegment, SegmentNames, compare_decoded, decoded};

/// All nodes of all hosts' tries.
#[derive(Debug, Default)]
pub(super) struct PathTrie {
    nodes: Vec<Node>,
}

/// The decoded bytes of a literal segment, and the node behind it.
type Child = (Box<[u8]>, usize);

/// The continuations of a sequence of segments.
#[derive(Debug, Default)]
struct Node {
    /// By the [`hash`] of their decoded bytes.
    literals: HashTable<Child>,
    capture: Option<usize>,
    /// Routes that end with `{rest*}` here.
    rest: Vec<usize>,
    /// Routes that end here.
    here: Vec<usize>,
}

// `find` calls itself once a segment.
const _: () = assert!(PATTERN_SEGMENTS_MAX <= 256);

impl PathTrie {
    pub(super) fn add_root(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Adds a route below `root`, behind those with the same path.
    pub(super) fn insert(&mut self, root: usize, path: &[PatternSegment], route: usize) {
        let mut node = root;
        for segment in path {
            node = match segment {
                PatternSegment::Literal(literal) => self.literal(node, literal),
                PatternSegment::Capture(_) => self.capture(node),
                PatternSegment::Rest(_) => return self.nodes[node].rest.push(route),
            };
        }
        self.nodes[node].here.push(route);
    }

    fn literal(&mut self, node: usize, literal: &[u8]) -> usize {
        let hash_of = |(text, _): &Child| hash(text.iter().copied());
        let key = hash(literal.iter().copied());
        let literals = &self.nodes[node].literals;
        if let Some(&(_, child)) = literals.find(key, |(text, _)| **text == *literal) {
            return child;
        }
        let child = self.add_root();
        let literals = &mut self.nodes[node].literals;
        literals.insert_unique(key, (literal.into(), child), hash_of);
        child
    }

    fn capture(&mut self, node: usize) -> usize {
        if let Some(child) = self.nodes[node].capture {
            return child;
        }
        let child = self.add_root();
        self.nodes[node].capture = Some(child);
        child
    }

    /// The first route below `root` that has this path and is accepted, most specific first.
    pub(super) fn find(
        &self,
        root: usize,
        path: &[u8],
        accept: &mut impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        self.descend(root, SegmentNames::new(path), accept)
    }

    fn descend(
        &self,
        node: usize,
        mut names: SegmentNames<'_>,
        accept: &mut impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let node = &self.nodes[node];
        let Some(name) = names.next() else {
            return first(&node.here, accept);
        };
        let literal = node.child(name);
        let capture = node.capture.filter(|_| !name.is_empty());
        literal
            .and_then(|child| self.descend(child, names.clone(), accept))
            .or_else(|| capture.and_then(|child| self.descend(child, names, accept)))
            .or_else(|| first(&node.rest, accept))
    }
}

impl Node {
    /// The node behind the literal that a segment stands for.
    fn child(&self, name: &[u8]) -> Option<usize> {
        if self.literals.is_empty() {
            return None;
        }
        let is_it = |(literal, _): &Child| compare_decoded(name, literal).is_eq();
        let found = self.literals.find(hash(decoded(name)), is_it);
        found.map(|&(_, child)| child)
    }
}

/// FNV-1a. The literals are the configuration's, so nobody can make them collide.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    bytes.fold(OFFSET_BASIS, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    })
}

fn first(routes: &[usize], accept: &mut impl FnMut(usize) -> bool) -> Option<usize> {
    routes.iter().copied().find(|&route| accept(route))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PathPattern;

    #[test]
    fn of_many_literals_each_is_found_however_it_is_spelled() {
        const ROUTES: usize = 1_000;
        let mut trie = PathTrie::default();
        let root = trie.add_root();
        for route in 0..ROUTES {
            let path = PathPattern::parse(&format!("/v:{route}/{{rest*}}")).expect("valid");
            trie.insert(root, path.segments(), route);
        }
        let find = |path: &str| trie.find(root, path.as_bytes(), &mut |_| true);
        for route in 0..ROUTES {
            for path in [format!("/v:{route}/a"), format!("/v%3A{route}/a")] {
                assert_eq!(find(&path), Some(route), "{path}");
            }
        }
        for path in [
            "/v:1",
            "/v:1000/a",
            "/v:/a",
            "/V:1/a",
            "/v%3B1/a",
            "/v%3A1%/a",
            "/",
        ] {
            assert_eq!(find(path), None, "{path}");
        }
    }
}
