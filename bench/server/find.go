package server

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Find looks for a program on PATH and then in the given places.
func Find(program string, paths ...string) (string, error) {
	if p, err := exec.LookPath(program); err == nil {
		return p, nil
	}

	for _, pattern := range paths {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("find %s: %w", program, err)
		}

		for _, p := range found {
			if info, err := os.Stat(p); err == nil && info.Mode()&0o111 != 0 {
				return p, nil
			}
		}
	}

	return "", fmt.Errorf("%s is neither on PATH nor in %v", program, paths)
}

// found returns the path of a program and a free address for it.
func found(program string, paths ...string) (path, addr string, err error) {
	if path, err = Find(program, paths...); err == nil {
		addr, err = FreeAddr()
	}
	return path, addr, err
}

// Version returns the version that a program prints, "unknown", or "not installed".
func Version(program, flag string, paths ...string) string {
	path, err := Find(program, paths...)
	if err != nil {
		return "not installed"
	}

	out, err := exec.Command(path, flag).CombinedOutput()
	if err != nil {
		return "unknown"
	}

	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}

// ModuleDir is the directory of bench's go.mod: the place from which servers
// that are Go programs are built. The program is run there.
func ModuleDir() string {
	dir, err := os.Getwd()
	if err != nil {
		return "."
	}

	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if b, err := os.ReadFile(filepath.Join(d, "go.mod")); err == nil && strings.HasPrefix(string(b), "module notifier/bench\n") {
			return d
		}
	}

	return dir
}

// PackageVersion is the version of a Debian package, or "not installed".
func PackageVersion(name string) string {
	out, err := exec.Command("dpkg-query", "-W", "-f", "${Version}", name).Output()
	if err != nil || len(out) == 0 {
		return "not installed"
	}

	return string(out)
}
