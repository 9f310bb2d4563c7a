//! Kinds: a loss model, a queue discipline, a scheduler, a channel and a convergence layer are each one of a list of members.

/// Defines the specification of a kind: an enum with one variant per member. The text `$tag` is the key that names the
/// member in the resolved run. A member is a specification type with an associated constant `DESCRIPTOR` that
/// implements the factory trait of the kind.
#[macro_export]
macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $tag:literal, $factory:ident {
        $($(#[$attribute:meta])* $variant:ident($member:ty)),+ $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema, PartialEq)]
        #[serde(tag = $tag, rename_all = "snake_case", deny_unknown_fields)]
        #[allow(missing_docs)] // the types of the members have them
        pub enum $name {
            $($(#[$attribute])* $variant($member)),+
        }

        impl $name {
            /// The descriptors of all members in the order of the manual.
            pub const DESCRIPTORS: &'static [&'static $crate::Descriptor] =
                &[$(&<$member>::DESCRIPTOR),+];

            /// Returns the descriptor of the member.
            pub fn descriptor(&self) -> &'static $crate::Descriptor {
                match self {
                    $($name::$variant(_) => &<$member>::DESCRIPTOR),+
                }
            }

            /// Returns the specification of the member as a factory.
            pub(crate) fn factory(&self) -> &dyn $factory {
                match self {
                    $($name::$variant(member) => member),+
                }
            }
        }

        $(impl From<$member> for $name {
            fn from(member: $member) -> $name {
                $name::$variant(member)
            }
        })+
    };
}
