//! Encodes and decodes rows in ClickHouse's RowBinary format.

use uuid::Uuid;

#[derive(Debug, Default)]
pub struct Encoder(pub Vec<u8>);

impl Encoder {
    /// Appends the length of a string or an array.
    pub fn length(&mut self, length: usize) {
        let mut rest = length as u64;
        while rest >= 0x80 {
            self.0.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push((rest & 0x7f) as u8);
    }

    /// Appends a String or a LowCardinality(String).
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// Appends a String that may not be UTF-8.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    pub fn uuid(&mut self, value: Uuid) {
        let (high, low) = value.as_u64_pair();
        self.u64(high);
        self.u64(low);
    }

    pub fn array<T>(&mut self, values: impl ExactSizeIterator<Item = T>, mut append: impl FnMut(&mut Self, T)) {
        self.length(values.len());
        values.for_each(|value| append(self, value));
    }
}

#[derive(Debug)]
pub struct Decoder<'a>(pub &'a [u8]);

/// The response ends early or contains a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unexpected response from ClickHouse")]
pub struct Malformed;

impl<'a> Decoder<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads rows until the response ends.
    pub fn rows<T>(mut self, mut read: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let mut rows = Vec::new();
        while !self.is_empty() {
            rows.push(read(&mut self)?);
        }
        Ok(rows)
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| Malformed)
    }

    pub fn length(&mut self) -> Result<usize, Malformed> {
        let mut length = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            length |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(length).map_err(|_| Malformed);
            }
        }
        Err(Malformed)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        self.take(length)
    }

    /// Reads a String; fails if it isn't UTF-8.
    pub fn text(&mut self) -> Result<String, Malformed> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| Malformed)
    }

    pub fn uuid(&mut self) -> Result<Uuid, Malformed> {
        Ok(Uuid::from_u64_pair(self.u64()?, self.u64()?))
    }

    pub fn array<T>(&mut self, mut take: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let length = self.length()?;
        // Each element has at least one byte.
        if length > self.0.len() {
            return Err(Malformed);
        }
        (0..length).map(|_| take(self)).collect()
    }
}

/// Encodes and decodes numbers in their types' sizes: u8 also for Enum8, i64 also for DateTime64.
macro_rules! numbers {
    ($($number:ident)*) => {
        impl Encoder {
            $(pub fn $number(&mut self, value: $number) {
                self.0.extend_from_slice(&value.to_le_bytes());
            })*
        }

        impl Decoder<'_> {
            $(pub fn $number(&mut self) -> Result<$number, Malformed> {
                self.fixed().map($number::from_le_bytes)
            })*
        }
    };
}

numbers!(u8 u16 u32 i32 u64 i64 u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_round_trip() {
        let uuid = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff);
        let mut body = Encoder::default();
        for length in [0, 127, 128, 16_384, usize::MAX] {
            body.length(length);
        }
        body.text("é");
        body.i64(-1);
        body.u128(u128::MAX - 1);
        body.uuid(uuid);
        body.array([1_u16, 2].into_iter(), Encoder::u16);
        let mut response = Decoder(&body.0);
        for length in [0, 127, 128, 16_384, usize::MAX] {
            assert_eq!(response.length(), Ok(length));
        }
        assert_eq!(response.text().as_deref(), Ok("é"));
        assert_eq!((response.i64(), response.u128(), response.uuid()), (Ok(-1), Ok(u128::MAX - 1), Ok(uuid)));
        assert_eq!(response.array(Decoder::u16), Ok(vec![1, 2]));
        assert!(response.is_empty());
    }

    #[test]
    fn rejects_responses_that_end_early() {
        assert_eq!(Decoder(&[1]).u16(), Err(Malformed));
        assert_eq!(Decoder(&[5, b'a']).bytes(), Err(Malformed));
        assert_eq!(Decoder(&[200, 200, 200]).length(), Err(Malformed));
        assert_eq!(Decoder(&[255, 255, 3, 0]).array(Decoder::u8), Err(Malformed));
        assert_eq!(Decoder(&[1, 0xff]).text(), Err(Malformed));
    }
}
