package embedded

import (
	"os/exec"
	"syscall"
)

// setProcess lets the server end with us, however we end, and keeps it out of
// the terminal's Ctrl-C, which is for us to act on first.
func setProcess(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
