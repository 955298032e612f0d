package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of /proc/pid/stat; it is 100 a second on every Linux
// that Go runs on.
const clockTick = 10 * time.Millisecond

// stat holds the values read from /proc/pid/stat.
type stat struct {
	parent int
	start  int64         // in ticks since boot; together with the id it identifies the process
	cpu    time.Duration // of the process alone
	ended  time.Duration // of its ended children
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}

	return parseStat(b)
}

func parseStat(b []byte) (stat, error) {
	// The name in brackets may hold spaces; what follows it does not.
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 20 {
		return stat{}, fmt.Errorf("%q is no line of /proc/pid/stat", b)
	}

	parent, err := strconv.Atoi(string(f[1]))
	if err != nil {
		return stat{}, err
	}

	start, err := strconv.ParseInt(string(f[19]), 10, 64)
	if err != nil {
		return stat{}, err
	}

	s := stat{parent: parent, start: start}
	for i, field := range f[11:15] {
		n, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return stat{}, err
		}

		if i < 2 {
			s.cpu += time.Duration(n) * clockTick
		} else {
			s.ended += time.Duration(n) * clockTick
		}
	}

	return s, nil
}

// running returns the processor time of a process's threads to the nanosecond, where the system provides it.
// A server takes only a few ticks of 10 ms in a second of a steady load.
func running(pid int) (total time.Duration) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}

	for _, t := range threads {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // it has ended
		}

		text, _, _ := strings.Cut(string(b), " ")
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			total += time.Duration(n)
		}
	}

	return total
}

// Tree returns a process and all its descendants.
func Tree(root int) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}

	children := map[int][]int{}
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil {
			continue
		}

		if s, err := readStat(pid); err == nil { // otherwise it has ended
			children[s.parent] = append(children[s.parent], pid)
		}
	}

	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}

	return all, nil
}

// Family is a process and its descendants at one moment.
type Family struct {
	started map[int]int64 // by process id
}

// FamilyOf records the descendants of a process, which cannot be found after it has ended.
func FamilyOf(root int) (Family, error) {
	pids, err := Tree(root)
	if err != nil {
		return Family{}, err
	}

	f := Family{started: map[int]int64{}}
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil {
			f.started[pid] = s.start
		}
	}

	return f, nil
}

// Kill ends the processes of the family that still run.
func (f Family) Kill() {
	for pid, start := range f.started {
		if s, err := readStat(pid); err == nil && s.start == start {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
}

// CPU returns the processor time of the processes and all their descendants so far.
func CPU(pids ...int) (time.Duration, error) {
	var total time.Duration
	for _, root := range pids {
		tree, err := Tree(root)
		if err != nil {
			return 0, err
		}

		for _, pid := range tree {
			s, err := readStat(pid)
			if err != nil && pid == root {
				return 0, fmt.Errorf("read the processor time of %d: %w", pid, err)
			}

			// Ticks count threads that ended, too.
			total += max(s.cpu, running(pid)) + s.ended
		}
	}

	return total, nil
}

// OwnCPU returns the processor time of this process, without the servers that it started.
func OwnCPU() (time.Duration, error) {
	s, err := readStat(os.Getpid())
	return s.cpu, err
}

// RSS returns the resident memory of a process, in bytes.
func RSS(pid int) (int64, error) { return memory(pid, "VmRSS:") }

// OwnMemory returns the resident memory of a process without pages of files, in bytes.
func OwnMemory(pid int) (int64, error) { return memory(pid, "RssAnon:") }

func memory(pid int, field string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %d: %w", pid, err)
	}

	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kb, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of %d: %w", pid, err)
			}

			return kb * 1024, nil
		}
	}

	return 0, fmt.Errorf("read the memory of %d: no %s", pid, field)
}
