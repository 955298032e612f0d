//go:build fault

package acceptance

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// network is an unnamed network namespace, which ends with the test binary, also after a
// crash. One thread stays in the namespace. Processes and sockets of the namespace must be
// started or opened on that thread.
type network struct {
	file *os.File
	jobs chan func()
}

// newNetwork makes a network with a working loopback interface. It needs root rights.
func newNetwork(t testing.TB) (*network, error) {
	t.Helper()
	n := &network{jobs: make(chan func())}
	made := make(chan error)
	go func() {
		// It is never unlocked: the thread ends with the goroutine.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.file, err = os.Open("/proc/thread-self/ns/net")
		}
		made <- err
		if err != nil {
			return
		}
		for f := range n.jobs {
			f()
		}
	}()
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	t.Cleanup(func() {
		close(n.jobs)
		_ = n.file.Close()
	})
	return n, n.ip("link set lo up")
}

// in runs f on the network's thread.
func (n *network) in(f func()) {
	done := make(chan struct{})
	n.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (n *network) start(c *exec.Cmd) (err error) {
	n.in(func() { err = c.Start() })
	return err
}

func (n *network) dial(ctx context.Context, network, addr string) (c net.Conn, err error) {
	n.in(func() {
		var d net.Dialer
		c, err = d.DialContext(ctx, network, addr)
	})
	return c, err
}

func (n *network) listen(addr string) (l net.Listener, err error) {
	n.in(func() { l, err = net.Listen("tcp", addr) })
	return l, err
}

// ip runs the program of that name in it.
func (n *network) ip(line string) (err error) {
	n.in(func() {
		var out []byte
		if out, err = exec.Command("ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			err = fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	})
	return err
}

// join lays a cable to another network: an interface in each.
func (n *network) join(name string, to *network, theirs string) error {
	for _, line := range []string{
		fmt.Sprintf("link add %s type veth peer name %s netns /proc/%d/fd/%d", name, theirs, os.Getpid(), to.file.Fd()),
		"link set " + name + " up",
	} {
		if err := n.ip(line); err != nil {
			return err
		}
	}
	return to.ip("link set " + theirs + " up")
}
