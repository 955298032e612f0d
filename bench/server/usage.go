package server

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// clockTick is the unit of /proc/pid/stat; it is 100 a second on every Linux
// that Go runs on.
const clockTick = 10 * time.Millisecond

func readStat(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}

	return p.Stat()
}

// running returns the processor time of a process's threads to the nanosecond, where the system provides it.
// A server takes only a few ticks of 10 ms in a second of a steady load.
func running(pid int) (total time.Duration) {
	threads, _ := procfs.AllThreads(pid) // none if it has ended
	for _, t := range threads {
		if s, err := t.Schedstat(); err == nil { // otherwise it has ended
			total += time.Duration(s.RunningNanoseconds)
		}
	}

	return total
}

// Tree returns a process and all its descendants.
func Tree(root int) ([]int, error) {
	trees, err := trees([]int{root})
	if err != nil {
		return nil, err
	}

	return trees[0], nil
}

// trees returns the tree of each root.
func trees(roots []int) ([][]int, error) {
	procs, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}

	children := map[int][]int{}
	for _, p := range procs {
		if s, err := p.Stat(); err == nil { // otherwise it has ended
			children[s.PPID] = append(children[s.PPID], p.PID)
		}
	}

	var all [][]int
	for _, root := range roots {
		tree := []int{root}
		for i := 0; i < len(tree); i++ {
			tree = append(tree, children[tree[i]]...)
		}

		all = append(all, tree)
	}

	return all, nil
}

// Family is a process and its descendants at one moment.
type Family struct {
	started map[int]uint64 // ticks since boot by process id; together they identify a process
}

// FamilyOf records the descendants of a process, which cannot be found after it has ended.
func FamilyOf(root int) (Family, error) {
	pids, err := Tree(root)
	if err != nil {
		return Family{}, err
	}

	f := Family{started: map[int]uint64{}}
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil {
			f.started[pid] = s.Starttime
		}
	}

	return f, nil
}

// Kill ends the processes of the family that still run.
func (f Family) Kill() {
	for pid, start := range f.started {
		if s, err := readStat(pid); err == nil && s.Starttime == start {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
}

// CPU returns the processor times of processes so far, each with all its descendants.
func CPU(roots ...int) ([]time.Duration, error) {
	trees, err := trees(roots)
	if err != nil {
		return nil, err
	}

	total := make([]time.Duration, len(roots))
	for i, tree := range trees {
		for _, pid := range tree {
			s, err := readStat(pid)
			if err != nil && pid == roots[i] {
				return nil, fmt.Errorf("read the processor time of %d: %w", pid, err)
			}

			// Ticks count threads that ended, too.
			total[i] += max(time.Duration(s.UTime+s.STime)*clockTick, running(pid)) + time.Duration(s.CUTime+s.CSTime)*clockTick
		}
	}

	return total, nil
}

// OwnCPU returns the processor time of this process, without the servers that it started.
func OwnCPU() (time.Duration, error) {
	s, err := readStat(os.Getpid())
	return time.Duration(s.UTime+s.STime) * clockTick, err
}

// RSS returns the resident memory of a process, in bytes.
func RSS(pid int) (int64, error) {
	s, err := status(pid)
	return int64(s.VmRSS), err
}

// OwnMemory returns the resident memory of a process without pages of files, in bytes.
func OwnMemory(pid int) (int64, error) {
	s, err := status(pid)
	return int64(s.RssAnon), err
}

func status(pid int) (s procfs.ProcStatus, err error) {
	p, err := procfs.NewProc(pid)
	if err == nil {
		s, err = p.NewStatus()
	}

	if err == nil && s.VmRSS == 0 {
		err = fmt.Errorf("read the memory of %d: it has ended", pid)
	}

	return s, err
}
