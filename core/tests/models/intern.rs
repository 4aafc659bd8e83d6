//! Names and numbers: one name has one number, and a thread with the number finds the name.

use podstorm::intern::KeyTable;

use crate::checker::sync::Arc;
use crate::{beside, check};

#[test]
fn threads_that_intern_a_new_key_agree_on_its_number() {
    check(3, || {
        let table = Arc::new(KeyTable::new());
        let other = beside(&table, |table| {
            let key = table.intern("ns", "a");
            assert_eq!(&*table.key(key).name, "a");
            key
        });
        let before = table.intern("ns", "b");
        let here = table.intern("ns", "a");
        assert_eq!(here, other.join().unwrap());
        assert_ne!(here, before);
        assert_eq!(table.find("ns", "b"), Some(before));
        assert_eq!(table.len(), 2);
    });
}
