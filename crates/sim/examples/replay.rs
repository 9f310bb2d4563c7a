//! Repeats a resolved run: `replay 'JSON'`, as a failed property test prints it. Prints the summary of flows and links.

use sim::ColumnData;
use spec::RunSpec;

fn main() {
    let text = std::env::args().nth(1).unwrap_or_default();
    let spec = match RunSpec::from_json(&text) {
        Ok(spec) => spec,
        Err(error) => {
            eprintln!("replay takes a resolved run as JSON: {error}");
            std::process::exit(2);
        }
    };
    let run = match sim::run(&spec, &mut |_, _| None) {
        Ok(run) => run,
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    };
    for name in ["summary", "link_summary"] {
        println!("{name}");
        for column in &run.table(name).columns {
            match &column.data {
                ColumnData::Float(values) => println!("  {:26} {values:?}", column.name),
                ColumnData::Int(values) => println!("  {:26} {values:?}", column.name),
                ColumnData::Category(names, values) => {
                    let values: Vec<_> =
                        values.iter().map(|value| &names[*value as usize]).collect();
                    println!("  {:26} {values:?}", column.name);
                }
            }
        }
    }
}
