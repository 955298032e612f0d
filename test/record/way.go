package record

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// envWays is the page that rows of ways go to; none: they are printed.
const envWays = "WAYS_PAGE"

// wayHeader names the cells of a way's row.
var wayHeader = []string{"no", "way", "settings", "tests passed", "of those without the others", "failed", "stay elsewhere", "versions",
	"took, load of the machine", "date"}

// Way is the acceptance suite on one way to Redis: a row of a table in
// docs/reliability.md.
type Way struct {
	No            int
	Way, Settings string
	Passed        int
	Failed        []string
	Again         []string // passed tests that first failed, and passed when run without the others
	Elsewhere     int      // tests that cannot go this way
	Server        string
	From          time.Time
}

// Put records the row.
func (w Way) Put() error {
	named := func(names []string, mark string) string {
		if len(names) == 0 {
			return "0"
		}
		return fmt.Sprintf("%s%d%s: %s", mark, len(names), mark, strings.Join(names, ", "))
	}
	settings := "none"
	if w.Settings != "" {
		settings = "`" + strings.ReplaceAll(w.Settings, ", ", "`, `") + "`"
	}

	cells := []string{strconv.Itoa(w.No), w.Way, settings, strconv.Itoa(w.Passed), named(w.Again, ""), named(w.Failed, "**"),
		strconv.Itoa(w.Elsewhere), w.Server + ", notifier " + revision,
		fmt.Sprintf("%.0f s, load %s", time.Since(w.From).Seconds(), load()), time.Now().UTC().Format(time.DateOnly)}
	fmt.Printf("| %s |\n", strings.Join(cells, " | "))
	page := os.Getenv(envWays)
	if page == "" {
		return nil
	}

	return PutRow(page, "ways", wayHeader, cells)
}
