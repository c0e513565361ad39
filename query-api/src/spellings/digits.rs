//! Bytes and numbers in the digits that people and programs write them in. Pure.
//!
//! Must not know what is looked for.

/// Digits in which an id can be written as one number; hexadecimal is looked for by itself.
pub(super) const NUMERALS: [&[u8]; 10] = [
    b"01",
    b"01234567",
    b"0123456789",
    b"0123456789abcdefghijklmnopqrstuvwxyz",
    CROCKFORD,
    RFC4648,
    // Base 58, as Bitcoin and as Flickr write it, and base 62 in its three orders.
    b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    b"123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
];
/// Base 32 as ULIDs are written, folded to lower case.
pub(super) const CROCKFORD: &[u8] = b"0123456789abcdefghjkmnpqrstvwxyz";
pub(super) const RFC4648: &[u8] = b"abcdefghijklmnopqrstuvwxyz234567";
/// Digits of base 32, five bits each.
pub(super) const BASE32: [&[u8]; 3] = [RFC4648, b"0123456789abcdefghijklmnopqrstuv", CROCKFORD];

/// Digits of base 85: as PostScript and PDF write them, as ZeroMQ does, and as RFC 1924 and Python do.
pub(super) const BASE85: [&[u8]; 3] = [
    b"!\"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrstu",
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#",
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~",
];

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes one after the other as numbers, in tens and in eights, with zeros before them and without.
pub(super) fn byte_by_byte(bytes: &[u8]) -> [String; 4] {
    let spell = |spell: fn(&u8) -> String| bytes.iter().map(spell).collect();
    [spell(|b| format!("{b}")), spell(|b| format!("{b:03}")), spell(|b| format!("{b:o}")), spell(|b| format!("{b:03o}"))]
}

/// Five bits a digit, the last one filled up with zeros.
pub(super) fn base32(bytes: &[u8], digits: &[u8]) -> String {
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let digit = |five: &[u8]| (0..5).fold(0, |value, place| value << 1 | usize::from(*five.get(place).unwrap_or(&0)));
    bits.chunks(5).map(|five| char::from(digits[digit(five)])).collect()
}

/// Four bytes in five digits; whole groups only, which an id and its usual texts are.
pub(super) fn base85(bytes: &[u8], digits: &[u8]) -> String {
    let group = |four: &[u8]| {
        let value = four.iter().fold(0, |value, byte| value << 8 | usize::from(*byte));
        (0..5).rev().map(move |place| value / 85_usize.pow(place) % 85)
    };
    bytes.chunks_exact(4).flat_map(group).map(|digit| char::from(digits[digit])).collect()
}

pub(super) fn number(mut value: u128, digits: &[u8]) -> String {
    let base = digits.len() as u128;
    let mut text = Vec::new();
    while value > 0 {
        text.push(digits[usize::try_from(value % base).expect("a digit is small")]);
        value /= base;
    }
    text.iter().rev().map(|digit| char::from(*digit)).collect()
}
