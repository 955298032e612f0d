//go:build unix

package callback

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"notifier/internal/notice"
)

// A process that is stopped for longer than its timeout finds all calls past their deadlines. It reads the
// answers that arrived during the stop, and does not count the other calls as failures of the receiver.
func TestFrozenCallsDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	var arrived sync.WaitGroup
	arrived.Add(frozenCalls)
	stopped := make(chan struct{})
	addr := listen(t, nil, func(c net.Conn, in *bufio.Reader, stop <-chan struct{}) {
		for body, err := readBodyOf(in); err == nil; body, err = readBodyOf(in) {
			if body != "next" {
				arrived.Done()
				select {
				case <-stopped:
				case <-stop:
					return
				}
			}
			if body != "hangs" {
				_, _ = io.WriteString(c, okEmpty)
			}
		}
	})
	report := frozenProcess(t, "http://"+addr+"/", &arrived, stopped)

	got := map[string]int{}
	for _, c := range report.Calls {
		got[fmt.Sprint(c.Path, " ", c.Result.Outcome, " ", c.Result.Reason)]++
	}
	want := map[string]int{"answers delivered ": breakerFailures, "hangs retry interrupted": breakerFailures}
	for name, n := range want {
		if got[name] != n {
			t.Fatalf("%v, want %v", got, want)
		}
	}
	if report.Open || report.Next.Outcome != notice.OutcomeDelivered {
		t.Errorf("open %v, and the next call: %+v", report.Open, report.Next)
	}
}

// readBodyOf reads one request and returns its body.
func readBodyOf(in *bufio.Reader) (string, error) {
	req, err := http.ReadRequest(in)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(req.Body)
	return string(body), err
}

// frozenProcess runs the process, stops it while all its calls are in flight, until they have been past their
// deadlines for longer than frozen, and returns its report.
func frozenProcess(t *testing.T, address string, arrived *sync.WaitGroup, stopped chan<- struct{}) (report frozenReport) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), envFrozen+"="+address)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	arrived.Wait()
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process is not stopped: %v, %v", status, err)
	}
	close(stopped)
	time.Sleep(frozenTimeout + frozen + 500*time.Millisecond) // sleep: the fault
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, problems.String())
	}
	if err := json.Unmarshal([]byte(out.String()), &report); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	return report
}
