package move

// Progress receives the steps of a reshard or a migration.
type Progress interface {
	Say(text string)
	// Moved is called after n notices were moved. of is the number of notices at the start.
	Moved(n int, of int64)
}

type quiet struct{}

func (quiet) Say(string)       {}
func (quiet) Moved(int, int64) {}

func orQuiet(p Progress) Progress {
	if p == nil {
		return quiet{}
	}
	return p
}

// tally adds moved notices to a sum and reports them.
type tally struct {
	done     *int
	of       int64
	progress Progress
}

// Add implements Counter.
func (t *tally) Add(n int) {
	*t.done += n
	t.progress.Moved(n, t.of)
}
