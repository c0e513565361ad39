//! Rules for names that others see in lists, webhooks and emails.
//!
//! Rejects names that imitate something else: links, mixed scripts with similar letters, invisible characters. Accepts names in any single
//! script, and the script mixes of Chinese, Japanese and Korean, also with Latin.

use unicode_normalization::UnicodeNormalization;
use unicode_security::general_security_profile::IdentifierType;
use unicode_security::mixed_script::AugmentedScriptSet;
use unicode_security::{GeneralSecurityProfile, skeleton};

/// Maximum number of marks on one character. Vietnamese, Hebrew and Thai need three.
const MAX_MARKS: usize = 4;

/// Browsers and mail programs read this character as the dot in a host name. NFKC folds its half-width form to it, and the full-width dot
/// to `.`.
const IDEOGRAPHIC_FULL_STOP: char = '\u{3002}';

/// Returns the reason why the string isn't a valid name.
pub(super) fn fault_of(text: &str) -> Option<&'static str> {
    let folded = text.nfkc().collect::<String>().to_lowercase().replace(IDEOGRAPHIC_FULL_STOP, ".");
    if folded.contains(is_slash) || folded.contains("www.") || folded.contains("www .") {
        return Some("must not contain ://, / or www., because emails would show it as a link");
    }
    if text.chars().any(is_of_no_script) || mixes_scripts(text) {
        return Some("must use letters of a single script; only Chinese, Japanese and Korean can be combined with Latin");
    }
    if looks_latin(text) {
        return Some("must not consist only of non-Latin letters that look like Latin ones; add a word with other letters");
    }
    if has_substitutes(text) {
        return Some("must not contain full-width, circled or similar letters; use plain ones");
    }
    if has_piled_marks(text) {
        return Some("must not have more than four marks on a character");
    }
    None
}

/// Returns whether a character is invisible or affects others: zero-width characters, direction changes, line breaks, private
/// use, blank braille (Unicode: `Default_Ignorable_Code_Point`).
pub(crate) fn is_unseen(char: char) -> bool {
    matches!(
        char,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffd}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{10ffff}'
    )
}

/// Returns whether a character is a slash or looks like one or more slashes (UTS #39). Letters don't count, such as the Japanese `ノ`.
fn is_slash(char: char) -> bool {
    let is_plain = |char| matches!(char, '/' | '\\');
    let mut buffer = [0; 4];
    let mut looks = skeleton(char.encode_utf8(&mut buffer)).peekable();
    let is_letter = char.identifier_type() == Some(IdentifierType::Recommended);
    is_plain(char) || (!is_letter && looks.peek().is_some() && looks.all(is_plain))
}

/// Returns whether a character belongs to the mathematical alphabets: Latin and Greek letters without a script.
fn is_of_no_script(char: char) -> bool {
    matches!(char, '\u{1d400}'..='\u{1d7ff}')
}

/// Returns whether a name is neither in one script nor in Latin with one of the East Asian mixes: like "highly restrictive" in
/// UTS #39, but for names, which can contain spaces and commas.
fn mixes_scripts(text: &str) -> bool {
    let latin = AugmentedScriptSet::for_char('a');
    let (mut all, mut beside_latin) = (AugmentedScriptSet::default(), AugmentedScriptSet::default());
    for char in text.chars() {
        let of_char = AugmentedScriptSet::for_char(char);
        all.intersect_with(of_char);
        let mut as_latin = of_char;
        as_latin.intersect_with(latin);
        if as_latin.is_empty() {
            beside_latin.intersect_with(of_char);
        }
    }
    let is_east_asian = beside_latin.hanb || beside_latin.jpan || beside_latin.kore;
    all.is_empty() && !is_east_asian
}

/// Returns whether all letters of a script other than Latin look like ASCII: `Арре` is entirely Cyrillic. Compares only letters' skeletons
/// (UTS #39), so that a symbol doesn't disguise them. An accent is visible.
fn looks_latin(text: &str) -> bool {
    let is_foreign = |char: &char| char.is_alphabetic() && !may_be_latin(*char);
    let mut foreign = text.nfc().filter(is_foreign).peekable();
    foreign.peek().is_some() && foreign.all(|char| skeleton(char.encode_utf8(&mut [0; 4])).all(|char| char.is_ascii()))
}

