//go:build !linux

package acceptance

import "syscall"

func tether() *syscall.SysProcAttr { return nil }
