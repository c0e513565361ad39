//! One request, before it is sent.

/// Where a request goes, by the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// To the path of its operation, by its method.
    Documented,
    /// To that path in other letters, which mean the same: `/drains/fir%65hose`.
    Respelt,
    /// To another path, or by another method.
    Astray,
}

#[derive(Clone, Debug)]
pub(super) struct Shot {
    /// Which operation it was made of.
    pub(super) operation: usize,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) aim: Aim,
}

impl Shot {
    pub(super) fn get(target: &str) -> Self {
        let target = target.to_owned();
        Self { operation: 0, method: "GET".to_owned(), target, headers: Vec::new(), body: None, aim: Aim::Documented }
    }
}