/// Returns whether there are substitutes for plain Latin letters (Unicode: compatibility characters): `Ａｐｐｌｅ`, `Ⓐpple`. Full-width letters
/// and Roman numerals are normal next to Chinese, Japanese or Korean, and ordinals are normal everywhere.
fn has_substitutes(text: &str) -> bool {
    let is_beside_east_asian = text.chars().any(is_east_asian);
    let is_honest = |char: char| match char {
        'ª' | 'º' => true,
        '\u{2160}'..='\u{217f}' | '\u{ff21}'..='\u{ff3a}' | '\u{ff41}'..='\u{ff5a}' => is_beside_east_asian,
        _ => char.is_ascii() || !char.is_alphabetic(),
    };
    let stands_for_plain = |char: char| char.nfkc().all(|plain| plain.is_ascii_alphabetic()) || is_out_of_use(char);
    text.chars().any(|char| !is_honest(char) && stands_for_plain(char))
}

/// Returns whether a character is a phonetic or obsolete Latin letter that looks like plain ones: `ɡ`, `ǀ`, `ꝏ` (UTS #39: "technical" and
/// "obsolete"). Letters of living languages are accepted, such as the Turkish `ı` and the `ʋ` in Ewe.
fn is_out_of_use(char: char) -> bool {
    let is_of_no_language = matches!(char.identifier_type(), Some(IdentifierType::Technical | IdentifierType::Obsolete));
    let looks_plain = || skeleton(char.encode_utf8(&mut [0; 4])).all(|char| char.is_ascii_alphanumeric());
    char.is_alphabetic() && is_of_no_language && may_be_latin(char) && looks_plain()
}

fn is_east_asian(char: char) -> bool {
    let of_char = AugmentedScriptSet::for_char(char);
    !may_be_latin(char) && (of_char.hanb || of_char.jpan || of_char.kore)
}

fn may_be_latin(char: char) -> bool {
    let mut as_latin = AugmentedScriptSet::for_char(char);
    as_latin.intersect_with(AugmentedScriptSet::for_char('a'));
    !as_latin.is_empty()
}

