//! The macros that declare sections. A declaration is the only place where a section and its keys are listed.

/// Declares a section. Each line is one of:
///
/// - `when key: Type = default, rule;`: a key. `when` is `reload` or `restart`: when a change takes effect.
/// - `section name: Type;`: a nested section, with `= default` if it is not empty where the file does not contain it.
/// - `inline name: Type;`: the keys of another section, in this section's table.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])+
        $type:ident {
            $(
                $(#[doc = $doc:literal])+
                $kind:ident $name:ident : $value:ty $(= $default:expr $(, $rule:expr)?)? ;
            )+
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $type {
            $( $(#[doc = $doc])+ pub $name: $value, )+
        }

        impl Default for $type {
            fn default() -> Self {
                Self { $( $name: section!(@default $value $(, $default)?), )+ }
            }
        }

        impl $crate::config::section::Section for $type {
            const DOC: &'static str = concat!($($section_doc, "\n"),+);

            fn read(table: &$crate::config::read::TableReader<'_, '_>) -> Self {
                Self { $( $name: section!(@read table $kind $name $value $(, $default $(, $rule)?)?), )+ }
            }

            fn members() -> Vec<$crate::config::section::Member> {
                let mut members = Vec::new();
                $( members.extend(section!(@members $kind $name $value, concat!($($doc, "\n"),+) $(, $default $(, $rule)?)?)); )+
                members
            }

            fn values(&self) -> $crate::config::section::Values {
                let mut values = Vec::new();
                $( section!(@values values $kind $name &self.$name); )+
                values
            }
        }
    };

    (@default $value:ty) => { <$value>::default() };
    (@default $value:ty, $default:expr) => { $default };

    (@read $table:ident section $name:ident $value:ty $(, $default:expr)?) => {
        <$value as $crate::config::section::Nested>::read_in($table, stringify!($name), section!(@default $value $(, $default)?))
    };
    (@read $table:ident inline $name:ident $value:ty) => {
        <$value as $crate::config::section::Section>::read($table)
    };
    (@read $table:ident $changes:ident $name:ident $value:ty, $default:expr, $rule:expr) => {
        $table.value::<$value>(stringify!($name), $default, &$rule)
    };

    (@members section $name:ident $value:ty, $doc:expr $(, $default:expr)?) => {
        [<$value as $crate::config::section::Nested>::member(stringify!($name))]
    };
    (@members inline $name:ident $value:ty, $doc:expr) => {
        <$value as $crate::config::section::Section>::members()
    };
    (@members $changes:ident $name:ident $value:ty, $doc:expr, $default:expr, $rule:expr) => {
        [$crate::config::section::Member::key($crate::config::catalogue::Key::new::<$value>(
            stringify!($name),
            $doc,
            section!(@changes $changes),
            &$default,
            &$rule,
        ))]
    };

    (@values $values:ident section $name:ident $field:expr) => {
        $values.extend($crate::config::section::Nested::value($field).map(|value| (stringify!($name), value)))
    };
    (@values $values:ident inline $name:ident $field:expr) => {
        $values.extend($crate::config::section::Section::values($field))
    };
    (@values $values:ident $changes:ident $name:ident $field:expr) => {
        $values.extend(
            $crate::config::values::Setting::to_toml($field)
                .map(|text| (stringify!($name), $crate::config::section::Value::Key(text))),
        )
    };

    (@changes reload) => { $crate::config::catalogue::Changes::Reload };
    (@changes restart) => { $crate::config::catalogue::Changes::Restart };
}
pub(crate) use section;

/// Declares a section whose first key selects the others: `when key = { … }`, with the default first. Each choice is a line
/// `Variant = "word",` or `Variant(Section) = "word",` with the section that declares its keys.
macro_rules! choice {
    (
        $(#[doc = $section_doc:literal])+
        $type:ident {
            $(#[doc = $doc:literal])+
            $changes:ident $key:ident = {
                $(#[doc = $default_doc:literal])+
                $default:ident $(($default_section:ty))? = $default_word:literal,
                $( $(#[doc = $variant_doc:literal])+ $variant:ident $(($section:ty))? = $word:literal, )+
            }
        }
    ) => {
        $(#[doc = $section_doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub enum $type {
            $(#[doc = $default_doc])+
            $default $(($default_section))?,
            $( $(#[doc = $variant_doc])+ $variant $(($section))?, )+
        }

        impl $type {
            const WORDS: &'static [&'static str] = &[$default_word, $($word),+];

            /// The word in the file.
            pub const fn word(&self) -> &'static str {
                match self {
                    Self::$default { .. } => $default_word,
                    $( Self::$variant { .. } => $word, )+
                }
            }
        }

        impl Default for $type {
            fn default() -> Self {
                Self::$default $((<$default_section>::default()))?
            }
        }

        impl $crate::config::section::Section for $type {
            const DOC: &'static str = concat!($($section_doc, "\n"),+);

            fn read(table: &$crate::config::read::TableReader<'_, '_>) -> Self {
                use $crate::config::section::Section;
                match table.choice(stringify!($key), Self::WORDS) {
                    $( $word => Self::$variant $((<$section as Section>::read(table)))?, )+
                    _ => Self::$default $((<$default_section as Section>::read(table)))?,
                }
            }

            fn members() -> Vec<$crate::config::section::Member> {
                use $crate::config::section::{Member, add_choice};
                let mut members = vec![Member::key($crate::config::catalogue::Key::of_choice(
                    stringify!($key),
                    concat!($($doc, "\n"),+),
                    $crate::config::declare::section!(@changes $changes),
                    Self::WORDS,
                ))];
                let choice = |word: &str| format!("{} = \"{word}\"", stringify!($key));
                let mut add = |word: &str, added: Vec<Member>| add_choice(&mut members, &choice(word), added);
                $( add($default_word, <$default_section as $crate::config::section::Section>::members()); )?
                $( $( add($word, <$section as $crate::config::section::Section>::members()); )? )+
                members
            }

            fn values(&self) -> $crate::config::section::Values {
                use $crate::config::section::Value;
                let word = $crate::config::values::quoted(self.word());
                let mut values = vec![(stringify!($key), Value::Key(word))];
                $( if let Self::$default(chosen) = self {
                    values.extend(<$default_section as $crate::config::section::Section>::values(chosen));
                } )?
                $( $( if let Self::$variant(chosen) = self {
                    values.extend(<$section as $crate::config::section::Section>::values(chosen));
                } )? )+
                values
            }
        }
    };
}
pub(crate) use choice;
