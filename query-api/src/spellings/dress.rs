//! Letters and digits in another dress as the usual ones. Pure.
//!
//! Must rather undress too much than too little.

use unicode_normalization::UnicodeNormalization as _;

/// The noughts of the scripts that have ten digits in a row of their own.
const ZEROS: [u32; 60] = [
    0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0, 0xf20, 0x1040,
    0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0,
    0xa9f0, 0xaa50, 0xabf0, 0x104a0, 0x10d30, 0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0,
    0x11730, 0x118e0, 0x11950, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0, 0x16b50, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950,
];

/// The ASCII letters and digits of a text, in lower case: full-width, circled, raised and mathematical ones are what they are
/// variants of, and digits of other scripts are ours.
pub(super) fn undressed(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            plain.extend(Some(c).filter(char::is_ascii_alphanumeric));
        } else if let Some(zero) = ZEROS.iter().find(|zero| (**zero..**zero + 10).contains(&u32::from(c))) {
            plain.extend(char::from_digit(u32::from(c) - zero, 10));
        } else {
            plain.extend(std::iter::once(c).nfkd().filter(char::is_ascii_alphanumeric));
        }
    }
    plain.make_ascii_lowercase();
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_letters_of_any_dress_are_the_usual_ones() {
        for dressed in [
            "12af",
            "１２ａｆ",
            "①②ⓐⓕ",
            "❶❷af",
            "¹²ᵃf",
            "₁₂ₐf",
            "𝟏𝟐𝐚𝐟",
            "𝟙𝟚𝕒𝕗",
            "𝟷𝟸𝚊𝚏",
            "١٢af",
            "१२AF",
            "๑๒-af",
            "⑫af",
            "1\u{301}2áf",
            "🄫",
        ] {
            let expected = if dressed == "🄫" { "c" } else { "12af" };
            // Negative circled digits are variants of nothing.
            let expected = if dressed.starts_with('❶') { "af" } else { expected };
            assert_eq!(undressed(dressed), expected, "{dressed}");
        }
    }
}