fn has_piled_marks(text: &str) -> bool {
    let mut marks = 0;
    text.nfd().any(|char| {
        marks = if unicode_normalization::char::is_combining_mark(char) { marks + 1 } else { 0 };
        marks > MAX_MARKS
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_names_in_one_script_or_east_asian_mixes() {
        for name in [
            "Example Publisher",
            "Smith, Jones & Co. (2026)",
            "L'Équipe – Études n° 5",
            "Zażółć gęślą jaźń",
            "Øresund Ærø Þór",
            "Công ty Trách nhiệm Hữu hạn Nguyễn",
            "Türkçe İstanbul ışık",
            "Eʋegbe Ɣletsi",
            "Kabɩyɛ",
            "Hawaiʻi ʼEua",
            "100 % Œuvre",
            "Яндекс 24",
            "ТАСС, Россия",
            "Ёре",
            "Время",
            "Το Βήμα",
            "Українська правда",
            "Ελληνική Εταιρεία",
            "חדשות היום, בע״מ",
            "שָׁלוֹם",
            "الجزيرة ١٢٣",
            "شرکت خبری",
            "दैनिक जागरण १२",
            "প্রথম আলো",
            "தினமலர்",
            "ข่าวสด น้ำ",
            "ქართული",
            "Հայաստան",
            "አዲስ ዘመን",
            "ᏣᎳᎩ",
            "人民日报",
            "中央社 ㄅㄆㄇ",
            "朝日新聞デジタル",
            "ソニー・ミュージック",
            "NHKニュース・おはよう日本",
            "一ノ瀬々 ヶ丘",
            "ノジマ ﾉﾉ",
            "조선일보",
            "한겨레 新聞 Korea",
            "QQ音乐",
            "ＡＢＣ放送",
            "Booking.com",
            "3M",
            "7-Eleven™ + 100 %",
            "Ünïcödé 😀",
            "µTorrent",
            "1º de Mayo, S.A. 2ª",
            "ファイナルファンタジーⅡ",
            "ＫＢＳ 한국방송",
            "２４ Stunden",
        ] {
            assert_eq!(fault_of(name), None, "{name}");
            assert!(!name.chars().any(is_unseen), "{name}");
        }
    }

    #[test]
    fn a10_rejects_names_that_look_like_links() {
        for name in [
            "your account is locked, go to https://evil.example",
            "evil.example/login",
            "WWW.evil.example",
            "visit www.evil.example now",
            "https:／／evil.example",
            "ｗｗｗ．evil.example",
            "ℎttp:⁄⁄evil.example/",
            "c℅o",
            "www。evil",
            "www｡evil",
            "www .evil",
            "https:\\\\evil",
            "https:∕∕evil",
            "a⧸b",
            "a╱b",
            "a⟋b",
            "a╲b",
            "https:⫽evil",
        ] {
            assert!(fault_of(name).is_some_and(|why| why.contains("www.")), "{name}");
        }
    }

    #[test]
    fn a14_rejects_names_that_look_like_another() {
        for name in [
            "Аpple",
            "Apple Аpple",
            "Gооgle",
            "Microsоft",
            "ΑΒC News",
            "Tһe Times",
            "Яндекс LLC",
            "Amazon ا",
            "Bank עברית",
            "𝐀pple",
            "𝙶𝚘𝚘𝚐𝚕𝚎",
            "日本Почта",
            "朝日한겨레ニュース",
            "Z\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}algo",
        ] {
            assert!(fault_of(name).is_some(), "{name}");
        }
    }

    #[test]
    fn rejects_other_scripts_that_look_latin() {
        for name in
            ["Арре", "АРРӏЕ", "ѕсоре", "ТАСС", "Арре 24 – 😀 ™", "ΤΟ ΒΗΜΑ", "ορο", "ꓮꓑꓑꓡꓰ", "ᎪᏢᏢᏞᎬ", "օսո", "http:ノノevil", "ا"]
        {
            assert!(fault_of(name).is_some_and(|why| why.contains("look like Latin")), "{name}: {:?}", fault_of(name));
        }
    }

    #[test]
    fn rejects_substitutes_for_latin_letters() {
        for name in [
            "Ａｐｐｌｅ",
            "Google Ｎews",
            "Ⓐpple",
            "ⓖⓞⓞⓖⓛⓔ",
            "ℳicrosoft",
            "ﬁnance",
            "Appˡe",
            "ſtripe",
            "Ⅴisa",
            "日本 Ⓐpple",
            "Ａｐｐｌｅ Привет",
            "ɡoogle",
            "ǀnvest",
            "Gꝏgle",
            "ᴏracle",
            "visɑ",
        ] {
            assert!(fault_of(name).is_some(), "{name}");
        }
        for name in ["Ａｐｐｌｅ", "Ⓐpple", "ﬁnance", "日本 Ⓐpple", "ɡoogle", "ǀnvest"] {
            assert!(fault_of(name).is_some_and(|why| why.contains("use plain ones")), "{name}: {:?}", fault_of(name));
        }
    }

    #[test]
    fn detects_invisible_characters() {
        let unseen = concat!(
            "\u{200b}\u{200c}\u{200d}\u{200e}\u{2060}\u{feff}\u{202e}\u{2066}\u{ad}\u{34f}\u{115f}\u{3164}",
            "\u{ffa0}\u{fe0f}\u{e0041}\u{e0100}\u{180e}\u{2800}\u{2029}\u{206a}\u{fffd}\u{e000}\u{10ffff}",
        );
        for char in unseen.chars() {
            assert!(is_unseen(char), "{:x}", u32::from(char));
        }
        for char in ['a', ' ', '\u{a0}', '\u{3000}', '\u{2019}', '\u{202f}', '\u{301}', '\u{1f600}', '\u{30fc}'] {
            assert!(!is_unseen(char), "{:x}", u32::from(char));
        }
    }
}
