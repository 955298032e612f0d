package record

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// PutRow writes a row into the table in a section of a page. It replaces the row with the same number, which is the
// first cell. Rows are sorted by number: 2, 2.1, 10. So several test runs can fill one table.
func PutRow(path, name string, header, row []string) error {
	old, err := Section(path, name)
	if err != nil {
		return err
	}

	rows := map[string]string{row[0]: line(row)}
	for l := range strings.Lines(old) {
		_, no, _ := strings.Cut(l, "|")
		no, _, _ = strings.Cut(no, "|")
		no = strings.TrimSpace(no)
		if _, err := number(no); err == nil && no != row[0] {
			rows[no] = l
		}
	}

	order := make([]string, 0, len(rows))
	for no := range rows {
		order = append(order, no)
	}

	slices.SortFunc(order, func(a, b string) int {
		x, _ := number(a)
		y, _ := number(b)
		return slices.Compare(x, y)
	})
	var table strings.Builder
	table.WriteString(line(header) + strings.Repeat("|---", len(header)) + "|\n")
	for _, no := range order {
		table.WriteString(rows[no])
	}

	return Write(path, name, table.String())
}

func line(cells []string) string {
	safe := make([]string, len(cells))
	for i, c := range cells {
		safe[i] = strings.ReplaceAll(strings.Join(strings.Fields(c), " "), "|", `\|`)
	}

	return "| " + strings.Join(safe, " | ") + " |\n"
}

// number reads 2.1 as 2 and 1.
func number(s string) ([]int, error) {
	var parts []int
	for p := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(p)
		if err != nil {
			return nil, fmt.Errorf("the number of a row: %w", err)
		}

		parts = append(parts, n)
	}

	return parts, nil
}

// Section is the text of a section.
func Section(path, name string) (string, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read the record: %w", err)
	}

	begin, end := marks(name)
	_, rest, ok := strings.Cut(string(page), begin)
	text, _, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("%s has no section %s", path, name)
	}

	return text, nil
}
