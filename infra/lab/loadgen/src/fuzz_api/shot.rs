//! One request, before it is sent.

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// Which operation it was made of.
    pub(super) operation: usize,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Option<Vec<u8>>,
    /// Whether it goes to another path, or by another method, than the document says.
    pub(super) is_astray: bool,
}

impl Shot {
    pub(super) fn get(target: &str) -> Self {
        let target = target.to_owned();
        Self { operation: 0, method: "GET".to_owned(), target, headers: Vec::new(), body: None, is_astray: false }
    }
}
