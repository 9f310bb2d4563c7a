//! A table of packet filter rules that a dedicated `nft` process owns. The kernel removes the table with that process,
//! which ends with this one, even if it is killed.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

/// The tool that configures rules.
const NFT: &str = "nft";

/// The rules of a table, which exist as long as this value.
#[derive(Debug)]
pub struct RuleTable {
    nft: Child,
}

impl Drop for RuleTable {
    fn drop(&mut self) {
        // The end of its standard input ends `nft`, and thereby the rules.
        drop(self.nft.stdin.take());
        let _ = self.nft.wait();
    }
}

/// Checks whether `nft` is installed, before any setup starts that would wait for the result.
///
/// # Errors
/// Returns an error if it is missing.
pub fn check_available() -> io::Result<()> {
    let found = emu::namespace::has_tool(NFT);
    if found { Ok(()) } else { Err(missing_error(io::ErrorKind::NotFound.into())) }
}

fn missing_error(error: io::Error) -> io::Error {
    io::Error::other(format!("nft: {error} (Debian: nftables)"))
}

impl RuleTable {
    /// Creates the table `inet NAME` in the namespace of the calling thread and runs `lines`, commands of `nft` that
    /// fill it. Returns once the kernel has the rules.
    ///
    /// # Errors
    /// Returns an error if `nft` is missing, or the error of the kernel.
    pub fn install(name: &str, lines: &str) -> io::Result<RuleTable> {
        let (output, output_writer) = io::pipe()?;
        let nft = emu::namespace::system_command(NFT)
            .arg("-i")
            .stdin(Stdio::piped())
            .stdout(output_writer.try_clone()?)
            .stderr(output_writer)
            // A separate process group, because Ctrl-C is for the command that runs in the lab.
            .process_group(0)
            .spawn()
            .map_err(missing_error)?;
        let mut table = RuleTable { nft };
        table.run(&format!(
            "add table inet {name} {{ flags owner; }}\n{lines}list table inet {name}\n"
        ))?;
        let mut output = BufReader::new(output);
        wait_until_listed(&mut output)?;
        // Read until its end: without a reader, the next output of `nft` would end it.
        std::thread::Builder::new().name("nft".to_owned()).spawn(move || {
            let _ = io::copy(&mut output, &mut io::sink());
        })?;
        Ok(table)
    }

    /// Runs further commands of `nft`, and ignores their errors.
    ///
    /// # Errors
    /// Returns an error if `nft` has ended.
    pub fn run(&mut self, lines: &str) -> io::Result<()> {
        let Some(input) = &mut self.nft.stdin else { return Ok(()) };
        input.write_all(lines.as_bytes())?;
        input.flush()
    }
}

/// Waits until `nft` has listed the table. Before the rules, packets would leave with an address without return route.
fn wait_until_listed(output: &mut impl BufRead) -> io::Result<()> {
    for line in output.lines() {
        let line = line?;
        if line == "}" {
            return Ok(());
        }
        if let Some(at) = line.find("Error: ") {
            return Err(io::Error::other(format!("nft: {}", &line[at + "Error: ".len()..])));
        }
    }
    Err(io::Error::other("nft: exited before it installed its rules"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nft_is_ready_after_the_complete_table() {
        let table = "table inet t { # progname nft\n\tflags owner\n\n\tchain post {\n\t}\n}\n";
        let wait =
            |text: &str| wait_until_listed(&mut text.as_bytes()).map_err(|error| error.to_string());
        assert_eq!(wait(table), Ok(()));
        assert_eq!(wait(&format!("nft> {table}")), Ok(()));
        let refused =
            "Error: Could not process rule: Operation not supported\nadd chain inet t post\n";
        assert_eq!(
            wait(refused),
            Err("nft: Could not process rule: Operation not supported".to_owned())
        );
        let half = table.trim_end_matches("}\n");
        assert_eq!(wait(half), Err("nft: exited before it installed its rules".to_owned()));
    }
}
