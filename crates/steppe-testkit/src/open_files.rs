//! Programs that may open few files.

use std::process::Command;

/// `program`, which may open `count` files. Root is not allowed to raise that limit either (CAP_SYS_RESOURCE).
pub(crate) fn command(program: &str, count: u32) -> Command {
    let script = "ulimit -n \"$0\" && if [ \"$(id -u)\" = 0 ]; then \
        exec setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource \"$@\"; fi; exec \"$@\"";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script, &count.to_string(), program]);
    command
}
