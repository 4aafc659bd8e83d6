//! The rows as a document.
