package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"notifier/client"
	"notifier/internal/notice"
)

const (
	importBatch   = 500     // lines a request
	importAhead   = 4       // simultaneous requests
	importBytes   = 8 << 20 // size at which a request is sent, however few lines it has
	shownRefusals = 20
)

func (a *command) importing() *cobra.Command {
	var ended bool
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Schedule the notices of a file, one JSON object a line",
		Long: `Schedules the notices of FILE, each a line of JSON in the form of POST /v1/notices.
FILE - reads the standard input. A FILE that is compressed with gzip is unpacked, and a byte
order mark at its start is skipped.

The position is written to FILE.progress. After an interruption the same command continues
from there. Lines that were sent before get "kept already", so no notice is scheduled twice.
The progress file is removed at the end.

Refused lines are printed with the file's name, the line number and the first cause, and do
not stop the rest; the exit code is then 1. A line with on_duplicate replace replaces again
if it is sent again.

FILE may be the output of "notifier export", "notifier list --all --json", "notifier recur
export" or the pages' download of dead letters. Pending notices are restored with due time, webhook-id, attempts
and the remaining attempts. Dead letters are restored with attempts, reason, time of death
and webhook-id, and wait for a redrive. Delivered, cancelled and replaced notices are
counted and skipped. With --ended all finalized notices, including dead letters, are
scheduled as new notices that are due now. A notice of which a part was not kept (a body, a
secret header, the password of a url) is refused.`,
		Example: `  notifier import notices.ndjson
  notifier import month.ndjson.gz`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}

			defer c.Close()
			return a.importFile(cmd.Context(), &importer{app: a, c: c, endedToo: ended}, args[0])
		},
	}
	c.Flags().BoolVar(&ended, "ended", false, "schedule finalized notices, including dead letters, as new ones")
	return a.withJSON(c)
}

// progress is the content of FILE.progress. Offset is the position after the last line of the answered requests; for a
// gzip file it counts the unpacked bytes.
type progress struct {
	Offset  int64  `json:"offset"`
	Lines   int    `json:"lines"`
	Head    string `json:"head"` // hash of the file's first bytes, to recognise the file
	Created int    `json:"created"`
	Kept    int    `json:"kept"`
	Refused int    `json:"refused"`
	Ended   int    `json:"ended"` // skipped because finalized
	Put     int    `json:"put"`   // restored notices
	Unsent  int    `json:"unsent"`
}

// importer imports one file.
type importer struct {
	app  *command
	c    *client.Client
	in   *bufio.Reader
	name string // of the file
	path string // of the progress file; empty = none
	bar  *progressbar.ProgressBar
	progress
	endedToo bool // finalized notices are scheduled again
	ended    bool // end of the file
}

func (a *command) importFile(ctx context.Context, im *importer, name string) (err error) {
	if name == "-" {
		text, err := unpacked(a.Stdin)
		if err != nil {
			return fmt.Errorf("read the standard input: %w", err)
		}

		im.name = "standard input"
		im.in, im.bar = bufio.NewReaderSize(text, 1<<20), a.bar(-1, "importing", "lines")
	} else {
		f, err := os.Open(name)
		if err != nil {
			return usage("%w", err)
		}

		defer func() { _ = f.Close() }() // only read
		im.name = name
		if err := im.open(f, name+".progress"); err != nil {
			return err
		}
	}

	for !im.ended {
		if err := im.window(ctx); err != nil {
			_ = im.bar.Exit()
			if im.path != "" {
				a.complain("import: stopped after %s; run the same command to continue", notice.Count(im.Lines, "line"))
			}

			return err
		}
	}

	_ = im.bar.Finish()
	return im.finish()
}

// batchOf holds the lines of one request.
type batchOf struct {
	lines   [][]byte
	numbers []int
	results []client.Result
	read    int64 // bytes, including empty lines
	ended   int   // skipped lines
	unfit   []string
	again   bool
	letters []int // indexes of lines with notices to restore
	defined []int // indexes of lines with recurring notices
}

// next reads the lines of one request.
func (im *importer) next(number *int) (b batchOf, err error) {
	b.again = true
	size := 0
	for len(b.lines) < importBatch && size < importBytes {
		line, err := im.in.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return b, fmt.Errorf("read: %w", err)
		}

		b.read += int64(len(line))
		if len(line) > 0 {
			*number++
		}

		line = bytes.TrimSpace(line)
		line = im.sort(line, *number, &b)
		if len(line) > 0 {
			b.lines, b.numbers = append(b.lines, line), append(b.numbers, *number)
			size += len(line)
			b.again = b.again && !bytes.Contains(line, []byte(`replace`))
		}

		if err != nil {
			im.ended = true
			return b, nil
		}
	}

	return b, nil
}

// sort decides what to do with a line, and returns the text to send; nil = nothing.
func (im *importer) sort(line []byte, number int, b *batchOf) []byte {
	if isRecurrence(line) {
		b.defined = append(b.defined, len(b.lines))
		return line
	}

	s, ok := readSnapshot(line)
	if !ok {
		return line
	}

	if !im.endedToo && !s.Pending() && !dead(&s) {
		b.ended++
		return nil
	}

	if err := whole(&s); err != nil {
		b.unfit = append(b.unfit, im.at(number)+err.Error())
		return nil
	}

	if s.Pending() || dead(&s) && !im.endedToo {
		b.letters = append(b.letters, len(b.lines))
		return line
	}

	return scheduleAgain(&s)
}

