//! Measurements as plain columns, and their encoding (docs/manual/engine.md).

/// A column's data.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Numbers; NaN is null.
    Float(Vec<f64>),
    /// Whole numbers.
    Int(Vec<i64>),
    /// Names, as indices into a list.
    Category(Vec<String>, Vec<u32>),
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Data::Float(values) => values.len(),
            Data::Int(values) => values.len(),
            Data::Category(_, values) => values.len(),
        }
    }

    /// Bytes that it takes, encoded.
    fn bytes(&self) -> usize {
        match self {
            Data::Float(_) | Data::Int(_) => self.len() * 8,
            Data::Category(..) => self.len() * 4,
        }
    }
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name, with its unit.
    pub name: &'static str,
    /// Data.
    pub data: Data,
}

/// A named table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// Columns, all of one length.
    pub columns: Vec<Column>,
}

/// A value of one row.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Float(f64),
    Int(u64),
    Name(&'a str),
}

/// A row of `N` columns.
pub(crate) type Row<'a, const N: usize> = [(&'static str, Value<'a>); N];

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Value::Float(value)
    }
}

impl From<Option<f64>> for Value<'_> {
    fn from(value: Option<f64>) -> Self {
        Value::Float(value.unwrap_or(f64::NAN))
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Value::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Name(value)
    }
}

impl Table {
    pub(crate) fn new(name: &'static str) -> Table {
        Table { name, columns: Vec::new() }
    }

    /// A table that has its columns even if no row comes.
    pub(crate) fn declared(name: &'static str, like: &[(&'static str, Value<'_>)]) -> Table {
        let mut table = Table::new(name);
        table.row(like);
        for column in &mut table.columns {
            match &mut column.data {
                Data::Float(values) => values.clear(),
                Data::Int(values) => values.clear(),
                Data::Category(names, values) => {
                    names.clear();
                    values.clear();
                }
            }
        }
        table
    }

    /// Adds a row. The first row makes the columns; every row has the same names in the same order.
    pub(crate) fn row(&mut self, values: &[(&'static str, Value<'_>)]) {
        if self.columns.is_empty() {
            self.columns = values
                .iter()
                .map(|(name, value)| Column {
                    name,
                    data: match value {
                        Value::Float(_) => Data::Float(Vec::new()),
                        Value::Int(_) => Data::Int(Vec::new()),
                        Value::Name(_) => Data::Category(Vec::new(), Vec::new()),
                    },
                })
                .collect();
        }
        for (column, (name, value)) in self.columns.iter_mut().zip(values) {
            debug_assert_eq!(column.name, *name);
            match (&mut column.data, value) {
                (Data::Float(data), Value::Float(value)) => data.push(*value),
                (Data::Int(data), Value::Int(value)) => data.push(*value as i64),
                (Data::Category(names, data), Value::Name(value)) => {
                    // Most rows have the name of the row before or the one that came after it first.
                    let last = data.last().map_or(0, |index| *index as usize);
                    let mut places = (last..names.len()).chain(0..last);
                    let index = places.find(|index| names[*index] == *value).unwrap_or_else(|| {
                        names.push((*value).to_owned());
                        names.len() - 1
                    });
                    data.push(index as u32);
                }
                _ => unreachable!("column {name} changed its type"),
            }
        }
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Data> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.data)
    }

    /// A numeric column by name, whole numbers as floats; empty if there is none.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        match self.column(name) {
            Some(Data::Float(values)) => values.clone(),
            Some(Data::Int(values)) => values.iter().map(|value| *value as f64).collect(),
            _ => Vec::new(),
        }
    }

    /// A column of names; empty if there is none.
    pub fn names(&self, name: &str) -> Vec<&str> {
        match self.column(name) {
            Some(Data::Category(names, values)) => {
                values.iter().map(|value| names[*value as usize].as_str()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Everything a run returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// Tables.
    pub tables: Vec<Table>,
    /// Whole files (traces), by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Packets given to the path, both directions.
    pub packets: u64,
    /// Wake-ups of nodes and of the sampling, and instants at which a line had work.
    pub events: u64,
}

impl Measurements {
    /// A table by name.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.name == name).expect("a table of the schema")
    }

    /// The bytes handed to Python, of a copy.
    pub fn encode(&self, engine: &str) -> Vec<u8> {
        let encoded = self.clone().encoded(engine);
        let mut out = vec![0; encoded.len()];
        encoded.write(&mut out);
        out
    }

    /// The bytes handed to Python, yet to be written.
    pub fn encoded(self, engine: &str) -> Encoded {
        let mut length = 0;
        let mut place = |bytes: usize| {
            let offset = length;
            length += bytes;
            serde_json::json!({"offset": offset, "bytes": bytes})
        };
        let mut tables = Vec::new();
        for table in &self.tables {
            let columns: Vec<_> = table
                .columns
                .iter()
                .map(|column| described(column, place(column.data.bytes())))
                .collect();
            tables.push(
                serde_json::json!({"name": table.name, "rows": table.rows(), "columns": columns}),
            );
        }
        let mut files = Vec::new();
        for (name, bytes) in &self.files {
            let mut file = place(bytes.len());
            file["name"] = name.as_str().into();
            files.push(file);
        }
        let header = serde_json::json!({"engine": engine, "tables": tables, "files": files,
            "packets": self.packets, "events": self.events})
        .to_string();
        let mut head = (header.len() as u64).to_le_bytes().to_vec();
        head.extend_from_slice(header.as_bytes());
        Encoded { head, length, measured: self }
    }
}

/// Measurements on their way to bytes. Each column is dropped as soon as it is written: no moment has them twice.
pub struct Encoded {
    head: Vec<u8>,
    /// Bytes behind the head.
    length: usize,
    measured: Measurements,
}

impl Encoded {
    /// Bytes.
    #[expect(clippy::len_without_is_empty, reason = "its header is never empty")]
    pub fn len(&self) -> usize {
        self.head.len() + self.length
    }

    /// Fills `out`, which has room for `len` bytes.
    pub fn write(self, out: &mut [u8]) {
        let (head, mut rest) = out.split_at_mut(self.head.len());
        head.copy_from_slice(&self.head);
        for column in self.measured.tables.into_iter().flat_map(|table| table.columns) {
            match column.data {
                Data::Float(values) => put(values, f64::to_le_bytes, &mut rest),
                Data::Int(values) => put(values, i64::to_le_bytes, &mut rest),
                Data::Category(_, values) => put(values, u32::to_le_bytes, &mut rest),
            }
        }
        for (_, file) in self.measured.files {
            put(file, |byte| [byte], &mut rest);
        }
    }
}

/// Writes `values` to the beginning of `out`, which is then what is left of it.
fn put<T, const N: usize>(values: Vec<T>, bytes: fn(T) -> [u8; N], out: &mut &mut [u8]) {
    let (here, rest) = std::mem::take(out).split_at_mut(values.len() * N);
    for (place, value) in here.chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&bytes(value));
    }
    *out = rest;
}

/// A column by its name and type, where `place` says where its bytes are.
fn described(column: &Column, mut place: serde_json::Value) -> serde_json::Value {
    place["name"] = column.name.into();
    place["type"] = match &column.data {
        Data::Float(_) => "f64".into(),
        Data::Int(_) => "i64".into(),
        Data::Category(names, _) => {
            place["categories"] = serde_json::json!(names);
            "cat".into()
        }
    };
    place
}
