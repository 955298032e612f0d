//go:build !quick

package browser

import (
	"os/exec"
	"strings"
	"testing"

	"notifier/internal/testkit"
)

// The first page of an empty system shows a call. A shell runs it as it is, and the page then shows the notice instead.
func TestEmptySystemShowsARunnableCall(t *testing.T) {
	s := start(t)
	b := browse(t, s)
	b.open("/ui/")
	b.sees("Schedule the first notice")
	b.sees(checked)
	command := js[string](b, `document.querySelector("#first pre").innerText`)
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
	if err != nil || !strings.Contains(string(out), " 201 ") {
		t.Fatalf("%s\n%v %s", command, err, out)
	}
	testkit.Until(t, "the call is gone", func() bool { return !strings.Contains(b.text(), "Schedule the first notice") })
}
