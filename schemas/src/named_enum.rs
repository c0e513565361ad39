//! Defines enums with one name per value, used in JSON, tables and messages.

macro_rules! named_enum {
    ($(#[$about:meta])* pub enum $name:ident { $($(#[$says:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$says])* #[serde(rename = $text)] $value,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::identity::UnknownName;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|value| value.as_str() == name);
                found.ok_or_else(|| $crate::identity::UnknownName(name.to_owned()))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use crate::identity::Scope;

    #[test]
    fn names_match_json_and_round_trip() {
        for scope in Scope::ALL {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert!("Telemetry:read".parse::<Scope>().is_err());
    }
}
