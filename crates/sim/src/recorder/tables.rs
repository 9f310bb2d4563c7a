//! Measurements as plain columns, and their encoding (docs/reference/engine.md).

/// The data of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum ColumnData {
    /// Floats, with NaN as null.
    Float(Vec<f64>),
    /// Integers.
    Int(Vec<i64>),
    /// Names, as indices into a list.
    Category(Vec<String>, Vec<u32>),
}

impl ColumnData {
    fn len(&self) -> usize {
        match self {
            ColumnData::Float(values) => values.len(),
            ColumnData::Int(values) => values.len(),
            ColumnData::Category(_, values) => values.len(),
        }
    }

    /// Returns the encoded size in bytes.
    fn bytes(&self) -> usize {
        match self {
            ColumnData::Float(_) | ColumnData::Int(_) => self.len() * 8,
            ColumnData::Category(..) => self.len() * 4,
        }
    }
}

/// A named column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name, with its unit.
    pub name: &'static str,
    /// The data.
    pub data: ColumnData,
}

/// A named table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name.
    pub name: &'static str,
    /// The columns, all with equal length.
    pub columns: Vec<Column>,
}

/// A value of one row.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Float(f64),
    Int(u64),
    /// A null.
    Unknown,
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

impl From<Option<u64>> for Value<'_> {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Value::Unknown, Value::Int)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Name(value)
    }
}

impl Table {
    /// Returns the encoded size of all columns.
    pub(crate) fn bytes(&self) -> u64 {
        self.columns.iter().map(|column| column.data.bytes() as u64).sum()
    }

    pub(crate) fn new(name: &'static str) -> Table {
        Table { name, columns: Vec::new() }
    }

    /// Creates a table with its columns, even if no row follows.
    pub(crate) fn with_columns(name: &'static str, columns: &[(&'static str, Value<'_>)]) -> Table {
        let mut table = Table::new(name);
        table.push_row(columns);
        for column in &mut table.columns {
            match &mut column.data {
                ColumnData::Float(values) => values.clear(),
                ColumnData::Int(values) => values.clear(),
                ColumnData::Category(names, values) => {
                    names.clear();
                    values.clear();
                }
            }
        }
        table
    }

    /// Adds a row. The first row defines the columns; every row has the same names in the same sequence.
    pub(crate) fn push_row(&mut self, values: &[(&'static str, Value<'_>)]) {
        if self.columns.is_empty() {
            self.columns = values
                .iter()
                .map(|(name, value)| Column {
                    name,
                    data: match value {
                        Value::Float(_) | Value::Unknown => ColumnData::Float(Vec::new()),
                        Value::Int(_) => ColumnData::Int(Vec::new()),
                        Value::Name(_) => ColumnData::Category(Vec::new(), Vec::new()),
                    },
                })
                .collect();
        }
        for (column, (name, value)) in self.columns.iter_mut().zip(values) {
            debug_assert_eq!(column.name, *name);
            match (&mut column.data, value) {
                (ColumnData::Float(data), Value::Float(value)) => data.push(*value),
                (ColumnData::Int(data), Value::Int(value)) => data.push(*value as i64),
                (ColumnData::Float(data), Value::Int(value)) => data.push(*value as f64),
                (ColumnData::Float(data), Value::Unknown) => data.push(f64::NAN),
                (ColumnData::Int(data), Value::Unknown) => {
                    // Integers have no null.
                    let known = data.iter().map(|value| *value as f64);
                    column.data = ColumnData::Float(known.chain([f64::NAN]).collect());
                }
                (ColumnData::Category(names, data), Value::Name(value)) => {
                    // Most rows repeat the previous name, or the name that first followed it.
                    let previous = data.last().map_or(0, |index| *index as usize);
                    let mut indices = (previous..names.len()).chain(0..previous);
                    let index =
                        indices.find(|index| names[*index] == *value).unwrap_or_else(|| {
                            names.push((*value).to_owned());
                            names.len() - 1
                        });
                    data.push(index as u32);
                }
                _ => unreachable!("column {name} changed its type"),
            }
        }
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.columns.first().map_or(0, |column| column.data.len())
    }

    /// Returns a column by name.
    pub fn column(&self, name: &str) -> Option<&ColumnData> {
        self.columns.iter().find(|column| column.name == name).map(|column| &column.data)
    }

