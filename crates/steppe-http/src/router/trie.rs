//! Path tries: routes by the segments of their paths.
//!
//! Lookup goes depth first, literal before capture before rest, which is the order of
//! specificity. A node is reached by one sequence of segments only, so none is visited twice.

use crate::limits::PATTERN_SEGMENTS_MAX;
use crate::path::{PatternSegment, SegmentNames, compare_decoded};

/// All nodes of all hosts' tries.
#[derive(Debug, Default)]
pub(super) struct PathTrie {
    nodes: Vec<Node>,
}

/// The decoded bytes of a literal segment, and the node behind it.
type Child = (Box<[u8]>, usize);

/// What may follow a sequence of segments.
#[derive(Debug, Default)]
struct Node {
    /// Sorted by their decoded bytes.
    literals: Vec<Child>,
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
        let place = self.nodes[node]
            .literals
            .binary_search_by(|(text, _)| (**text).cmp(literal));
        match place {
            Ok(found) => self.nodes[node].literals[found].1,
            Err(place) => {
                let child = self.add_root();
                self.nodes[node]
                    .literals
                    .insert(place, (literal.into(), child));
                child
            }
        }
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
    fn child(&self, name: &[u8]) -> Option<usize> {
        let place = if memchr::memchr(b'%', name).is_none() {
            self.literals
                .binary_search_by(|(literal, _): &Child| (**literal).cmp(name))
        } else {
            let order = |(literal, _): &Child| compare_decoded(name, literal).reverse();
            self.literals.binary_search_by(order)
        };
        Some(self.literals[place.ok()?].1)
    }
}

fn first(routes: &[usize], accept: &mut impl FnMut(usize) -> bool) -> Option<usize> {
    routes.iter().copied().find(|&route| accept(route))
}
