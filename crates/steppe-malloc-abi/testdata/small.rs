//! A small program for a compiler to compile: generics, traits, threads, collections.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::mpsc;

trait Count {
    fn count(&self) -> usize;
}

impl<K, V: Count> Count for HashMap<K, V> {
    fn count(&self) -> usize {
        self.values().map(Count::count).sum()
    }
}

impl<K, V> Count for BTreeMap<K, Vec<V>> {
    fn count(&self) -> usize {
        self.values().map(Vec::len).sum()
    }
}

fn words<T: Display>(numbers: impl Iterator<Item = T>) -> Vec<String> {
    numbers.map(|number| format!("word {number}")).collect()
}

fn main() {
    let (sender, receiver) = mpsc::channel();
    for thread in 1..=1000_usize {
        let sender = sender.clone();
        if thread % 250 != 0 {
            let _ = sender.send((thread, words(0..thread)));
            continue;
        }
        std::thread::spawn(move || sender.send((thread, words((0..thread).map(|n| n as f32)))));
    }
    drop(sender);
    let mut all: HashMap<usize, BTreeMap<usize, Vec<String>>> = HashMap::new();
    for (thread, words) in receiver {
        all.entry(thread % 7).or_default().insert(thread, words);
    }
    println!("{} words", all.count());
}
