//! Descriptors: what a scenario may write for each member of a kind, such as a loss model or a congestion controller.
//! Validation, the scenario's tables in Python, messages and the manual's option tables come from them.

use serde::Serialize;

/// One member of a kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Descriptor {
    /// The name in the scenario. Empty if a scenario reaches the member only through another table.
    pub scenario_name: &'static str,
    /// The tag in the resolved run.
    pub spec_kind: &'static str,
    /// Other names, in lower case. A scenario may use those of a controller or of a convergence layer; those of other
    /// kinds are suggestions.
    pub aliases: &'static [&'static str],
    /// A title of one line for users.
    pub title: &'static str,
    /// The specification of the algorithm; empty if there is none.
    pub reference: &'static str,
    /// The options in the order of the manual.
    pub options: &'static [Opt],
    /// Whether the member draws random numbers.
    pub draws: bool,
    /// The name of the member where the settings of a running path are shown; empty if they show a value instead.
    pub live_name: &'static str,
}

/// One option of a member.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Opt {
    /// The key in the scenario. Empty if the planner supplies the value.
    pub key: &'static str,
    /// The path of the field in the resolved run, separated by dots. `*`: a hook returns several fields. Empty if the
    /// value is part of other fields.
    pub spec_field: &'static str,
    /// The type of the value.
    #[serde(flatten)]
    pub quantity: Quantity,
    /// The smallest value, in the unit of the resolved run.
    pub min: Option<f64>,
    /// The largest value, in the unit of the resolved run.
    pub max: Option<f64>,
    /// The value of an absent option, in the unit of the resolved run.
    pub default: DefaultValue,
    /// Whether the resolved run lacks the field where the option has its default.
    pub omitted: bool,
    /// Whether the scenario must give a value.
    pub required: bool,
    /// The effect, for messages and the manual.
    pub meaning: &'static str,
}

/// The type of an option's value: its form in the scenario and its unit in the resolved run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "quantity", content = "argument", rename_all = "snake_case")]
pub enum Quantity {
    /// A duration; nanoseconds.
    Duration,
    /// A rate; bits per second.
    Rate,
    /// A size; bytes.
    Size,
    /// A probability.
    Probability,
    /// A ratio in decibels.
    Decibels,
    /// A frequency; hertz.
    Frequency,
    /// A speed; metres per second.
    Speed,
    /// An angle; degrees.
    Angle,
    /// A distance; metres.
    Distance,
    /// A symbol rate; symbols per second.
    SymbolRate,
    /// A number.
    Number,
    /// An integer.
    Integer,
    /// True or false.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The word at the place of the member's name among its names and aliases.
    ByName(&'static [&'static str]),
    /// A value that depends on the rest of the scenario: the planner's function of this name resolves it.
    Hook(&'static str),
}

/// The value of an absent option.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum DefaultValue {
    /// No value: the option is required, or its absence has a meaning of its own.
    Absent,
    /// A number.
    Number(f64),
    /// An integer.
    Integer(u64),
    /// True or false.
    Flag(bool),
    /// A word.
    Word(&'static str),
}

impl Descriptor {
    /// Returns the names in the scenario.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.scenario_name).chain(self.aliases.iter().copied())
    }

    /// Returns whether a scenario may use `name`.
    pub fn has_name(&self, name: &str) -> bool {
        self.names().any(|one| one == name)
    }
}

impl Opt {
    const fn new(
        key: &'static str,
        spec_field: &'static str,
        quantity: Quantity,
        meaning: &'static str,
    ) -> Opt {
        Opt {
            key,
            spec_field,
            quantity,
            min: None,
            max: None,
            default: DefaultValue::Absent,
            omitted: false,
            required: false,
            meaning,
        }
    }

