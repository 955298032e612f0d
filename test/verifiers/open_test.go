package verifiers

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// sealedText is a text of internal/seal/testdata/vectors.json.
type sealedText struct {
	ServiceKey string `json:"service_key"`
	Namespace  string `json:"namespace"`
	Subject    string `json:"subject"`
	Notice     string `json:"notice"`
	DataKey    string `json:"wrapped_data_key"`
	Plain      []byte `json:"plain"`
	Text       string `json:"text"`
}

// open runs a program of docs/examples/open. An error has what it wrote.
func (v sealedText) open(program ...string) (string, error) {
	args := append(program, v.Namespace, v.Subject+" "+v.DataKey, v.Notice, v.Text)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "SERVICE_KEYS=other=AAAA,"+v.ServiceKey)
	out, err := cmd.Output()
	return string(out), err
}

// The programs of docs/examples/open read the documented format of sealed texts, and refuse a text in another place.
func TestDocumentedCodeOpensSealedTexts(t *testing.T) {
	text, err := os.ReadFile("../../internal/seal/testdata/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var list []sealedText
	if err := json.Unmarshal(text, &list); err != nil || len(list) < 4 {
		t.Fatalf("%d texts, %v", len(list), err)
	}
	const dir = "../../docs/examples/open/"
	classes := t.TempDir()
	if out, err := exec.Command("javac", "-d", classes, dir+"Open.java").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, program := range map[string][]string{"python": {"python3", dir + "open.py"}, "java": {"java", "-cp", classes, "Open"}} {
		t.Run(name, func(t *testing.T) {
			for _, v := range list {
				if got, err := v.open(program...); err != nil || got != string(v.Plain) {
					t.Errorf("%s: %q, %v", v.Text, got, err)
				}
			}
			for _, v := range list {
				if strings.HasPrefix(v.Text, "s1r:") {
					v.Notice += "~17"
					if got, err := v.open(program...); err != nil || got != string(v.Plain) {
						t.Errorf("%s of %s: %q, %v", v.Text, v.Notice, got, err)
					}
				}
			}
			wrong := list[0]
			wrong.Notice += "0"
			if got, err := wrong.open(program...); err == nil {
				t.Errorf("the text of another notice opens: %q", got)
			}
			wrong = list[0]
			wrong.Subject += "0"
			if got, err := wrong.open(program...); err == nil {
				t.Errorf("the key of another subject opens: %q", got)
			}
			wrong = list[0]
			wrong.ServiceKey = strings.Replace(wrong.ServiceKey, "=", "x=", 1)
			if got, err := wrong.open(program...); err == nil {
				t.Errorf("opens without the service key: %q", got)
			}
		})
	}
}
