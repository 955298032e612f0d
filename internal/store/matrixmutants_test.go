package store

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// mutant is a wrong line in a script, which the cells of a rule with notices that expire must find. Package test/sim has the mutants that a run of steps finds.
type mutant struct {
	name, old, new, rule string
	inserted             bool
}

// Faults that need a notice which expires while it is postponed, parked or handed to a consumer.
var matrixMutants = []mutant{
	{name: "an expired notice keeps its timer", old: "disarm(ARGV[5], key, text)\n    wins", new: "wins", rule: "expire"},
	{name: "a parked notice does not expire", old: "and not (q and q.waits(key)) or", new: "or", rule: "expire"},
	{name: "an expired notice stays parked", old: "if q then q.start(key) end\n    unhold(KEYS[1], key, score)\n    disarm",
		new: "unhold(KEYS[1], key, score)\n    disarm", rule: "expire"},
	{name: "a late report does not list that the notice expires", old: "if till then watch(KEYS[1], key, till) end\n  local text",
		new: "  local text", rule: "reopen"},
	{name: "a restored notice does not expire", old: "if till then watch(KEYS[1], key, till) end\n    end", new: "    end",
		rule: "restore one that expires"},
}

// noScript is Redis's answer to the hash of an unknown script. The client then sends the text.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT no matching script" }
func (noScript) RedisError()   {}

// insert changes the text of a script that has the line. It returns false if it has answered the command itself, as Redis would answer if
// it did not know the script: the client then sends the text.
func (m *mutant) insert(cmd redis.Cmder) bool {
	switch args := cmd.Args(); cmd.Name() {
	case "evalsha":
		cmd.SetErr(noScript{})
		return false
	case "eval":
		if text, _ := args[1].(string); strings.Contains(text, m.old) {
			args[1], m.inserted = strings.Replace(text, m.old, m.new, 1), true
		}
	}
	return true
}

// TestMatrixFindsMutants fails if all cells pass although a script has a wrong line.
func TestMatrixFindsMutants(t *testing.T) {
	for i := range matrixMutants {
		m := &matrixMutants[i]
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			r := newRig(t)
			r.mutant = m
			for _, c := range expiring() {
				if c.rule.name != m.rule {
					continue
				}

				wrong, _, err := r.check(c)
				if err != nil {
					t.Fatalf("%s: %v", c, err)
				}

				if len(wrong) > 0 {
					t.Logf("found by %s", c)
					return
				}
			}

			if !m.inserted {
				t.Fatalf("no script that ran has the line %q", m.old)
			}
			t.Error("no cell is wrong")
		})
	}
}