// send sends a batch: the notices to schedule, those to restore, and the recurring notices.
func (b *batchOf) send(ctx context.Context, c *client.Client) error {
	of := [2][]int{nil, b.letters}
	for i := range b.lines {
		if !slices.Contains(b.letters, i) && !slices.Contains(b.defined, i) {
			of[0] = append(of[0], i)
		}
	}

	b.results = make([]client.Result, len(b.lines))
	for kind, places := range of {
		if len(places) == 0 {
			continue
		}

		lines := make([][]byte, len(places))
		for i, at := range places {
			lines[i] = b.lines[at]
		}

		var got []client.Result
		var err error
		if kind == 0 {
			var options []client.LinesOption
			if b.again {
				options = append(options, client.Repeatable())
			}

			got, err = c.ScheduleLines(ctx, lines, options...)
		} else {
			got, err = c.RestoreLines(ctx, lines)
		}

		if err != nil {
			return err
		}

		for i, at := range places {
			b.results[at] = got[i]
		}
	}

	return b.define(ctx, c)
}

// define stores the recurring notices of a batch.
func (b *batchOf) define(ctx context.Context, c *client.Client) (err error) {
	for _, at := range b.defined {
		if b.results[at], err = putLine(ctx, c, b.lines[at]); err != nil {
			return err
		}
	}

	return nil
}

// window sends several requests in parallel and then saves the progress. It saves only when all are answered, so that
// the progress file is never ahead.
func (im *importer) window(ctx context.Context) error {
	batches := make([]batchOf, 0, importAhead)
	number := im.Lines
	for len(batches) < importAhead && !im.ended {
		b, err := im.next(&number)
		if err != nil {
			return err
		}

		batches = append(batches, b)
	}

	g, gctx := errgroup.WithContext(ctx)
	for i := range batches {
		b := &batches[i]
		if len(b.lines) == 0 {
			continue
		}

		g.Go(func() error { return b.send(gctx, im.c) })
	}

	if err := g.Wait(); err != nil {
		return err
	}

	for i := range batches {
		b := &batches[i]
		if err := im.count(b); err != nil {
			return err
		}

		im.Offset += b.read
	}

	_ = im.bar.Add(number - im.Lines) // only drawing can fail
	im.Lines = number
	return im.save()
}

func (im *importer) count(b *batchOf) error {
	im.Ended += b.ended
	for _, text := range b.unfit {
		im.refuse(text)
	}

	for i, r := range b.results {
		switch {
		case r.Problem != nil && (r.Status == 503 || r.Status == 507):
			// a temporary refusal; the next run sends the window again
			return fmt.Errorf("%s%w", im.at(b.numbers[i]), r.Problem)
		case r.Problem != nil:
			im.refuse(im.at(b.numbers[i]) + withKey(r.Key) + oneCause(r.Problem))
		case r.Created && slices.Contains(b.letters, i):
			im.Put++
		case r.Created:
			im.Created++
		default:
			im.Kept++
			if r.Notice != nil && r.Notice.NotSent() != "" && !slices.Contains(b.letters, i) {
				im.unsent(im.at(b.numbers[i]) + withKey(r.Key) + r.Notice.NotSent())
			}
		}
	}

	return nil
}

// at returns the prefix of an error, in the form of compilers.
func (im *importer) at(line int) string { return fmt.Sprintf("%s:%d: ", im.name, line) }

func withKey(key string) string {
	if key == "" {
		return ""
	}
	return key + ": "
}

// memberOfItem is the part of a fault's location that names the item of the request, which differs from the line of the
// file.
var memberOfItem = regexp.MustCompile(`^body\[\d+\]\.?`)

// oneCause returns the first cause of a refusal.
func oneCause(p *client.Problem) string {
	if len(p.Errors) == 0 {
		return cmp.Or(p.Detail, p.Title)
	}

	first := p.Errors[0]
	if member := memberOfItem.ReplaceAllString(first.Location, ""); member != "" {
		return member + ": " + first.Message
	}

	return first.Message
}

// save writes the progress file atomically.
func (im *importer) save() error {
	if im.path == "" {
		return nil
	}

	raw, err := json.Marshal(im.progress)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}

	tmp, err := os.CreateTemp(filepath.Dir(im.path), filepath.Base(im.path)+".*")
	if err != nil {
		return fmt.Errorf("save the progress: %w", err)
	}

	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), im.path)
	}

	if err != nil {
		return fmt.Errorf("save the progress: %w", errors.Join(err, os.Remove(tmp.Name())))
	}

	return nil
}

func (im *importer) finish() error {
	if im.path != "" {
		if err := os.Remove(im.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the progress file: %w", err)
		}
	}

	if im.Refused > shownRefusals {
		im.app.complain("and %d more were refused", im.Refused-shownRefusals)
	}

	if im.app.json {
		if err := im.app.sayValue(map[string]int{"created": im.Created, "kept": im.Kept, "refused": im.Refused, "ended": im.Ended,
			"put_back": im.Put, "unsent": im.Unsent}); err != nil {
			return err
		}
	} else {
		im.app.say("%d created, %d kept already, %d refused\n", im.Created, im.Kept, im.Refused)
		if im.Unsent > 0 {
			im.app.say("%d of those kept are dead or cancelled and not sent\n", im.Unsent)
		}

		if im.Put > 0 {
			im.app.say("%d restored\n", im.Put)
		}

		if im.Ended > 0 {
			im.app.say("%d finalized, skipped; --ended schedules them again\n", im.Ended)
		}
	}

	if im.Refused > 0 {
		return errQuiet
	}

	return nil
}

// unsent counts a line whose notice is dead or cancelled, and prints the first ones.
func (im *importer) unsent(text string) {
	if im.Unsent++; im.Unsent <= shownRefusals {
		im.app.complain("%s", clean(text))
	}
}

// refuse counts a refused line, and prints the first ones.
func (im *importer) refuse(text string) {
	if im.Refused++; im.Refused <= shownRefusals {
		im.app.complain("%s", clean(text))
	}
}