    /// Returns a numeric column by name, with integers as floats, or an empty vector.
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        match self.column(name) {
            Some(ColumnData::Float(values)) => values.clone(),
            Some(ColumnData::Int(values)) => values.iter().map(|value| *value as f64).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a column of names, or an empty vector.
    pub fn names(&self, name: &str) -> Vec<&str> {
        match self.column(name) {
            Some(ColumnData::Category(names, values)) => {
                values.iter().map(|value| names[*value as usize].as_str()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// The tables.
    pub tables: Vec<Table>,
    /// Files (traces), by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Packets sent into the topology, both directions.
    pub packets: u64,
    /// Wake-ups of nodes and of the sampling, and instants at which a simplex link had work.
    pub events: u64,
}

impl Measurements {
    /// Returns a table by name.
    ///
    /// # Panics
    /// An unknown name.
    pub fn table(&self, name: &str) -> &Table {
        self.tables.iter().find(|table| table.name == name).expect("a table of the schema")
    }

    /// Returns the encoding of a copy, as Python receives it.
    pub fn encode(&self, engine: &str) -> Vec<u8> {
        let encoded = self.clone().into_encoded(engine);
        let mut out = vec![0; encoded.len()];
        encoded.write(&mut out);
        out
    }

    /// Converts into the encoding for Python, not written yet.
    pub fn into_encoded(self, engine: &str) -> EncodedMeasurements {
        let mut body_bytes = 0;
        let mut allocate = |bytes: usize| {
            let offset = body_bytes;
            body_bytes += bytes;
            serde_json::json!({"offset": offset, "bytes": bytes})
        };
        let mut tables = Vec::new();
        for table in &self.tables {
            let columns: Vec<_> = table
                .columns
                .iter()
                .map(|column| describe_column(column, allocate(column.data.bytes())))
                .collect();
            tables.push(
                serde_json::json!({"name": table.name, "rows": table.row_count(), "columns": columns}),
            );
        }
        let mut files = Vec::new();
        for (name, bytes) in &self.files {
            let mut file = allocate(bytes.len());
            file["name"] = name.as_str().into();
            files.push(file);
        }
        let json = serde_json::json!({"engine": engine, "tables": tables, "files": files,
            "packets": self.packets, "events": self.events})
        .to_string();
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend_from_slice(json.as_bytes());
        EncodedMeasurements { header, body_bytes, measurements: self }
    }
}

/// Measurements before encoding. Writing drops each column after its copy, so memory never holds all data twice.
pub struct EncodedMeasurements {
    header: Vec<u8>,
    /// Bytes after the header.
    body_bytes: usize,
    measurements: Measurements,
}

impl EncodedMeasurements {
    /// Returns the encoded size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "its header is never empty")]
    pub fn len(&self) -> usize {
        self.header.len() + self.body_bytes
    }

    /// Writes the encoding into `out`, which has [`EncodedMeasurements::len`] bytes.
    pub fn write(self, out: &mut [u8]) {
        let (header, mut rest) = out.split_at_mut(self.header.len());
        header.copy_from_slice(&self.header);
        for column in self.measurements.tables.into_iter().flat_map(|table| table.columns) {
            match column.data {
                ColumnData::Float(values) => write_values(values, f64::to_le_bytes, &mut rest),
                ColumnData::Int(values) => write_values(values, i64::to_le_bytes, &mut rest),
                ColumnData::Category(_, values) => {
                    write_values(values, u32::to_le_bytes, &mut rest)
                }
            }
        }
        for (_, file) in self.measurements.files {
            write_values(file, |byte| [byte], &mut rest);
        }
    }
}

/// Writes `values` to the start of `out` and advances `out` behind them.
fn write_values<T, const N: usize>(values: Vec<T>, bytes: fn(T) -> [u8; N], out: &mut &mut [u8]) {
    let (target, rest) = std::mem::take(out).split_at_mut(values.len() * N);
    for (bytes_out, value) in target.chunks_exact_mut(N).zip(values) {
        bytes_out.copy_from_slice(&bytes(value));
    }
    *out = rest;
}

/// Returns the description of a column: name and type, added to its offset and size.
fn describe_column(column: &Column, mut description: serde_json::Value) -> serde_json::Value {
    description["name"] = column.name.into();
    description["type"] = match &column.data {
        ColumnData::Float(_) => "f64".into(),
        ColumnData::Int(_) => "i64".into(),
        ColumnData::Category(names, _) => {
            description["categories"] = serde_json::json!(names);
            "cat".into()
        }
    };
    description
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_with_an_unknown_count_has_nulls() {
        let mut table = Table::new("counts");
        for (known, unknown) in [(1, Some(2)), (3, None), (4, Some(5))] {
            table.push_row(&[("known", Value::from(known)), ("unknown", unknown.into())]);
        }
        assert_eq!(table.column("known"), Some(&ColumnData::Int(vec![1, 3, 4])));
        let values = table.numbers("unknown");
        assert_eq!((values[0], values[1].is_nan(), values[2]), (2.0, true, 5.0));
        assert!(matches!(table.column("unknown"), Some(ColumnData::Float(_))));
    }
}