    /// Describes a duration.
    pub const fn duration(
        key: &'static str,
        spec_field: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::Duration, meaning)
    }

    /// Describes a rate.
    pub const fn rate(key: &'static str, spec_field: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, spec_field, Quantity::Rate, meaning)
    }

    /// Describes a size.
    pub const fn size(key: &'static str, spec_field: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, spec_field, Quantity::Size, meaning)
    }

    /// Describes a ratio in decibels.
    pub const fn decibels(
        key: &'static str,
        spec_field: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::Decibels, meaning)
    }

    /// Describes a frequency.
    pub const fn frequency(
        key: &'static str,
        spec_field: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::Frequency, meaning)
    }

    /// Describes a speed.
    pub const fn speed(key: &'static str, spec_field: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, spec_field, Quantity::Speed, meaning)
    }

    /// Describes an angle.
    pub const fn angle(key: &'static str, spec_field: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, spec_field, Quantity::Angle, meaning)
    }

    /// Describes a distance.
    pub const fn distance(
        key: &'static str,
        spec_field: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::Distance, meaning)
    }

    /// Describes a probability; the field of the resolved run is called like the key.
    pub const fn probability(key: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, key, Quantity::Probability, meaning).min(0.0).max(1.0)
    }

    /// Describes a number in a closed range.
    pub const fn number(key: &'static str, min: f64, max: f64, meaning: &'static str) -> Opt {
        Opt::new(key, key, Quantity::Number, meaning).min(min).max(max)
    }

    /// Describes an integer in a closed range.
    pub const fn integer(key: &'static str, min: u64, max: u64, meaning: &'static str) -> Opt {
        Opt::new(key, key, Quantity::Integer, meaning).min(min as f64).max(max as f64)
    }

    /// Describes a switch.
    pub const fn flag(key: &'static str, meaning: &'static str) -> Opt {
        Opt::new(key, key, Quantity::Flag, meaning)
    }

    /// Describes a choice of words.
    pub const fn choice(
        key: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, key, Quantity::Choice(words), meaning)
    }

    /// Describes a symbol rate.
    pub const fn symbol_rate(
        key: &'static str,
        spec_field: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::SymbolRate, meaning)
    }

    /// Describes a field that is always `word`.
    pub const fn constant(
        spec_field: &'static str,
        word: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new("", spec_field, Quantity::Choice(&[]), meaning).default_word(word)
    }

    /// Describes a field that the name of the member determines: `words` are in the order of the names.
    pub const fn by_name(
        spec_field: &'static str,
        words: &'static [&'static str],
        meaning: &'static str,
    ) -> Opt {
        Opt::new("", spec_field, Quantity::ByName(words), meaning)
    }

    /// Describes a value that the planner's function `hook` resolves.
    pub const fn hook(
        key: &'static str,
        spec_field: &'static str,
        hook: &'static str,
        meaning: &'static str,
    ) -> Opt {
        Opt::new(key, spec_field, Quantity::Hook(hook), meaning)
    }

    /// Sets the path of the field in the resolved run.
    pub const fn field(mut self, spec_field: &'static str) -> Opt {
        self.spec_field = spec_field;
        self
    }

    /// Sets the smallest value.
    pub const fn min(mut self, min: f64) -> Opt {
        self.min = Some(min);
        self
    }

    /// Sets the largest value.
    pub const fn max(mut self, max: f64) -> Opt {
        self.max = Some(max);
        self
    }

    /// Requires the option.
    pub const fn required(mut self) -> Opt {
        self.required = true;
        self
    }

    /// Omits the field from the resolved run where the option has its default.
    pub const fn omitted(mut self) -> Opt {
        self.omitted = true;
        self
    }

    /// Sets the number that an absent option stands for.
    pub const fn default_number(mut self, value: f64) -> Opt {
        self.default = DefaultValue::Number(value);
        self
    }

    /// Sets the integer that an absent option stands for: nanoseconds, bits per second, bytes or a count.
    pub const fn default_integer(mut self, value: u64) -> Opt {
        self.default = DefaultValue::Integer(value);
        self
    }

    /// Sets the switch that an absent option stands for.
    pub const fn default_flag(mut self, value: bool) -> Opt {
        self.default = DefaultValue::Flag(value);
        self
    }

    /// Sets the word that an absent option stands for.
    pub const fn default_word(mut self, value: &'static str) -> Opt {
        self.default = DefaultValue::Word(value);
        self
    }
}
