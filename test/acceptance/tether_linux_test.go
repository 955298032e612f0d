package acceptance

import "syscall"

// tether ends a service when the test binary is gone, however that came about.
func tether() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
